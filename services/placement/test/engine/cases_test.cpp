// What the engine does, case by case, as text tables: see script.hpp for the words.
#include <gtest/gtest.h>

#include "test/engine/script.hpp"

namespace qm::placement::testing {
namespace {

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

TEST(Decide, TakesTheFewestNodesThenTheTightest) {
  expect(R"(
    node a gpus=8
    node b gpus=8
    node c gpus=4
    synced
    want one/1 1x2
    => reserved one/1 0:c[0,1]
    want two/1 4x2
    => reserved two/1 0:a[0,1] 1:a[2,3] 2:a[4,5] 3:a[6,7]
    -- six pods of two need twelve GPUs: b takes four, nothing takes the rest
    want big/1 6x2
    => short big/1 5 of 6 pods fit: 3 eligible nodes have 10 free GPUs, needs 12; 1 have fewer than the 2 free GPUs a pod asks
    => demand big/1
    -- the last two pods go to the tightest node that takes them
    want rest/1 5x2
    => reserved rest/1 0:b[0,1] 1:b[2,3] 2:b[4,5] 3:b[6,7] 4:c[2,3]
  )");
}

TEST(Decide, TiesGoToTheNodeName) {
  expect(R"(
    node b gpus=8
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
  )");
}

TEST(Decide, SharesGoToTheFullestDeviceThatHasRoom) {
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
    => short whole/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs a pod asks
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

TEST(Decide, HonoursSelectorTaintModelAndState) {
  expect(R"(
    node a gpus=8 label=pool=train taint=gpu:NoSchedule
    node b gpus=8 model=A100
    node c gpus=8 ready=no
    node d gpus=8 external
    synced
    want w/1 1x8 select=pool=train tolerate=gpu model=H100
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    want v/1 1x8 model=H100
    => short v/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned; 1 not ready; 1 with other GPU model A100; 1 with taint gpu:NoSchedule not tolerated
    => demand v/1
    want u/1 1x8 select=pool=serve tolerate=gpu
    => short u/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned; 1 not ready; 2 without label pool=serve
    => demand u/1 v/1
  )");
}

TEST(Decide, PlacesPodSetsTogetherOrNotAtAll) {
  expect(R"(
    node a gpus=8 cpu=16
    node b gpus=0 cpu=64
    synced
    -- the GPU set is placed first, the launcher joins it
    want w/1 1x0 2x4
    => reserved w/1 0:a[] 0:a[0,1,2,3] 1:a[4,5,6,7]
    want v/1 2x0 1x1
    => short v/1 pod set set1: 0 of 1 pods fit: 2 eligible nodes have 0 free GPUs, needs 1; 2 have fewer than the 1 free GPUs a pod asks
    => demand v/1
  )");
}

TEST(Decide, WaitsForBothLists) {
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

TEST(Decide, AnswersAgainWhenAskedAgain) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    want v/1 1x8
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs a pod asks
    => demand v/1
    want v/1 1x8
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs a pod asks
    -- an older attempt is dropped and counted
    want w/3 1x8
    => released w/1 0:a[0,1,2,3,4,5,6,7]-
    => short w/3 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs a pod asks
    => reserved v/1 0:a[0,1,2,3,4,5,6,7]
    => demand w/3
    want w/2 1x8
    => stale 1
  )");
}

TEST(Short, GetsItsPlaceAsSoonAsRoomAppears) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 1x8
    => short w/1 0 of 1 pods fit: 1 eligible nodes have 4 free GPUs, needs 8; 1 have fewer than the 8 free GPUs a pod asks
    => demand w/1
    want v/1 1x8 prio=9
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 4 free GPUs, needs 8; 1 have fewer than the 8 free GPUs a pod asks
    => demand v/1 w/1
    -- a quota is still held for both (a promise stands): the higher priority goes first
    node b gpus=8
    => reserved v/1 0:b[0,1,2,3,4,5,6,7]
    => demand w/1
    phase v/1 cancelled
    => released v/1 0:b[0,1,2,3,4,5,6,7]-
    => reserved w/1 0:b[0,1,2,3,4,5,6,7]
    => demand
  )");
}

