// Gangs that may run with fewer pods than they request: they start with what fits, scale up, lose
// members and continue.
#include "script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace elastic_test {

void expect(const std::string& table, Options options = {}) { EXPECT_EQ(Script(std::move(options)).run(table), ""); }

Options racks() {
  Options options;
  options.topology = {"block", "rack"};
  return options;
}

/// One pod of two runs, and its pending pod is on the demand list.
const std::string kOneOfTwo = R"(
    node a gpus=1
    synced
    want w/1 2x1 min=1
    => reserved w/1 0:a[0]
    phase w/1 admitted
    => reserved w/1 0:a[0]
    pod w/1#0 on=a running | pod w/1#1
    => bound w/1 0:a[0]*
    => demand w/1+1
)";

TEST(Elastic, StartsWithFreeCapacityAndScalesUp) {
  expect(R"(
    node a gpus=4
    node b gpus=2
    synced
    want w/1 4x2 min=2
    => reserved w/1 0:a[0,1] 1:a[2,3] 2:b[0,1]
    phase w/1 admitted
    => reserved w/1 0:a[0,1] 1:a[2,3] 2:b[0,1]
    -- the fourth pod exists, too, and is pending
    pod w/1#0 | pod w/1#1 | pod w/1#2 | pod w/1#3
    => reserved w/1 0:a[0,1] 1:a[2,3] 2:b[0,1]
    => demand w/1+1
    => bind w/1#0 -> a [0,1]
    => bind w/1#1 -> a [2,3]
    => bind w/1#2 -> b [0,1]
    pod w/1#0 on=a running | pod w/1#1 on=a running | pod w/1#2 on=b running
    => bound w/1 0:a[0,1]* 1:a[2,3]* 2:b[0,1]*
    node c gpus=8
    => bound w/1 0:a[0,1]* 1:a[2,3]* 2:b[0,1]* 3:c[0,1]
    => demand
    => bind w/1#3 -> c [0,1]
    pod w/1#3 on=c running
    => bound w/1 0:a[0,1]* 1:a[2,3]* 2:b[0,1]* 3:c[0,1]*
    -- never above its request
    pod w/1#4
    node d gpus=8
  )");
}

TEST(Elastic, IsPendingWithoutMinimumOfEachSet) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 4x2 min=3
    => short w/1 2 of 3 pods fit: 1 eligible nodes have 4 free GPUs, needs 6
    => demand w/1
    node b gpus=2
    => reserved w/1 0:a[0,1] 1:a[2,3] 2:b[0,1]
    => demand
  )");
}

TEST(Elastic, FullSizeIsPlacedLikeAFixedGang) {
  expect(R"(
    node a gpus=2
    node b gpus=8
    synced
    want w/1 4x2 min=1
    => reserved w/1 0:b[0,1] 1:b[2,3] 2:b[4,5] 3:b[6,7]
  )");
}

TEST(Elastic, ElasticSetNextToFixedSet) {
  Script script;
  ASSERT_EQ(script.run("node a gpus=4\nsynced\n"), "");
  auto leader = pod_set(1, 1), workers = pod_set(6, 1);
  workers.min_count = 2;
  const auto placed = script.engine().dry_run({leader, workers});
  ASSERT_TRUE(placed.plan) << placed.shortfall.reason;
  EXPECT_EQ(placed.plan->members.size(), 4U);
  leader.count = 3;
  EXPECT_EQ(script.engine().dry_run({leader, workers}).plan, std::nullopt);
}

// Higher priority comes first; within a priority, a workload without a placement comes before a missing member.
TEST(Elastic, MissingMemberDoesNotOvertakePendingWorkload) {
  expect(R"(
    node a gpus=2
    synced
    want w/1 3x1 min=2 prio=5
    => reserved w/1 0:a[0] 1:a[1]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:a[1]
    pod w/1#0 on=a running | pod w/1#1 on=a running | pod w/1#2
    => bound w/1 0:a[0]* 1:a[1]*
    => demand w/1+1
    want u/1 1x1 prio=5
    => short u/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs that a pod requests
    => demand u/1 w/1+1
    want v/1 1x1 prio=4
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs that a pod requests
    => demand u/1 v/1 w/1+1
    node b gpus=1
    => reserved u/1 0:b[0]
    => demand v/1 w/1+1
    node c gpus=1
    => bound w/1 0:a[0]* 1:a[1]* 2:c[0]
    => demand v/1
    => bind w/1#2 -> c [0]
    node d gpus=1
    => reserved v/1 0:d[0]
    => demand
  )");
}

