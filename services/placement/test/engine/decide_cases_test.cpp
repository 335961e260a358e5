// Which workload is placed where, as text tables: see script.hpp for the words.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace decide_cases_test {

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

TEST(Decide, PrefersFewestNodesThenTightest) {
  expect(R"(
    node a gpus=8
    node b gpus=8
    node c gpus=4
    synced
    want one/1 1x2
    => reserved one/1 0:c[0,1]
    want two/1 4x2
    => reserved two/1 0:a[0,1] 1:a[2,3] 2:a[4,5] 3:a[6,7]
    -- six pods of two need twelve GPUs: b fits four, no node fits the rest
    want big/1 6x2
    => short big/1 5 of 6 pods fit: 3 eligible nodes have 10 free GPUs, needs 12; 1 have fewer than the 2 free GPUs that a pod requests
    => demand big/1
    -- the last two pods use the tightest node that fits them
    want rest/1 5x2
    => reserved rest/1 0:b[0,1] 1:b[2,3] 2:b[4,5] 3:b[6,7] 4:c[2,3]
  )");
}

// A workload that preempted for its quota must not lose its nodes to one that admission decided after it.
TEST(Decide, SimultaneousRequestsFollowQuotaOrder) {
  expect(R"(
    node a gpus=8
    want a-second/1 1x8 position=2
    want z-first/1 1x8 position=1
    synced
    => short a-second/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests
    => reserved z-first/1 0:a[0,1,2,3,4,5,6,7]
    => demand a-second/1
  )");
}

// Which of two nodes is better depends on the other known workloads. While no workload requires
// T4s, the small node is the tighter fit. Once twelve pods that fit only T4s are pending, other
// workloads leave that node to them.
TEST(Decide, ScarceModelsAreReservedForPodsThatNeedThem) {
  expect(R"(
    node a gpus=8
    node t gpus=2 model=T4
    synced
    want any/1 1x1
    => reserved any/1 0:t[0]
  )");
  expect(R"(
    node a gpus=8
    node t gpus=2 model=T4
    synced
    want only/1 12x1 model=T4
    => short only/1 2 of 12 pods fit: 1 eligible nodes have 2 free GPUs, needs 12; 1 with other GPU model H100
    => demand only/1
    want any/1 1x1
    => reserved any/1 0:a[0]
    restart
    nodes-listed a t
    pods-listed
    want some/1 1x1
    => reserved some/1 0:a[1]
  )");
}

// A share is placed where the rest stays useful for the known pods, not on the fullest device: 600
// milli are free on one node and 500 on the other, and four pods of 300 are submitted.
TEST(Decide, SharesMinimizeFragmentation) {
  expect(R"(
    node a gpus=1 label=rack=a
    node b gpus=1 label=rack=b
    synced
    want p/1 1x400m select=rack=a
    => reserved p/1 0:a[0:400]
    want q/1 1x500m select=rack=b
    => reserved q/1 0:b[0:500]
    want four/1 4x300m
    => short four/1 3 of 4 pods fit: 2 eligible nodes
    => demand four/1
    want one/1 1x300m
    => reserved one/1 0:a[0:300]
  )");
}

TEST(Decide, PolicyIsConfigurable) {
  Options spread;
  spread.policy = "spread";
  EXPECT_EQ(Script(spread).run(R"(
    node a gpus=8
    node b gpus=8
    synced
    want one/1 1x1
    => reserved one/1 0:a[0]
    want two/1 1x1
    => reserved two/1 0:b[0]
    want three/1 1x500m
    => reserved three/1 0:a[1:500]
    restart
    nodes-listed a b
    pods-listed
    want four/1 1x1
    => reserved four/1 0:b[1]
  )"),
            "");
}

TEST(Decide, TiesAreBrokenByNodeName) {
  expect(R"(
    node b gpus=8
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
  )");
}