TEST(Short, StaysOnTheListWhileItWaitsForQuotaAndLeavesItWhenItWouldFit) {
  expect(R"(
    synced
    want w/1 2x8
    => short w/1 0 of 2 pods fit: there are no nodes
    => demand w/1
    -- quota goes back: the next attempt takes over the demand
    phase w/2 pending
    => forget short w/1 0 of 2 pods fit: there are no nodes
    => demand w/2
    node a gpus=8
    node b gpus=8
    => demand
    want w/2 2x8
    => reserved w/2 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
  )");
}

TEST(Short, LeavesTheListWhenTheWorkloadEnds) {
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

TEST(Life, BindsEachPodOnceThenBoundThenReleased) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 2x4
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    pod w/1#1
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#1 -> a [4,5,6,7]
    pod w/1#1
    pod w/1#0
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3]
    bind-done w/1#0
    pod w/1#0 on=a
    => reserved w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]
    pod w/1#1 on=a
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*
    pod w/1#1 on=a running
    -- a rank that is done gives its devices back, the others run on
    pod w/1#1 on=a succeeded
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*-
    want v/1 1x4
    => reserved v/1 0:a[4,5,6,7]
    phase w/1 finished
    pod w/1#0 on=a succeeded
    => released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]*-
    pod-gone w/1#0
    pod-gone w/1#1
    tick 600
    => forget released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]*-
    => expired v/1 0:a[4,5,6,7]-
  )");
}

TEST(Life, PodsSeenBeforeTheWorkloadAreBoundLater) {
  expect(R"(
    pod w/1#0
    node a gpus=1
    want w/1 1x1
    synced
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running
    => bound w/1 0:a[0]*
  )");
}

TEST(Life, ASuccessorOfAFailedPodGetsTheSamePlace) {
  expect(R"(
    node a gpus=8
    node b gpus=8
    synced
    want w/1 2x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3,4,5,6,7]
    => bind w/1#1 -> b [0,1,2,3,4,5,6,7]
    pod w/1#0 on=a running | pod w/1#1 on=b running
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    pod w/1#1 on=b failed
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    pod w/1#1 again=1
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    => bind w/1#1.1 -> b [0,1,2,3,4,5,6,7]
    -- a successor waits while its predecessor still has the devices
    pod w/1#0 on=a running deleting
    pod w/1#0 again=1
    pod-gone w/1#0
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    => bind w/1#0.1 -> a [0,1,2,3,4,5,6,7]
  )");
}

TEST(Life, PodsOfASetAreFoundByItsName) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x0 1x4
    => reserved w/1 0:a[] 0:a[0,1,2,3]
    pod w/1#0 set=set1
    => reserved w/1 0:a[] 0:a[0,1,2,3]
    => bind w/1#0 -> a [0,1,2,3]
    pod w/1#0 again=launcher
    => reserved w/1 0:a[] 0:a[0,1,2,3]
    => bind w/1#0.launcher -> a []
  )");
}

TEST(Evict, DeletesWithGraceAndReleasesWhenThePodsAreGone) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 2x4 | phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3]
    => bind w/1#1 -> a [4,5,6,7]
    pod w/1#0 on=a running
    => reserved w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]
    -- the second bind is under way: its devices are held until its pod is gone
    phase w/1 evicting deadline=90
    => reserved w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]
    => delete w/1#0 grace=90
    => delete w/1#1 grace=90
    phase w/1 evicting deadline=90
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs a pod asks
    => demand v/1
    pod w/1#0 on=a running deleting
    pod-gone w/1#0
    => reserved v/1 0:a[0]
    => reserved w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]
    => demand
    pod-gone w/1#1
    => released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]-
    phase w/1 evicting
    => released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]-
    -- a pod that the controller made meanwhile is not bound, and goes too
    pod w/1#0 again=1
    => delete w/1#0.1 grace=-1
    phase w/2 pending
    tick 600
    => expired v/1 0:a[0]-
    pod-gone w/1#0.1
    => forget released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]-
  )");
}