TEST(Elastic, SurvivesLostNodeAndScalesUpAgain) {
  expect(R"(
    node a gpus=2
    node b gpus=1
    synced
    want w/1 3x1 min=2
    => reserved w/1 0:a[0] 1:a[1] 2:b[0]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:a[1] 2:b[0]
    pod w/1#0 on=a running | pod w/1#1 on=a running | pod w/1#2 on=b running
    => bound w/1 0:a[0]* 1:a[1]* 2:b[0]*
    node-gone b
    => bound w/1 0:a[0]* 1:a[1]* 2:b[0]*-
    => delete w/1#2 grace=0
    pod-gone w/1#2
    -- no place is held for a pod that is not created again
    node c gpus=1
    pod w/1#2 again=x
    => bound w/1 0:a[0]* 1:a[1]* 2:b[0]*- 2:c[0]
    => bind w/1#2.x -> c [0]
    pod w/1#2 again=x on=c running
    => bound w/1 0:a[0]* 1:a[1]* 2:b[0]*- 2:c[0]*
    -- below the minimum the attempt ends as that of any gang
    node-gone a
    => bound w/1 0:a[0]*- 1:a[1]*- 2:b[0]*- 2:c[0]*
    => evict w/1 NodeFailure a lost
  )");
}

// Nodes are launched for the demand list, and a gang that holds an assignment is not on it.
TEST(Elastic, AttemptEndsWithoutRunningPodsOrNodes) {
  expect(R"(
    node a gpus=1
    synced
    want w/1 3x1 min=1
    => reserved w/1 0:a[0]
    phase w/1 admitted
    => reserved w/1 0:a[0]
    pod w/1#0 on=a running | pod w/1#1 | pod w/1#2
    => bound w/1 0:a[0]*
    => demand w/1+2
    node a gpus=1 external
    pod w/1#0 on=a succeeded
    => bound w/1 0:a[0]*-
    tick 299
    tick 1
    => bound w/1 0:a[0]*-
    => evict w/1 GangIncomplete
    => demand
  )");
}

TEST(Elastic, ScaleUpInTimeKeepsAttempt) {
  expect(kOneOfTwo + R"(
    node a gpus=1 external
    pod w/1#0 on=a succeeded
    => bound w/1 0:a[0]*-
    tick 200
    node b gpus=1
    => bound w/1 0:a[0]*- 1:b[0]
    => demand
    => bind w/1#1 -> b [0]
    tick 600
  )");
}

TEST(Elastic, LostMemberThatNeverRanIsForgotten) {
  expect(R"(
    node a gpus=1
    node b gpus=1
    synced
    want w/1 2x1 min=1
    => reserved w/1 0:a[0] 1:b[0]
    node-gone b
    => reserved w/1 0:a[0]
  )");
}

TEST(Elastic, PlacesWithoutPodsExpire) {
  expect(R"(
    node a gpus=3
    synced
    want w/1 3x1 min=2
    => reserved w/1 0:a[0] 1:a[1] 2:a[2]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:a[1] 2:a[2]
    pod w/1#0 on=a running | pod w/1#1 on=a running
    => reserved w/1 0:a[0]* 1:a[1]* 2:a[2]
    tick 300
    => bound w/1 0:a[0]* 1:a[1]*
    want v/1 1x1
    => reserved v/1 0:a[2]
  )");
}

TEST(Elastic, PodDeletedBeforeBindFreesItsPlace) {
  expect(kOneOfTwo + R"(
    node b gpus=1
    => bound w/1 0:a[0]* 1:b[0]
    => demand
    => bind w/1#1 -> b [0]
    pod-gone w/1#1
    => bound w/1 0:a[0]*
    want v/1 1x1
    => reserved v/1 0:b[0]
  )");
}

