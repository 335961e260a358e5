// Nodes, pods of other owners and devices, as text tables: see script.hpp for the words.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace node_cases_test {

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

TEST(Node, GoneReleasesItsMembers) {
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

TEST(Node, NotReadyBeyondTolerationIsLost) {
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
    tick 299
    -- back in time: nothing happened
    node a gpus=1
    => node a ready pods=1
    node a gpus=1 ready=no
    => node a not-ready pods=1 not ready
    tick 299
    tick 1
    => bound w/1 0:a[0]*-
    => evict w/1 NodeFailure a lost
    phase w/1 evicting
    => released w/1 0:a[0]*-
    => delete w/1#0 grace=-1
    -- the node comes back with the old pod on it: its GPU is not free
    node a gpus=1
    => node a ready pods=1
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs that a pod requests
    => demand v/1
    pod-gone w/1#0
    => reserved v/1 0:a[0]
    => demand
  )");
}

TEST(Node, EachPodLeavesANotReadyNodeByItsTolerations) {
  expect(R"(
    node a gpus=8
    synced
    want u/1 1x1 | want v/1 1x1 | want w/1 1x1 | want x/1 1x1
    => reserved u/1 0:a[0]
    => reserved v/1 0:a[1]
    => reserved w/1 0:a[2]
    => reserved x/1 0:a[3]
    pod u/1#0 on=a running tolerates=0
    => bound u/1 0:a[0]*
    pod v/1#0 on=a running tolerates=30
    => bound v/1 0:a[1]*
    pod w/1#0 on=a running tolerates=-1
    => bound w/1 0:a[2]*
    -- it tolerates nothing: at once; a place without a pod is held for a minute
    node a gpus=8 ready=no
    => bound u/1 0:a[0]*-
    => evict u/1 NodeFailure a lost
    tick 30
    => bound v/1 0:a[1]*-
    => evict v/1 NodeFailure a lost
    tick 30
    => reserved x/1 0:a[3]-
    => evict x/1 NodeFailure a lost
    -- as long as the node is not ready, unless the pod is deleted
    tick 86400
    => expired x/1 0:a[3]-
    pod w/1#0 on=a running tolerates=-1 deleting
    => bound w/1 0:a[2]*-
    => evict w/1 NodeFailure a lost
  )");
}

// The node lifecycle controller sets another taint if the kubelet does not report, and pods may
// tolerate it for another time.
TEST(Node, UnreachableUsesTheTolerationOfThatTaint) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x1
    => reserved w/1 0:a[0]
    pod w/1#0 on=a running tolerates=0 unreachable=60
    => bound w/1 0:a[0]*
    node a gpus=8 ready=no taint=node.kubernetes.io/unreachable:NoExecute
    tick 59
    tick 1
    => bound w/1 0:a[0]*-
    => evict w/1 NodeFailure a lost
  )");
}

TEST(Node, GoneDuringRestart) {
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

TEST(Node, RepeatedDrainIsAnsweredAgain) {
  expect(R"(
    show nodes
    node a gpus=8
    => node a ready pods=0 empty
    drain a
    => node a cordoned pods=0 empty drain: SpotInterruption
    => cordon a drain
    drain a
    => node a cordoned pods=0 empty drain: SpotInterruption
    undrain a
    => node a ready pods=0 empty
    => uncordon a
    undrain a
    drain b
    drain b
  )");
}

TEST(Node, DrainAndHealthCordonIndependently) {
  expect(R"(
    show nodes
    -- the drain event arrives before the node
    drain a
    node a gpus=8
    => node a cordoned pods=0 empty drain: SpotInterruption
    => cordon a drain
    synced
    want w/1 1x8
    => short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned for a drain: SpotInterruption (a)
    => demand w/1
    health a gpu=3 cordon
    => node a cordoned pods=0 empty health: XID 79; drain: SpotInterruption
    undrain a
    => node a cordoned pods=0 empty health: XID 79
    node a gpus=8 ours
    => node a cordoned pods=0 empty health: XID 79
    health a ok
    => node a cordoned pods=0 empty being uncordoned
    => uncordon a
    node a gpus=8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    => node a ready pods=1
    => demand
  )");
}

TEST(Node, FaultyGpuEvictsItsUsersOnly) {
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
    -- the whole node: the other is evicted too; an eviction is requested once
    health a cordon
    => reserved v/1 0:a[4,5]
    => evict v/1 GpuFault a
  )");
}

// The GPU that needs a reset is out of service, while its node and the seven other GPUs continue.
TEST(Node, GpuThatNeedsAResetIsDisabledAlone) {
  expect(R"(
    show nodes
    node a gpus=8
    => node a ready pods=0 empty
    synced
    want w/1 1x1
    => reserved w/1 0:a[0]
    => node a ready pods=1
    want v/1 1x2
    => reserved v/1 0:a[1,2]
    => node a ready pods=2
    health a gpu=1
    => reserved v/1 0:a[1,2]
    => evict v/1 GpuFault a
    => node a ready pods=2 GPU 1 is out of service: XID 79
    want u/1 1x5
    => reserved u/1 0:a[3,4,5,6,7]
    => node a ready pods=3 GPU 1 is out of service: XID 79
    want t/1 1x1
    => short t/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs that a pod requests; 1 GPU is out of service: XID 79 (recovery action: reset the GPU)
    => demand t/1
    phase v/1 evicting
    => released v/1 0:a[1,2]-
    => reserved t/1 0:a[2]
    => demand
  )");
}

