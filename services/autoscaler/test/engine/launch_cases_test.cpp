// Launches for pending gangs, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace launch_cases_test {

TEST(Launch, TakesTheCheapestTypeForTheWholeGang) {
  expect(R"(
    pool p types=a8,g1,g4,h8
    -- four of g1 cost 4, one g4 costs 5
    want w/1 4x1
    => launch p-00001 g1 on-demand
    => launch p-00002 g1 on-demand
    => launch p-00003 g1 on-demand
    => launch p-00004 g1 on-demand
    => promise w/1 by=240 p-00001 p-00002 p-00003 p-00004
    want v/1 1x4
    => launch p-00005 g4 on-demand
    => promise v/1 by=240 p-00005
    want u/1 2x8
    => launch p-00006 a8 on-demand
    => launch p-00007 a8 on-demand
    => promise u/1 by=240 p-00006 p-00007
  )");
}

TEST(Launch, OnlyPodsWithoutRoomOnRunningNodesGetInstances) {
  expect(R"(
    pool p types=h8
    -- two of four pods fit running nodes
    want w/1 4x8 room=2
    => launch p-00001 h8 on-demand
    => launch p-00002 h8 on-demand
    => promise w/1 by=240 p-00001 p-00002
  )");
  // Of several sets, each has its own room; the new instances are in its zone.
  expect(R"(
    pool p types=g1,h8 zones=za,zb
    want w/1 2x1+3x8 room=2,1 roomzone=zb
    => launch p-00001 h8 on-demand zb
    => launch p-00002 h8 on-demand zb
    => promise w/1 by=240 p-00001 p-00002
  )");
  // Without an offering in the zone of the room, all of its pods get instances.
  expect(R"(
    pool p types=h8 zones=za
    want w/1 2x8 room=1 roomzone=zb
    => launch p-00001 h8 on-demand za
    => launch p-00002 h8 on-demand za
    => promise w/1 by=240 p-00001 p-00002
  )");
}

TEST(Launch, PodsThatARunningGangLacksComeAfterPendingGangs) {
  expect(R"(
    pool p types=h8 nodes=2
    want w/1 1x8 runs
    => launch p-00001 h8 on-demand
    => promise w/1 by=240 p-00001
  )");
  // The pending gang is younger, and the limit is enough for one of them.
  expect(R"(
    pool p types=h8 nodes=1
    owner * karpenter
    want w/1 1x8 runs
    tick 60
    want v/1 1x8
    owner * quartermaster
    => launch p-00001 h8 on-demand
    => promise v/1 by=300 p-00001
  )");
}

TEST(Launch, PodsThatARunningGangLacksGetAsManyInstancesAsTheLimitAllows) {
  expect(R"(
    pool p types=h8 nodes=3
    want w/1 2x8+3x8 runs
    => launch p-00001 h8 on-demand
    => launch p-00002 h8 on-demand
    => launch p-00003 h8 on-demand
    => promise w/1 by=240 p-00001 p-00002 p-00003
    -- a pending gang is launched whole or not at all, and the rest of w when those of its first three are used
    pool p types=h8 nodes=6
    want v/1 4x8
  )");
  EXPECT_NE(why("pool p types=h8 nodes=0\nwant w/1 2x8+3x8 runs").find("w/1 runs without 5 of its pods for"),
            std::string::npos);
}

TEST(Launch, ExcludedZonesAreNotAskedFor) {
  expect(R"(
    pool p types=a8 not-zones=z1
    -- no zone is known: the cloud could choose z1
    want w/1 1x8
    -- a pod's own zone, if it is not excluded
    want v/1 1x8 select=topology.kubernetes.io/zone=z1
    want u/1 1x8 select=topology.kubernetes.io/zone=z2
    -- by this one a zone is known to the others
    => launch p-00001 a8 on-demand z2
    => launch p-00002 a8 on-demand z2
    => promise u/1 by=240 p-00001
    => promise w/1 by=240 p-00002
  )");
  expect(R"(
    pool p types=a8 not-zones=z1,z3 markets=od,spot
    price a8 z1 5
    => price a8 z1 5.00
    price a8 z2 30
    => price a8 z2 30.00
    price a8 z3 6
    => price a8 z3 6.00
    want w/1 1x8
    => launch p-00001 a8 spot z2
    => promise w/1 by=240 p-00001
  )");
  EXPECT_NE(why("pool p types=a8 not-zones=z1\nwant w/1 1x8").find("the NodePools exclude every zone that is known"),
            std::string::npos);
}