// A finished rank is not missing; identical pods without an index fill the lowest missing ranks.
TEST(Elastic, SucceededMemberIsNotMissing) {
  expect(R"(
    node a gpus=2
    synced
    want w/1 4x1 min=2
    => reserved w/1 0:a[0] 1:a[1]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:a[1]
    pod w/1#-1 again=p on=a running | pod w/1#-1 again=q on=a running | pod w/1#-1 again=r | pod w/1#-1 again=s
    => bound w/1 0:a[0]* 1:a[1]*
    => demand w/1+2
    pod w/1#-1 again=p on=a succeeded
    => bound w/1 0:a[0]*- 1:a[1]* 2:a[0]
    => demand w/1+1
    => bind w/1#-1.r -> a [0]
  )");
}

TEST(Elastic, ScalesUpInsideRequiredDomain) {
  expect(R"(
    node a1 gpus=2 label=block=b label=rack=r1
    node b1 gpus=1 label=block=b label=rack=r2
    synced
    want w/1 3x1 min=2 required=rack
    => reserved w/1 0:a1[0] 1:a1[1]
    phase w/1 admitted
    => reserved w/1 0:a1[0] 1:a1[1]
    pod w/1#0 on=a1 running | pod w/1#1 on=a1 running | pod w/1#2
    => bound w/1 0:a1[0]* 1:a1[1]*
    => demand w/1+1@rack=r1
    node b2 gpus=8 label=block=b label=rack=r2
    node a2 gpus=8 label=block=b label=rack=r1
    => bound w/1 0:a1[0]* 1:a1[1]* 2:a2[0]
    => demand
    => bind w/1#2 -> a2 [0]
  )",
         racks());
}

TEST(Elastic, ScalesUpPreferablyNearby) {
  expect(R"(
    node a1 gpus=2 label=block=b label=rack=r1
    synced
    want w/1 4x1 min=2 preferred=rack
    => reserved w/1 0:a1[0] 1:a1[1]
    phase w/1 admitted
    => reserved w/1 0:a1[0] 1:a1[1]
    pod w/1#0 on=a1 running | pod w/1#1 on=a1 running | pod w/1#2 | pod w/1#3
    => bound w/1 0:a1[0]* 1:a1[1]*
    => demand w/1+2
    node a2 gpus=1 label=block=b label=rack=r1 | node b1 gpus=4 label=block=b label=rack=r2
    => bound w/1 0:a1[0]* 1:a1[1]* 2:a2[0] 3:b1[0]
    => demand
    => bind w/1#2 -> a2 [0]
    => bind w/1#3 -> b1 [0]
  )",
         racks());
}

// The minimum is a number of whole slices, and a slice is added as a whole.
TEST(Elastic, ScalesUpByWholeSlices) {
  expect(R"(
    node a1 gpus=2 label=block=b label=rack=r1
    synced
    want w/1 4x1 min=1 slice=rack slice-size=2
    => reserved w/1 0:a1[0] 1:a1[1]
    phase w/1 admitted
    => reserved w/1 0:a1[0] 1:a1[1]
    pod w/1#0 on=a1 running | pod w/1#1 on=a1 running | pod w/1#2 | pod w/1#3
    => bound w/1 0:a1[0]* 1:a1[1]*
    => demand w/1+2
    node b1 gpus=1 label=block=b label=rack=r2
    node c1 gpus=1 label=block=b label=rack=r3
    node b2 gpus=1 label=block=b label=rack=r2
    => bound w/1 0:a1[0]* 1:a1[1]* 2:b1[0] 3:b2[0]
    => demand
    => bind w/1#2 -> b1 [0]
    => bind w/1#3 -> b2 [0]
  )",
         racks());
}

TEST(Elastic, EvictionOrderEndsWholeGang) {
  expect(kOneOfTwo + R"(
    phase w/1 evicting deadline=60
    => demand
    => delete w/1#0 grace=60
    => delete w/1#1 grace=60
    -- nothing scales up any more
    node b gpus=4
    pod-gone w/1#0 | pod-gone w/1#1
    => released w/1 0:a[0]*-
  )");
}