TEST(Decide, SharesUseFullestDeviceThatFits) {
  expect(R"(
    node a gpus=2
    synced
    want half/1 1x500m
    => reserved half/1 0:a[0:500]
    want most/1 1x700m
    => reserved most/1 0:a[1:700]
    want bit/1 2x300m
    => reserved bit/1 0:a[1:300] 1:a[0:300]
    want whole/1 1x1
    => short whole/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs that a pod requests
    => demand whole/1
    want share/1 1x300m
    => short share/1 0 of 1 pods fit: 1 eligible nodes; 1 have no device with 300 milli free
    => demand share/1 whole/1
  )");
}

TEST(Decide, CountsMigInstancesAndCpuAndMemory) {
  expect(R"(
    node a gpus=0 ext=2 cpu=8 mem=16
    synced
    want m/1 2x0 mig=1
    => reserved m/1 0:a[] 1:a[]
    want n/1 1x0 mig=1
    => short n/1 0 of 1 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand n/1
    want c/1 1x0 cpu=7
    => short c/1 0 of 1 pods fit: 1 eligible nodes; 1 lack CPU
    => demand c/1 n/1
    want d/1 1x0 mem=15
    => short d/1 0 of 1 pods fit: 1 eligible nodes; 1 lack memory
    => demand c/1 d/1 n/1
  )");
}

// S-077: among others, the tolerations of an admitted workload.
TEST(Decide, HonorsSelectorTaintModelAndState) {
  expect(R"(
    node a gpus=8 label=pool=train taint=gpu:NoSchedule
    node b gpus=8 model=A100
    node c gpus=8 ready=no
    node d gpus=8 external
    synced
    want w/1 1x8 select=pool=train tolerate=gpu model=H100
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    want v/1 1x8 model=H100
    => short v/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned manually (d); 1 not ready; 1 with other GPU model A100; 1 with taint gpu:NoSchedule not tolerated
    => demand v/1
    want u/1 1x8 select=pool=serve tolerate=gpu
    => short u/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned manually (d); 1 not ready; 2 without label pool=serve
    => demand u/1 v/1
  )");
}

TEST(Decide, PlacesPodSetsAllOrNothing) {
  expect(R"(
    node a gpus=8 cpu=16
    node b gpus=0 cpu=64
    synced
    -- the GPU set is placed first, the launcher joins it
    want w/1 1x0 2x4
    => reserved w/1 0:a[] 0:a[0,1,2,3] 1:a[4,5,6,7]
    want v/1 2x0 1x1
    => short v/1 pod set set1: 0 of 1 pods fit: 2 eligible nodes have 0 free GPUs, needs 1; 2 have fewer than the 1 free GPUs that a pod requests
    => demand v/1
  )");
}

TEST(Decide, WaitsForNodeAndPodLists) {
  expect(R"(
    node a gpus=8
    want w/1 1x8
    nodes-listed a
    pods-listed
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    restart
    want v/1 1x0
    synced
    => reserved v/1 0:a[]
  )");
}

TEST(Decide, RepeatedRequestGetsSameAnswer) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    want v/1 1x8
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests
    => demand v/1
    want v/1 1x8
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests
    -- an older attempt is counted, and answered with the newest: admission's database has lost that one
    want w/3 1x8
    => released w/1 0:a[0,1,2,3,4,5,6,7]-
    => short w/3 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests
    => reserved v/1 0:a[0,1,2,3,4,5,6,7]
    => demand w/3
    want w/2 1x8
    => short w/3 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests
    => stale 1
  )");
}

// An attempt without a decision gets a response, too; otherwise it would be requested forever.
TEST(Decide, EarlierAttemptIsAnsweredWithPendingOne) {
  expect(R"(
    node a gpus=8
    synced
    phase w/3 pending
    want w/2 1x8
    => released w/3
    => stale 1
    want w/4 1x8
    => reserved w/4 0:a[0,1,2,3,4,5,6,7]
  )");
}

// S-074: eight pods and five GPUs: none is bound. S-100: and a pending gang holds none of the five.
TEST(Short, PendingWorkloadHoldsNothing) {
  expect(R"(
    node a gpus=5
    synced
    want w/1 8x1
    => short w/1 5 of 8 pods fit: 1 eligible nodes have 5 free GPUs, needs 8
    => demand w/1
    pod w/1#0 | pod w/1#1 | pod w/1#7
    tick 600
    want v/1 5x1
    => reserved v/1 0:a[0] 1:a[1] 2:a[2] 3:a[3] 4:a[4]
  )");
}