TEST(Launch, LabelsThatThePoolLeavesOpenAreChosenByThePods) {
  expect(R"(
    pool p types=a8 rule=team=blue,red rule=tier!=slow rule=disk rule=gen>=3
    -- the lowest of each, where one is needed
    want w/1 1x8
    => launch p-00001 a8 on-demand disk=0 gen=3 team=blue tier=0
    => promise w/1 by=240 p-00001
    want v/1 1x8 select=team=red select=tier=fast select=disk=nvme select=gen=7
    => launch p-00002 a8 on-demand disk=nvme gen=7 team=red tier=fast
    => promise v/1 by=240 p-00002
    -- what is not allowed
    want a/1 1x8 select=team=green
    want b/1 1x8 select=tier=slow
    want c/1 1x8 select=gen=2
    want d/1 1x8 select=gen=many
    want e/1 1x8 select=other=x
  )");
  // An instance with another label value does not fit it, although it has capacity.
  expect(R"(
    pool p types=a8 rule=team=blue,red
    want w/1 1x4 select=team=blue
    => launch p-00001 a8 on-demand team=blue
    => promise w/1 by=240 p-00001
    want v/1 1x4 select=team=red
    => launch p-00002 a8 on-demand team=red
    => promise v/1 by=240 p-00002
    want u/1 1x4 select=team=blue
    => promise u/1 by=240 p-00001
  )");
}

TEST(Launch, PodSetsThatSelectDifferentValuesOfAnOpenLabelGetTheLabelInTheReason) {
  const std::string pool = "pool p types=a8 rule=team=blue,red\n";
  const std::string message = "select different values of the label team";
  EXPECT_NE(why(pool + "want w/1 1x8+1x8 select0=team=blue select1=team=red").find(message), std::string::npos);
  // The labels of another pool have no effect; a forbidden value has another message.
  EXPECT_EQ(
      why(pool + "want w/1 1x8+1x8 select0=team=blue select1=team=green"),
      "w/1 is pending for 0 s: no NodePool matches the node selector, the affinity and the tolerations of its pods; change them, or labels, taints and requirements of a NodePool");
  expect(pool + R"(
    want w/1 1x8+1x8 select1=team=red
    => launch p-00001 a8 on-demand team=red
    => launch p-00002 a8 on-demand team=red
    => promise w/1 by=240 p-00001 p-00002
  )");
}

TEST(Launch, ALimitOfNodesIsKept) {
  expect(R"(
    pool p types=g1 nodes=3
    want w/1 2x1
    => launch p-00001 g1 on-demand
    => launch p-00002 g1 on-demand
    => promise w/1 by=240 p-00001 p-00002
    want v/1 2x1
    want u/1 1x1
    => launch p-00003 g1 on-demand
    => promise u/1 by=240 p-00003
  )");
  EXPECT_NE(
      why("pool p types=g1 nodes=1\nwant w/1 2x1").find("NodePool p has the limit nodes 1: 0 in use, 2 more needed"),
      std::string::npos);
}

TEST(Static, HasItsReplicasWhateverTheDemand) {
  expect(R"(
    pool s types=h8,a8 replicas=2
    => launch s-00001 a8 on-demand
    => launch s-00002 a8 on-demand
    -- nothing more is launched from it for a gang, but what comes is used
    want w/1 3x8
    want v/1 1x8
    => promise v/1 by=240 s-00001
    up s-00001 i-1 n1
    up s-00002 i-2 n2
    -- empty, and kept
    tick 86400
    => withdrawn v/1
    -- one is lost and replaced
    cloud i-1 stopped=86400
    => claim s-00001 Gone i-1 stopped=86400
    => launch s-00003 a8 on-demand
  )");
}

TEST(Static, TakesWhatTheCloudHasAndKeepsItsLimit) {
  expect(R"(
    pool s types=h8,a8 replicas=3 nodes=2
    => launch s-00001 a8 on-demand
    => launch s-00002 a8 on-demand
    ice s-00001
    => claim s-00001 Failed
    => launch s-00003 h8 on-demand
  )");
  EXPECT_NE(
      why("pool s types=a8 replicas=3 nodes=2\n=> launch s-00001 a8 on-demand\n=> launch s-00002 a8 on-demand")
          .find("NodePool s has 2 of 3 replicas: NodePool s has the limit nodes 2: 2 in use, 1 more needed; raise"),
      std::string::npos);
}