// It is unknown from which GPU the kubelet allocates the next MIG instance.
TEST(Node, FaultyGpuWithMigInstancesDisablesTheNode) {
  expect(R"(
    node a gpus=7 installed=8 ext=7
    synced
    health a gpu=1
    => cordon a health
  )");
}

TEST(Node, ManualUncordonOverridesTheCurrentVerdictOnly) {
  expect(R"(
    show nodes
    node a gpus=8
    => node a ready pods=0 empty
    synced
    health a gpu=3 cordon
    => node a cordoned pods=0 empty health: XID 79
    => cordon a health
    node a gpus=8 ours cause=health
    => node a cordoned pods=0 empty health: XID 79
    -- the operator uncordons it; the annotation that kubectl leaves is removed
    node a gpus=8 left=health
    => node a ready pods=0 empty health verdict overridden by a manual uncordon: XID 79
    => uncordon a
    -- the same verdict again, also after a restart of telemetry: no cordon, and the GPU takes work
    health a gpu=3 cordon
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    => node a ready pods=1 health verdict overridden by a manual uncordon: XID 79
    -- another GPU: that is another verdict
    health a gpu=5 cordon
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    => evict w/1 GpuFault a
    => node a cordoned pods=1 health: XID 79
    => cordon a health
  )");
}

TEST(Node, ManualUncordonDoesNotEndADrain) {
  expect(R"(
    show nodes
    node a gpus=8
    => node a ready pods=0 empty
    synced
    drain a
    => node a cordoned pods=0 empty drain: SpotInterruption
    => cordon a drain
    node a gpus=8 ours
    => node a cordoned pods=0 empty drain: SpotInterruption
    -- still cordoned, and the object shows it again
    node a gpus=8 left=drain
    => node a cordoned pods=0 empty drain: SpotInterruption
    => cordon a drain
    node a gpus=8 ours
    => node a cordoned pods=0 empty drain: SpotInterruption
    -- the end of our own cordon overrides nothing
    undrain a
    => node a cordoned pods=0 empty being uncordoned
    => uncordon a
    health a gpu=3 cordon
    => node a cordoned pods=0 empty health: XID 79
    => cordon a health
    node a gpus=8
    => node a cordoned pods=0 empty health: XID 79
    node a gpus=8 ours cause=health
    => node a cordoned pods=0 empty health: XID 79
    want w/1 1x1
    => short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 1; 1 cordoned after XID 79 (recovery action: restart or replace the node) (a); 1 GPU is out of service: XID 79 (recovery action: restart or replace the node)
    => demand w/1
  )");
}

// After a repair an operator uncordons the node: its GPU is in service again.
TEST(Node, EndOfExternalCordonEnablesFaultyGpu) {
  expect(R"(
    node a gpus=2
    synced
    health a gpu=1
    node a gpus=2 external
    node a gpus=2
    want w/1 1x2
    => reserved w/1 0:a[0,1]
  )");
}

TEST(Node, FaultyGpuWithoutCordonIsExcluded) {
  expect(R"(
    node a gpus=4
    synced
    health a gpu=1
    want w/1 3x1
    => reserved w/1 0:a[0] 1:a[2] 2:a[3]
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs that a pod requests; 1 GPU is out of service: XID 79 (recovery action: reset the GPU)
    => demand v/1
    health a ok
    => reserved v/1 0:a[1]
    => demand
  )");
}

TEST(Node, FewerAllocatableThanInstalledHidesTheHighest) {
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

TEST(UnmanagedPods, UseCapacity) {
  expect(R"(
    node a gpus=4 cpu=10
    synced
    unmanaged p on=a gpus=1 cpu=4
    unmanaged q on=a gpus=1 devices=0
    want w/1 2x1
    => reserved w/1 0:a[1] 1:a[2]
    want v/1 1x0 cpu=5
    => short v/1 0 of 1 pods fit: 1 eligible nodes; 1 lack CPU
    => demand v/1
    unmanaged p on=a gpus=1 cpu=4 succeeded
    => reserved v/1 0:a[]
    => demand
    want u/1 1x1
    => reserved u/1 0:a[3]
    unmanaged-gone q
  )");
}

// S-161: a node that runs only daemons is empty.
TEST(UnmanagedPods, KeepANodeInUseUnlessDaemons) {
  expect(R"(
    show nodes
    node a gpus=4
    => node a ready pods=0 empty
    unmanaged p on=a cpu=1 daemon
    unmanaged q on=a cpu=1
    => node a ready pods=1
    unmanaged-gone q
    => node a ready pods=0 empty
  )");
}

TEST(Devices, KubeletAllocationIsAdopted) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 1x1 | want v/1 1x1 | pod w/1#0 | pod v/1#0
    => reserved v/1 0:a[0]
    => reserved w/1 0:a[1]
    => bind v/1#0 -> a [0]
    => bind w/1#0 -> a [1]
    -- w got v's device: v, not observed yet, gets another one
    devices a w/1#0=0
    => reserved v/1 0:a[1]
    => reserved w/1 0:a[0]
    => drift 2
    devices a w/1#0=0
    devices a w/1#0=0 v/1#0=3
    => reserved v/1 0:a[3]
    => drift 1
    -- a duplicate device is refused, and so is one that the node does not have
    devices a w/1#0=2 v/1#0=2
    => drift refused
    devices a w/1#0=9
    => drift refused
    -- an unmanaged pod that was observed on a device blocks it
    unmanaged p on=a gpus=1
    devices a p=1
    want u/1 2x1
    => short u/1 1 of 2 pods fit: 1 eligible nodes have 1 free GPUs, needs 2
    => demand u/1
    want t/1 1x1
    => reserved t/1 0:a[2]
  )");
}