TEST(Evict, AReservationWithoutPodsIsReleasedAtOnce) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    phase w/1 evicting deadline=60
    => released w/1 0:a[0,1,2,3,4,5,6,7]-
  )");
}

TEST(Evict, ALaterAttemptEndsTheFormerAndTakesWhatIsFree) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8 | pod w/1#0
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3,4,5,6,7]
    pod w/1#0 on=a running
    => bound w/1 0:a[0,1,2,3,4,5,6,7]*
    want w/2 1x8
    => short w/2 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs a pod asks
    => demand w/2
    => delete w/1#0 grace=-1
    pod-gone w/1#0
    => released w/1 0:a[0,1,2,3,4,5,6,7]*-
    => reserved w/2 0:a[0,1,2,3,4,5,6,7]
    => demand
    pod w/1#0 again=1
    => delete w/1#0.1 grace=-1
    => stale 1
  )");
}

TEST(Expiry, AReservationThatNobodyUsesExpires) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    tick 200
    phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    tick 299
    tick 1
    => expired w/1 0:a[0,1,2,3,4,5,6,7]-
    -- too late: the pod is not bound, and whoever asks hears the same answer
    pod w/1#0
    phase w/1 admitted
    => expired w/1 0:a[0,1,2,3,4,5,6,7]-
    phase w/1 evicting deadline=30
    => delete w/1#0 grace=30
    pod-gone w/1#0
    => released w/1 0:a[0,1,2,3,4,5,6,7]-
  )");
}

TEST(Expiry, AGangThatStaysIncompleteIsToBeEvicted) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 2x4
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    pod w/1#0
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3]
    tick 300
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => evict w/1 GangIncomplete
  )");
}

TEST(Node, GoneTakesItsMembersWithIt) {
  expect(R"(
    node a gpus=8
    node b gpus=8
    synced
    want w/1 2x8 | pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3,4,5,6,7]
    => bind w/1#1 -> b [0,1,2,3,4,5,6,7]
    pod w/1#0 on=a running | pod w/1#1 on=b running
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    node-gone a
    => bound w/1 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]*
    => evict w/1 NodeFailure a lost
    phase w/1 evicting deadline=60
    => delete w/1#0 grace=0
    => delete w/1#1 grace=60
    pod-gone w/1#1
    => released w/1 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]*-
    phase w/2 pending
    pod-gone w/1#0
    tick 600
    => forget evict w/1 NodeFailure a lost
    => forget released w/1 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]*-
  )");
}

TEST(Node, NotReadyForAMinuteCountsAsLost) {
  expect(R"(
    show nodes
    node a gpus=1
    => node a ready pods=0 empty
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => node a ready pods=1
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running
    => bound w/1 0:a[0]*
    node a gpus=1 ready=no
    => node a not-ready pods=1 not ready
    tick 59
    -- back in time: nothing happened
    node a gpus=1
    => node a ready pods=1
    node a gpus=1 ready=no
    => node a not-ready pods=1 not ready
    tick 60
    => bound w/1 0:a[0]*-
    => evict w/1 NodeFailure a lost
    => node a not-ready pods=1 lost
    phase w/1 evicting
    => released w/1 0:a[0]*-
    => delete w/1#0 grace=-1
    -- the node comes back with the old pod on it: its GPU is not free
    node a gpus=1
    => node a ready pods=1
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs a pod asks
    => demand v/1
    pod-gone w/1#0
    => reserved v/1 0:a[0]
    => demand
  )");
}