TEST(Static, InstancesBeyondTheLimitAreTerminatedWhenEmptyTheNewestFirst) {
  expect(R"(
    pool s types=a8 replicas=3
    => launch s-00001 a8 on-demand
    => launch s-00002 a8 on-demand
    => launch s-00003 a8 on-demand
    up s-00001 i-1 n1 | up s-00002 i-2 n2 | up s-00003 i-3 n3
    node n3 i-3 pods=1
    pool s types=a8 replicas=2
    => drain n2 Empty
    pool s types=a8 replicas=1
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate s-00001 i-1
    node n2 i-2 cordoned
    => terminate s-00002 i-2
    pool s types=a8 replicas=0
    node n3 i-3
    => drain n3 Empty
  )");
}

TEST(Static, WithoutScalingOfOursNothingIsLaunched) {
  expect(R"(
    owner * karpenter
    pool s types=a8 replicas=1
    owner * quartermaster
    => launch s-00001 a8 on-demand
  )");
}

TEST(Static, LaunchesSoManyAtOnce) {
  Options options;
  options.max_launches = 2;
  Script script(options);
  EXPECT_EQ(script.run(R"(
    pool s types=g1 replicas=5
    => launch s-00001 g1 on-demand
    => launch s-00002 g1 on-demand
    tick 1
    => launch s-00003 g1 on-demand
    => launch s-00004 g1 on-demand
    tick 1
    => launch s-00005 g1 on-demand
  )"),
            "");
}

TEST(Launch, PrefersTheHeavierPoolEvenIfMoreExpensive) {
  expect(R"(
    pool cheap types=a8
    pool expensive types=h8 weight=10
    want w/1 1x8
    => launch expensive-00001 h8 on-demand
    => promise w/1 by=240 expensive-00001
  )");
}

// Placed again by priority, d would use both GPUs of p-00001, and one that c holds would appear free.
TEST(Launch, WhatIsPromisedStaysWhereItWasLaid) {
  expect(R"(
    pool p types=h8 gpus=16
    want a/1 1x5
    => launch p-00001 h8 on-demand
    => promise a/1 by=240 p-00001
    want b/1 1x5
    => launch p-00002 h8 on-demand
    => promise b/1 by=240 p-00002
    want c/1 2x2
    => promise c/1 by=240 p-00001 p-00002
    want d/1 2x1 prio=1
    => promise d/1 by=240 p-00001 p-00002
    want e/1 1x1
  )");
}

// S-183: the highest weight first, down to the pool without a weight.
TEST(Launch, GoesThroughThePoolsByWeight) {
  std::string table;
  for (const int weight : {70, 10, 90, 60, 100, 50, 80})
    table += fmt::format("pool w{0} types=a8 gpus=8 weight={0}\n", weight);
  table += "pool unset types=a8 gpus=8\n";
  int n = 0;
  for (const char* pool : {"w100", "w90", "w80", "w70", "w60", "w50", "w10", "unset"}) {
    ++n;
    table += fmt::format("want j{0}/1 1x8\n=> launch {1}-{0:05} a8 on-demand\n=> promise j{0}/1 by=240 {1}-{0:05}\n", n,
                         pool);
  }
  expect(table + "want last/1 1x8");
}

// S-151: of four groups, only the one with the requested product grows.
TEST(Launch, OnlyTheGroupOfTheRightProductGrows) {
  expect(R"(
    pool t types=g1
    pool q types=g4
    pool a types=a8
    pool h types=h8
    want w/1 1x8 model=H100
    => launch h-00001 h8 on-demand
    => promise w/1 by=240 h-00001
  )");
}

TEST(Launch, WeighsSpotZonesAgainstOnDemand) {
  expect(R"(
    pool p types=h8 markets=spot,od zones=z1,z2
    -- spot without a price is not preferred
    want w/1 1x8
    => launch p-00001 h8 on-demand z1
    => promise w/1 by=240 p-00001
    price h8 z1 60
    => price h8 z1 60.00
    price h8 z2 50
    => price h8 z2 50.00
    want v/1 1x8
    => launch p-00002 h8 spot z2
    => promise v/1 by=240 p-00002
    tick 1
    price h8 z2 91
    => price h8 z2 91.00
    price h8 z1 90
    => price h8 z1 90.00
    -- at the same price an on-demand instance is better
    want u/1 1x8
    => launch p-00003 h8 on-demand z1
    => promise u/1 by=241 p-00003
    pool s types=h8 markets=spot zones=z3 weight=5
    -- only spot, no price known: used anyway
    want t/1 1x8
    => launch s-00004 h8 spot z3
    => promise t/1 by=241 s-00004
  )");
}