// Time slicing and MPS: the kubelet counts each GPU four times, and devices 4 to 7 are shares of GPU 1.
TEST(Devices, SharesOfAGpuAreAdopted) {
  expect(R"(
    node a gpus=8 installed=8 label=nvidia.com/gpu.replicas=4
    synced
    want w/1 1x1 | want v/1 1x1 | pod w/1#0 | pod v/1#0
    => reserved v/1 0:a[0]
    => reserved w/1 0:a[1]
    => bind v/1#0 -> a [0]
    => bind w/1#0 -> a [0]
    -- both on GPU 0, as planned: no matter which share
    devices a w/1#0=0 v/1#0=0
    => reserved v/1 0:a[0]
    => reserved w/1 0:a[1]
    -- w is on GPU 1 instead
    devices a w/1#0=1 v/1#0=0
    => reserved w/1 0:a[4]
    => drift 1
    -- back on GPU 0, where v stays: which share of it is whose does not matter
    devices a w/1#0=0
    => reserved v/1 0:a[1]
    => reserved w/1 0:a[0]
    => drift 1
    -- there is no third GPU, and a GPU has no four shares
    devices a w/1#0=2
    => drift refused
    want u/1 3x1 | pod u/1#0 | pod u/1#1 | pod u/1#2
    => reserved u/1 0:a[2] 1:a[3] 2:a[4]
    => bind u/1#0 -> a [0]
    => bind u/1#1 -> a [0]
    => bind u/1#2 -> a [1]
    devices a w/1#0=0 v/1#0=0 u/1#0=0 u/1#1=0 u/1#2=0
    => drift refused
    -- the share of an unmanaged pod is not available, nor are shares of a faulty GPU
    unmanaged p on=a gpus=1
    devices a p=1
    health a gpu=1
    => reserved u/1 0:a[2] 1:a[3] 2:a[4]
    => evict u/1 GpuFault a
    want t/1 1x1
    => short t/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 with no-free-slice: pods have all shares of their GPUs; 1 GPU is out of service: XID 79 (recovery action: reset the GPU)
    => demand t/1
  )");
}

TEST(Devices, MigInstancesAreAdoptedAndMove) {
  expect(R"(
    node a gpus=1 installed=2 ext=7
    synced
    want w/1 1x0 mig=1 | want v/1 1x0 mig=1 | pod w/1#0 | pod v/1#0
    => reserved v/1 0:a[]
    => reserved w/1 0:a[]
    => bind v/1#0 -> a []
    => bind w/1#0 -> a []
    -- only the kubelet knows the instance: an update, not drift
    devices a w/1#0=1.x v/1#0=1.y
    => reserved v/1 0:a[1=MIG-1.y]
    => reserved w/1 0:a[1=MIG-1.x]
    -- w has v's instance now, and the instance of v is unknown
    devices a w/1#0=1.y
    => reserved v/1 0:a[]
    => reserved w/1 0:a[1=MIG-1.y]
    => drift 2
    -- a duplicate instance is refused
    devices a w/1#0=1.x v/1#0=1.x
    => drift refused
    -- and so is a whole GPU with MIG instances; the other one is free
    want u/1 1x1 | pod u/1#0
    => reserved u/1 0:a[0]
    => bind u/1#0 -> a [0]
    devices a u/1#0=1 w/1#0=1.y
    => drift refused
    devices a u/1#0=0 w/1#0=1.y v/1#0=1.x
    => reserved u/1 0:a[0]
    => reserved v/1 0:a[1=MIG-1.x]
  )");
}

TEST(Devices, GpuWithUnmanagedInstanceIsNotAllocatedWhole) {
  expect(R"(
    node a gpus=1 installed=2 ext=7
    synced
    unmanaged p on=a mig=1
    devices a p=0.x
    want w/1 1x1
    => reserved w/1 0:a[1]
  )");
}

}  // namespace node_cases_test
}  // namespace qm::placement::testing
