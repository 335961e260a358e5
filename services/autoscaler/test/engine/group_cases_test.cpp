// Pools whose instances an Auto Scaling group launches, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace group_cases_test {

TEST(Group, IsResizedToTheClaimsWhichGetItsInstancesOldestFirst) {
  expect(R"(
    show claims
    pool p types=a8 group=asg
    want w/1 2x8
    => claim p-00001 Requested
    => claim p-00002 Requested
    => promise w/1 by=240 p-00001 p-00002
    => group asg 2
    cloud i-9 type=a8 node=n9 group=asg
    => claim p-00001 Launched i-9
    cloud i-1 type=a8 node=n1 group=asg
    => claim p-00002 Launched i-1
    -- the same look again changes nothing
    cloud i-1
    node n9 i-9 | node n1 i-1
    => claim p-00001 Ready i-9
    => claim p-00002 Ready i-1
  )");
}

TEST(Group, AnUnrequestedInstanceIsAdopted) {
  expect(R"(
    show claims
    pool p types=a8 group=asg after=60
    -- what an operator or the group's minimum had started: no size is requested until something is known
    cloud i-1 type=a8 node=n1 group=asg
    => claim i-1 Launched i-1
    => group asg 1
    want w/1 1x8
    => promise w/1 by=240 i-1
    node n1 i-1
    => claim i-1 Ready i-1
  )");
}

TEST(Group, OfAnotherClusterIsOnlyReported) {
  expect(R"(
    show claims
    pool p types=a8 group=asg
    cloud i-1 type=a8 node=n1 group=other
    => claim i-1 Launched i-1
    want w/1 1x8
    => claim p-00001 Requested
    => promise w/1 by=240 p-00001
    => group asg 1
    tick 1000
    => claim p-00001 Failed
    => withdrawn w/1
    -- the launch that was given up may still come, so the size stays; the next request uses it
    tick 180
    => claim p-00002 Requested
    => promise w/1 by=1420 p-00002
  )");
}

TEST(Group, AnEmptyInstanceIsTerminatedThroughItsGroupEvenWithoutThePool) {
  expect(R"(
    pool p types=a8 group=asg after=60
    want w/1 2x8
    => promise w/1 by=240 p-00001 p-00002
    => group asg 2
    cloud i-1 type=a8 node=n1 group=asg | cloud i-2 type=a8 node=n2 group=asg
    node n1 i-1 | node n2 i-2
    unwant w | node n1 i-1 pods=1
    tick 60
    => drain n2 Empty
    node n2 i-2 cordoned
    => terminate p-00002 i-2 in asg
    => group asg 1
    cloud i-2 stopped=61
    => claim p-00002 Gone i-2 stopped=61
    pool-gone p
    node n1 i-1
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate p-00001 i-1 in asg
  )");
}

TEST(Group, ARefusedSizeFailsWhatWaitsForItAndTheNextPoolIsTried) {
  expect(R"(
    pool p types=a8 group=asg weight=9
    pool q types=h8
    want w/1 1x8
    => promise w/1 by=240 p-00001
    => group asg 1
    group-refused asg 0 group asg takes at most 0 machines
    => claim p-00001 Failed
    => launch q-00002 h8 on-demand
    => promise w/1 by=240 q-00002
    => group asg 0
  )");
}

// S-152: bounds, and labels and taints of the pool as the template for scaling from zero.
TEST(Group, GrowsFromZeroToItsBoundForThoseThatItsLabelsAndTaintsAllow) {
  expect(R"(
    pool p types=h8 group=asg label=workload=training taint=nvidia.com/gpu
    want intruder/1 1x8 select=workload=training
    want stranger/1 1x8 select=workload=serving tolerate=nvidia.com/gpu
    want a/1 2x8 prio=9 select=workload=training tolerate=nvidia.com/gpu | want b/1 2x8 select=workload=training tolerate=nvidia.com/gpu
    => promise a/1 by=240 p-00001 p-00002
    => promise b/1 by=240 p-00003 p-00004
    => group asg 4
    -- its bound is three: the more urgent gang keeps its instances, and no part of the other is launched
    group-refused asg 3 group asg takes at most 3 machines
    => claim p-00003 Failed
    => claim p-00004 Failed
    => withdrawn b/1
    => group asg 2
    cloud i-1 type=h8 node=n1 group=asg | cloud i-2 type=h8 node=n2 group=asg
  )");
}

// S-166: of two pending pods, production scales up the on-demand group and training the spot group, each by one
// instance of the same type. Without the selectors the pool with the higher weight gets both.
TEST(Group, ProductionGrowsReliableCapacityAndTrainingSpot) {
  expect(R"(
    pool reliable types=h8 group=h100-ondemand-asg markets=od weight=9 label=karpenter.sh/capacity-type=on-demand
    pool cheap types=h8 group=h100-spot-asg markets=spot weight=1 label=karpenter.sh/capacity-type=spot
    want prod/1 1x8 select=karpenter.sh/capacity-type=on-demand | want train/1 1x8 select=karpenter.sh/capacity-type=spot
    => promise prod/1 by=240 reliable-00001
    => promise train/1 by=240 cheap-00002
    => group h100-ondemand-asg 1
    => group h100-spot-asg 1
  )");
  expect(R"(
    pool reliable types=h8 group=h100-ondemand-asg markets=od weight=9 label=karpenter.sh/capacity-type=on-demand
    pool cheap types=h8 group=h100-spot-asg markets=spot weight=1 label=karpenter.sh/capacity-type=spot
    want prod/1 1x8 | want train/1 1x8
    => promise prod/1 by=240 reliable-00001
    => promise train/1 by=240 reliable-00002
    => group h100-ondemand-asg 2
  )");
}