TEST(Short, IsPlacedWhenCapacityIsFreed) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 1x8
    => short w/1 0 of 1 pods fit: 1 eligible nodes have 4 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests
    => demand w/1
    want v/1 1x8 prio=9
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 4 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests
    => demand v/1 w/1
    -- both still hold quota (for a capacity promise): the higher priority is first
    node b gpus=8
    => reserved v/1 0:b[0,1,2,3,4,5,6,7]
    => demand w/1
    phase v/1 cancelled
    => released v/1 0:b[0,1,2,3,4,5,6,7]-
    => reserved w/1 0:b[0,1,2,3,4,5,6,7]
    => demand
  )");
}

TEST(Short, StaysOnDemandListWithoutQuotaUntilItFits) {
  expect(R"(
    synced
    want w/1 2x8
    => short w/1 0 of 2 pods fit: there are no nodes
    => demand w/1
    -- quota is released: the next attempt continues the demand
    phase w/2 pending
    => forget short w/1 0 of 2 pods fit: there are no nodes
    => demand w/2
    node a gpus=8
    node b gpus=8
    => demand
    => requeue w/2
    want w/2 2x8
    => reserved w/2 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    => requeue
  )");
}

/// "room of each set@zone" of the demand items in their order.
std::vector<std::string> rooms(Script& script) {
  std::vector<std::string> out;
  for (const DemandItem& item : script.engine().demand())
    out.push_back(fmt::format("{} {}@{}", item.id.uid, fmt::join(item.room, ","), item.room_zone));
  return out;
}

TEST(Short, DemandHasTheRoomOnRunningNodes) {
  Script script;
  (void)script.run("synced\nnode a gpus=8\nnode b gpus=4\nwant w/1 4x8");
  EXPECT_EQ(rooms(script), (std::vector<std::string>{"w 1@"}));
  // The gang with the higher priority has the room first, for each of its sets.
  (void)script.run("want v/1 2x4 3x8 prio=5");
  EXPECT_EQ(rooms(script), (std::vector<std::string>{"v 1,1@", "w @"}));
  // A single pod has no part that needs a new node.
  (void)script.run("want u/1 1x16");
  EXPECT_EQ(rooms(script), (std::vector<std::string>{"u @", "v 1,1@", "w @"}));
}

TEST(Short, RoomOfADemandIsInOneZone) {
  Script script;
  (void)script.run(
      "synced\nnode a gpus=8 zone=x\nnode b gpus=8 zone=y\nnode c gpus=8 zone=y\nwant w/1 4x8\n"
      "want v/1 4x8 required=rack");
  EXPECT_EQ(rooms(script), (std::vector<std::string>{"v @", "w 2@y"})) << "v needs one rack for all of its pods";
}

TEST(Workloads, UnknownToAdmissionEndsAttemptAndMayReturn) {
  expect(R"(
    synced
    node a gpus=8
    phase u/0 cancelled
    want w/3 1x8
    => reserved w/3 0:a[0,1,2,3,4,5,6,7]
    phase w/0 cancelled
    => released w/3 0:a[0,1,2,3,4,5,6,7]-
    want v/1 1x8
    => reserved v/1 0:a[0,1,2,3,4,5,6,7]
  )");
}

TEST(Short, LeavesDemandListWhenWorkloadFinishes) {
  expect(R"(
    synced
    want w/1 1x8
    => short w/1 0 of 1 pods fit: there are no nodes
    => demand w/1
    phase w/1 cancelled
    => forget short w/1 0 of 1 pods fit: there are no nodes
    => demand
    want v/1 1x8
    => short v/1 0 of 1 pods fit: there are no nodes
    => demand v/1
    -- an order for a workload that holds nothing is answered at once
    phase v/1 evicting
    => released v/1
    => demand
    phase u/1 evicting
    => released u/1
  )");
}

}  // namespace decide_cases_test
}  // namespace qm::placement::testing