TEST(Node, GoneWhileNobodyLooked) {
  expect(R"(
    show nodes
    node a gpus=1 | node b gpus=1
    => node a ready pods=0 empty
    => node b ready pods=0 empty
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => node a ready pods=1
    => bind w/1#0 -> a [0]
    restart
    nodes-listed b
    => node a gone pods=0 the node object is gone
    => reserved w/1 0:a[0]-
    => evict w/1 NodeFailure a lost
  )");
}

TEST(Node, DrainAndHealthCordonEachForItself) {
  expect(R"(
    show nodes
    -- the drain is heard before the node is seen
    drain a
    node a gpus=8
    => node a cordoned pods=0 empty drain: SpotInterruption
    => cordon a drain
    synced
    want w/1 1x8
    => short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned
    => demand w/1
    health a gpu=3 cordon
    => node a cordoned pods=0 empty health: XID 79; drain: SpotInterruption
    undrain a
    => node a cordoned pods=0 empty health: XID 79
    node a gpus=8 ours
    => node a cordoned pods=0 empty health: XID 79
    health a ok
    => node a cordoned pods=0 empty cordon is being lifted
    => uncordon a
    node a gpus=8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    => node a ready pods=1
    => demand
  )");
}

TEST(Node, AFaultyGpuEvictsOnlyItsUsers) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x4
    => reserved w/1 0:a[0,1,2,3]
    want v/1 1x2
    => reserved v/1 0:a[4,5]
    health a gpu=3 cordon
    => reserved w/1 0:a[0,1,2,3]
    => evict w/1 GpuFault a
    => cordon a health
    -- the node as a whole: the other goes too; who was asked once is not asked again
    health a cordon
    => reserved v/1 0:a[4,5]
    => evict v/1 GpuFault a
  )");
}

TEST(Node, AFaultyGpuWithoutCordonIsLeftOut) {
  expect(R"(
    node a gpus=4
    synced
    health a gpu=1
    want w/1 3x1
    => reserved w/1 0:a[0] 1:a[2] 2:a[3]
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs a pod asks
    => demand v/1
    health a ok
    => reserved v/1 0:a[1]
    => demand
  )");
}

TEST(Node, FewerAllocatableThanInstalledKeepsTheHighestBack) {
  expect(R"(
    node a gpus=4 allocatable=3
    synced
    want w/1 2x1
    => reserved w/1 0:a[0] 1:a[1]
    want v/1 2x1
    => short v/1 1 of 2 pods fit: 1 eligible nodes have 1 free GPUs, needs 2
    => demand v/1
  )");
}

TEST(Strangers, TakeTheirShare) {
  expect(R"(
    node a gpus=4 cpu=10
    synced
    stranger p on=a gpus=1 cpu=4
    stranger q on=a gpus=1 devices=0
    want w/1 2x1
    => reserved w/1 0:a[1] 1:a[2]
    want v/1 1x0 cpu=5
    => short v/1 0 of 1 pods fit: 1 eligible nodes; 1 lack CPU
    => demand v/1
    stranger p on=a gpus=1 cpu=4 succeeded
    => reserved v/1 0:a[]
    => demand
    want u/1 1x1
    => reserved u/1 0:a[3]
    stranger-gone q
  )");
}

TEST(Strangers, CountForTheNodeUnlessTheyAreDaemons) {
  expect(R"(
    show nodes
    node a gpus=4
    => node a ready pods=0 empty
    stranger p on=a cpu=1 daemon
    stranger q on=a cpu=1
    => node a ready pods=1
    stranger-gone q
    => node a ready pods=0 empty
  )");
}