TEST(Launch, AnOlderPriceAndTheSamePriceChangeNothing) {
  Script script;
  const SpotPricesUpdated seen{{{"h8", "z1", HourlyRate{Money::nano(5)}, script.now()},
                                {"h8", "z1", HourlyRate{Money::nano(4)}, script.now() - std::chrono::seconds(9)},
                                {"h8", "z1", HourlyRate{Money::nano(5)}, script.now() + std::chrono::seconds(9)}}};
  EXPECT_EQ(script.step({seen}).prices.size(), 1U);
  EXPECT_EQ(script.step({seen}).prices.size(), 0U);
}

TEST(Launch, HonoursSelectorsTaintsModelsAndZones) {
  expect(R"(
    pool a types=a8 label=team=x taint=gpu zones=z1,z2
    pool h types=h8
    want w/1 1x8 select=team=x tolerate=gpu
    => launch a-00001 a8 on-demand z1
    => promise w/1 by=240 a-00001
    -- the taint keeps it away from the cheaper pool
    want v/1 1x8
    => launch h-00002 h8 on-demand
    => promise v/1 by=240 h-00002
    want u/1 1x8 model=H100 select=topology.kubernetes.io/zone=z9
    => launch h-00003 h8 on-demand z9
    => promise u/1 by=240 h-00003
    want t/1 1x8 tolerate=gpu select=topology.kubernetes.io/zone=z2
    -- of pools with one weight the last by name
    => launch h-00004 h8 on-demand z2
    => promise t/1 by=240 h-00004
    want s/1 1x8 select=karpenter.sh/nodepool=h
    => launch h-00005 h8 on-demand
    => promise s/1 by=240 h-00005
    want r/1 1x8 select=node.kubernetes.io/instance-type=a8
    want q/1 1x8 select=karpenter.sh/capacity-type=spot
    want p/1 1x8 select=disk=fast
    want o/1 1xmig
  )");
}

TEST(Launch, PodSetsShareTheInstancesOfTheGang) {
  expect(R"(
    pool p types=g4
    -- two ranks of 4 GPUs and a launcher of none: it fits next to them
    want w/1 2x4+1x0
    => launch p-00001 g4 on-demand
    => launch p-00002 g4 on-demand
    => promise w/1 by=240 p-00001 p-00002
    -- 3 + 1 GPUs fit one instance
    want v/1 1x3+1x1
    => launch p-00003 g4 on-demand
    => promise v/1 by=240 p-00003
  )");
  expect(R"(
    pool p types=g4
    -- the ranks use all 64 CPUs, so the launcher needs its own instance
    want w/1 1x4+1x0 cpu=64
    => launch p-00001 g4 on-demand
    => launch p-00002 g4 on-demand
    => promise w/1 by=240 p-00001 p-00002
  )");
  expect(R"(
    pool p types=g4
    -- two halves on a device: nine need five devices
    want w/1 9x500m
    => launch p-00001 g4 on-demand
    => launch p-00002 g4 on-demand
    => promise w/1 by=240 p-00001 p-00002
    -- 256 GiB on an instance
    want v/1 3x1 mem=100
    => launch p-00003 g4 on-demand
    => launch p-00004 g4 on-demand
    => promise v/1 by=240 p-00003 p-00004
  )");
}

TEST(Launch, KeepsToEachLimit) {
  for (const char* limit : {"gpus=16", "cpu=256", "mem=1024"}) {
    EXPECT_EQ(Script().run(fmt::format(R"(
      pool p types=a8 {}
      want w/1 1x8
      => launch p-00001 a8 on-demand
      => promise w/1 by=240 p-00001
      -- two would be three
      want v/1 2x8
      want u/1 1x8
      => launch p-00002 a8 on-demand
      => promise u/1 by=240 p-00002
      want t/1 1x1
    )",
                                       limit)),
              "");
  }
}