TEST(Group, TheMoreUrgentGangIsServedThoughItCameLater) {
  expect(R"(
    pool p types=a8 group=asg
    want low/1 3x8
    => promise low/1 by=240 p-00001 p-00002 p-00003
    => group asg 3
    want high/1 1x8 prio=9
    => promise high/1 by=240 p-00004
    => group asg 4
    group-refused asg 3 group asg takes at most 3 machines
    => claim p-00001 Failed
    => claim p-00002 Failed
    => claim p-00003 Failed
    => withdrawn low/1
    => group asg 1
  )");
}

TEST(Group, OfReplicasBeyondItsBoundOnlyTheNewestGoWithout) {
  expect(R"(
    show claims
    pool p types=a8 group=asg replicas=5
    => claim p-00001 Requested
    => claim p-00002 Requested
    => claim p-00003 Requested
    => claim p-00004 Requested
    => claim p-00005 Requested
    => group asg 5
    group-refused asg 3 group asg takes at most 3 machines
    => claim p-00004 Failed
    => claim p-00005 Failed
    => group asg 3
    cloud i-1 type=a8 node=n1 group=asg
    => claim p-00001 Launched i-1
    cloud i-2 type=a8 node=n2 group=asg
    => claim p-00002 Launched i-2
    cloud i-3 type=a8 node=n3 group=asg
    => claim p-00003 Launched i-3
    -- existing ones stay, however often more are requested
    tick 180
    => claim p-00006 Requested
    => claim p-00007 Requested
    => group asg 5
    group-refused asg 3 group asg takes at most 3 machines
    => claim p-00006 Failed
    => claim p-00007 Failed
    => group asg 3
  )");
}

TEST(Group, AtItsBoundTheSameTypeIsTakenFromTheNextPool) {
  expect(R"(
    pool p types=a8 group=asg weight=9
    pool q types=a8
    want w/1 1x8
    => promise w/1 by=240 p-00001
    => group asg 1
    group-refused asg 0 group asg takes at most 0 machines
    => claim p-00001 Failed
    => launch q-00002 a8 on-demand
    => promise w/1 by=240 q-00002
    => group asg 0
  )");
}

TEST(Group, AnInstanceOfAnotherTypeThanExpectedFulfillsTheClaim) {
  expect(R"(
    show claims
    pool p types=a8 group=asg
    want w/1 1x8
    => claim p-00001 Requested
    => promise w/1 by=240 p-00001
    => group asg 1
    cloud i-1 type=h8 spot node=n1 group=asg
    => claim p-00001 Launched i-1
  )");
}

TEST(Group, AnInstanceKnownBeforeItsPoolNamedTheGroupIsAdopted) {
  expect(R"(
    show claims
    cloud i-1 type=a8 node=n1 group=asg
    => claim i-1 Launched i-1
    node n1 i-1
    => claim i-1 Ready i-1
    pool p types=a8 group=asg after=60
    => group asg 1
    cloud i-1 zone=z1
    => claim i-1 Ready i-1
    tick 60
    => claim i-1 Draining i-1
    => drain n1 Empty
  )");
}

TEST(Group, AGroupThatDoesNotDeliverKeepsItsSizeAndTheInstanceIsUsedLater) {
  expect(R"(
    pool p types=a8 group=asg weight=9
    pool q types=h8
    want w/1 2x8
    => promise w/1 by=240 p-00001 p-00002
    => group asg 2
    cloud i-1 type=a8 node=n1 group=asg
    tick 240
    => promise w/1 by=300 p-00001 p-00002
    node n1 i-1
    tick 660
    => claim p-00002 Failed
    => launch q-00003 h8 on-demand
    => promise w/1 by=1140 p-00001 q-00003
    -- it started after all: it fulfills the claim that was given up
    cloud i-2 type=a8 node=n2 group=asg
  )");
}

TEST(Group, LimitsOfItsPoolHold) {
  Script script;
  EXPECT_EQ(script.run(R"(
    pool p types=a8 group=asg gpus=8
    want w/1 2x8
  )"),
            "");
  EXPECT_NE(script.engine().explain(script.now()).at(0).find("limit"), std::string::npos);
}

TEST(Group, ALostInstanceIsNotReplacedByTheGroup) {
  expect(R"(
    pool p types=a8 group=asg after=60
    want w/1 1x8
    => promise w/1 by=240 p-00001
    => group asg 1
    cloud i-1 type=a8 node=n1 group=asg
    node n1 i-1 pods=1 | unwant w
    cloud i-1 stopped=5
    => claim p-00001 Gone i-1 stopped=5
    => group asg 0
    -- the group had made another before it received the update: it is known, used or ended
    cloud i-2 type=a8 node=n2 group=asg
    => group asg 1
  )");
}

}  // namespace group_cases_test
}  // namespace qm::autoscaler::testing