// A Job that is raised from 2 pods to 4 while it runs: its new pods are pending until admission has
// admitted them, and the running ones stay.
TEST(Elastic, JobScaledUpGetsPlacesForNewPods) {
  expect(R"(
    node a gpus=3
    synced
    want w/1 2x1
    => reserved w/1 0:a[0] 1:a[1]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:a[1]
    pod w/1#0 on=a running | pod w/1#1 on=a running
    => bound w/1 0:a[0]* 1:a[1]*
    -- not yet admitted
    pod w/1#2 | pod w/1#3
    phase w/1 admitted pods=4 min=2
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]
    => demand w/1+1
    => bind w/1#2 -> a [2]
    pod w/1#2 on=a running
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]*
    node b gpus=1
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]* 3:b[0]
    => demand
    => bind w/1#3 -> b [0]
    pod w/1#3 on=b running
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]* 3:b[0]*
    -- a node with added pods may be deleted
    node-gone b
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]* 3:b[0]*-
    => delete w/1#3 grace=0
  )");
}

TEST(Elastic, PodsDeletedBeforePlacementLeaveDemandList) {
  expect(R"(
    node a gpus=2
    synced
    want w/1 2x1
    => reserved w/1 0:a[0] 1:a[1]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:a[1]
    pod w/1#0 on=a running | pod w/1#1 on=a running
    => bound w/1 0:a[0]* 1:a[1]*
    pod w/1#2 | pod w/1#3
    phase w/1 admitted pods=4 min=2
    => bound w/1 0:a[0]* 1:a[1]*
    => demand w/1+2
    pod-gone w/1#3
    => demand w/1+1
    phase w/1 admitted pods=2 min=2
    pod-gone w/1#2
    => demand
  )");
}

// A gang without a minimum runs whole: a new count without a minimum applies to the next attempt.
TEST(Elastic, FixedGangDoesNotScaleUp) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 2x1
    => reserved w/1 0:a[0] 1:a[1]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:a[1]
    pod w/1#0 on=a running | pod w/1#1 on=a running | pod w/1#2
    => bound w/1 0:a[0]* 1:a[1]*
    phase w/1 admitted pods=3
  )");
}

// 4 pods, then 2, then 5: released members are missing again, and their time is kept for the bill.
TEST(Elastic, JobScaledDownScalesUpAgain) {
  expect(R"(
    node a gpus=5
    synced
    want w/1 4x1
    => reserved w/1 0:a[0] 1:a[1] 2:a[2] 3:a[3]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:a[1] 2:a[2] 3:a[3]
    pod w/1#0 on=a running | pod w/1#1 on=a running | pod w/1#2 on=a running | pod w/1#3 on=a running
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]* 3:a[3]*
    pod-gone w/1#2 | pod-gone w/1#3
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]* 3:a[3]*
    phase w/1 admitted ended=2
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]*- 3:a[3]*-
    pod w/1#2 again=x | pod w/1#3 again=x | pod w/1#4
    phase w/1 admitted pods=5 min=2 ended=0
    => bound w/1 0:a[0]* 1:a[1]* 2:a[2]*- 3:a[3]*- 2:a[2] 3:a[3] 4:a[4]
    => bind w/1#2.x -> a [2]
    => bind w/1#3.x -> a [3]
    => bind w/1#4 -> a [4]
  )");
}

// Ranks count over the whole gang; neighbors are the members that exist.
TEST(Elastic, RingSkipsMissingMember) {
  Script script;
  ASSERT_EQ(script.run(R"(
    node a gpus=1
    node b gpus=1
    synced
    want w/1 4x1 min=2
    => reserved w/1 0:a[0] 1:b[0]
    phase w/1 admitted
    => reserved w/1 0:a[0] 1:b[0]
  )"),
            "");
  PodFacts pod;
  pod.uid = "w/1#1";
  pod.ns = "ns";
  pod.name = "w-1";
  pod.owner = pod.controller = WorkloadUid("w");
  pod.attempt = 1;
  pod.index = 1;
  pod.ours = true;
  const auto out = script.step({PodUpdated{pod}});
  ASSERT_EQ(out.intents.size(), 1U);
  EXPECT_EQ(std::get<BindPod>(out.intents[0].what).ring, "rank=1 of=4 previous=a next=a");
}

}  // namespace elastic_test
}  // namespace qm::placement::testing