TEST(Launch, ALighterPoolTakesWhatTheHeavierMayNot) {
  expect(R"(
    pool a types=a8 gpus=8 weight=9
    pool h types=h8
    want w/1 2x8
    => launch h-00001 h8 on-demand
    => launch h-00002 h8 on-demand
    => promise w/1 by=240 h-00001 h-00002
  )");
}

TEST(Launch, SharesTheCapacityOfLaunchedInstances) {
  expect(R"(
    pool p types=a8 gpus=8
    want w/1 1x4
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    tick 60
    want v/1 1x4
    => promise v/1 by=300 p-00001
    -- it is full
    want u/1 1x1
  )");
  expect(R"(
    pool p types=a8 gpus=8
    want w/1 1x1 cpu=100
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    -- seven GPUs are left, and 28 CPUs
    want v/1 1x1 cpu=29
    want u/1 1x1 cpu=28
    => promise u/1 by=240 p-00001
  )");
}

TEST(Launch, ServesPriorityThenWaitingTime) {
  expect(R"(
    want a/1 1x8
    tick 1
    want b/1 1x8
    want c/1 1x8 prio=9
    pool p types=a8 gpus=16
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise c/1 by=241 p-00001
    => promise a/1 by=241 p-00002
  )");
}

TEST(Launch, StaysWithinTheInstancesOfOneStep) {
  Options options;
  options.max_launches = 2;
  Script script(options);
  EXPECT_EQ(script.run(R"(
    want a/1 2x8
    want b/1 3x8
    pool p types=a8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise a/1 by=240 p-00001 p-00002
  )"),
            "");
  EXPECT_EQ(script.engine().explain(script.now()).at(1),
            "b/1 is pending for 0 s: it needs more than 2 instances, the limit of one launch");
}

TEST(Launch, ANodePoolThatIsNotReadyIsNotUsed) {
  // The pool of the higher weight has no resolved class; the other one is used.
  expect(R"(
    pool p types=a8 weight=9 unready=no-subnet
    pool q types=h8
    want w/1 1x8
    => launch q-00001 h8 on-demand
    => promise w/1 by=240 q-00001
  )");
  // Without another pool the reason is shown; its instances remain, and it is used as soon as it is ready.
  expect(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    pool p types=a8 unready=no-subnet
    runs w/1 n1
    want v/1 1x8
    pool p types=a8
    => launch p-00002 a8 on-demand
    => promise v/1 by=240 p-00002
  )");
  EXPECT_EQ(why("pool p types=a8 unready=no-subnet\nwant w/1 1x8"),
            "w/1 is pending for 0 s: NodePool p is not ready: no-subnet");
  EXPECT_EQ(why("pool p types=a8 replicas=1 unready=no-subnet\nwant w/1 1x8").find("launch"), std::string::npos);
}

TEST(Launch, AWorkloadIsNamed) {
  Script script;
  (void)script.step({WorkloadUpdated{WorkloadUid("w"), 1, false, false, "team", "Job", "train"}});
  EXPECT_EQ(script.run("pool p types=a8 gpus=4\nwant w/1 1x8"), "");
  EXPECT_EQ(
      script.engine().explain(script.now()).at(0),
      "team/train is pending for 0 s: NodePool p has the limit nvidia.com/gpu 4: 0 in use, 8 more needed; raise spec.limits of the "
      "NodePool");
}

TEST(Launch, ExplainsWhatIsInTheWay) {
  EXPECT_EQ(why("want w/1 1x8"), "w/1 is pending for 0 s: no NodePool is configured");
  EXPECT_EQ(
      why("pool p types=g1\nwant w/1 1x8"),
      "w/1 is pending for 0 s: no NodePool allows an instance type that its pods fit on; allow a8 in spec.template.spec.requirements of NodePool p");
  EXPECT_EQ(
      why("pool p types=a8\nwant w/1 1x9"),
      "w/1 is pending for 0 s: no instance type of the price catalog fits a pod of pod set set0; make its pods smaller");
  EXPECT_EQ(
      why("pool p types=a8 gpus=4\nwant w/1 1x8"),
      "w/1 is pending for 0 s: NodePool p has the limit nvidia.com/gpu 4: 0 in use, 8 more needed; raise spec.limits of the NodePool");
  EXPECT_EQ(why(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
  )"),
            "w/1 is pending for 0 s: 1 instance(s) of a8 on-demand are expected by 1970-01-12T13:50:40Z");
}

}  // namespace launch_cases_test
}  // namespace qm::autoscaler::testing