TEST(Devices, WhatTheKubeletGaveIsAdopted) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 1x1 | want v/1 1x1 | pod w/1#0 | pod v/1#0
    => reserved v/1 0:a[0]
    => reserved w/1 0:a[1]
    => bind v/1#0 -> a [0]
    => bind w/1#0 -> a [1]
    -- w got v's device: v, not seen yet, makes way
    devices a w/1#0=0
    => reserved v/1 0:a[1]
    => reserved w/1 0:a[0]
    => drift 2
    devices a w/1#0=0
    devices a w/1#0=0 v/1#0=3
    => reserved v/1 0:a[3]
    => drift 1
    -- one device twice is not believed, nor is one that the node does not have
    devices a w/1#0=2 v/1#0=2
    => drift refused
    devices a w/1#0=9
    => drift refused
    -- a stranger that was seen on a device blocks that one
    stranger p on=a gpus=1
    devices a p=1
    want u/1 2x1
    => short u/1 1 of 2 pods fit: 1 eligible nodes have 1 free GPUs, needs 2
    => demand u/1
    want t/1 1x1
    => reserved t/1 0:a[2]
  )");
}

TEST(Bind, AFailureThatTheWatchDoesNotExplainAsksForEviction) {
  expect(R"(
    node a gpus=1
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    bind-failed w/1#0 not-found
    bind-failed w/1#0 invalid
    => reserved w/1 0:a[0]
    => evict w/1 BindFailed a
  )");
}

TEST(Bind, APodThatRunsElsewhereIsToBeEvictedAndCountsWhereItIs) {
  expect(R"(
    node a gpus=1
    node b gpus=1
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=b running
    => reserved w/1 0:a[0]
    => evict w/1 Misplaced b
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 2 eligible nodes have 0 free GPUs, needs 1; 2 have fewer than the 1 free GPUs a pod asks
    => demand v/1
    phase w/1 evicting deadline=0
    => released w/1 0:a[0]-
    => reserved v/1 0:a[0]
    => demand
    => delete w/1#0 grace=0
  )");
}

TEST(Restart, TheFirstListFreesWhatWentAwayMeanwhile) {
  Script script;
  EXPECT_EQ(script.run(R"(
    node a gpus=2
    synced
    want w/1 2x1 | pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0] 1:a[1]
    => bind w/1#0 -> a [0]
    => bind w/1#1 -> a [1]
    pod w/1#0 on=a running | pod w/1#1 on=a running
    => bound w/1 0:a[0]* 1:a[1]*
    phase w/1 evicting
    => delete w/1#0 grace=-1
    => delete w/1#1 grace=-1
    restart
    want v/1 1x1
    nodes-listed a
    pods-listed w/1#1
    => reserved v/1 0:a[0]
    => bound w/1 0:a[0]*- 1:a[1]*
  )"), "");
}

TEST(Engine, SaysWhenItMustBeWoken) {
  Script script;
  EXPECT_EQ(script.run("node a gpus=1\nsynced\n"), "");
  EXPECT_FALSE(script.step({Tick{}}).wake_at);
  EXPECT_EQ(script.run("want w/1 1x1\n=> reserved w/1 0:a[0]\n"), "");
  EXPECT_EQ(script.step({Tick{}}).wake_at, script.now() + Options{}.hold);
  EXPECT_EQ(script.run("node b gpus=1 ready=no\n"), "");
  EXPECT_EQ(script.step({Tick{}}).wake_at, script.now() + Options{}.node_timeout);
}

TEST(Engine, DryRunKeepsNothing) {
  Script script;
  EXPECT_EQ(script.run("node a gpus=8\nsynced\n"), "");
  const auto digest = script.engine().digest();
  EXPECT_TRUE(script.engine().dry_run({pod_set(2, 4)}).plan);
  EXPECT_EQ(script.engine().dry_run({pod_set(3, 4)}).shortfall.reason,
            "2 of 3 pods fit: 1 eligible nodes have 8 free GPUs, needs 12");
  EXPECT_EQ(script.engine().digest(), digest);
}

TEST(Engine, TimeThatGoesBackStopsIt) {
  Engine engine;
  (void)engine.step({}, from_micros(5));
  EXPECT_DEATH((void)engine.step({}, from_micros(4)), "time went back");
}

}  // namespace
}  // namespace qm::placement::testing
