// MIG layouts of nodes, as text tables: see script.hpp for the words. The scripts begin on 12
// January 1970 at 13:46:40, a Monday.
// S-014 S-119 S-126 S-127 S-128 S-130 S-141 S-144
#include "test/engine/layout_words.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace layouts_cases_test {

Options with_window(const char* window = "Mon 20:00-22:00") {
  Options options;
  options.layout_windows = {*relayout::weekly_of(window)};
  return options;
}

void expect(const std::string& table, const Options& options = {}) {
  EXPECT_EQ(Script(options).run(spelled(table)), "");
}

// S-126: the label leads to seven instances, and on the other node to whole GPUs.
TEST(Layouts, IdleGpusArePartitionedAtOnceAndFitPodsWithTheirInstances) {
  expect(R"(
    node a gpus=1 H100
    synced
    layout a all-1g.10gb
    => cordon a layout
    => ordered a all-1g.10gb emptying: the node is being cordoned
    -- no new pod is placed on it
    want w/1 1x1
    => short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 1; 1 cordoned for a MIG layout order (a)
    => demand w/1
    node a gpus=1 off H100
    => label a all-1g.10gb
    -- published once
    tick 1
    node a gpus=1 off cut=all-1g.10gb/pending H100
    node a gpus=1 off cut=all-1g.10gb/success H100
    node a gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => uncordon a
    node a gpus=1 sevens=7 cut=all-1g.10gb/success H100
    want v/1 7x1 mig=1
    => reserved v/1 0:a[0=] 1:a[0=] 2:a[0=] 3:a[0=] 4:a[0=] 5:a[0=] 6:a[0=]
  )");
}

// S-127: outside the window the order is queued; inside it the node is drained, repartitioned and uncordoned.
TEST(Layouts, BusyNodeIsDrainedInTheWindow) {
  expect(R"(
    node a gpus=1 H100
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running
    => bound w/1 0:a[0]*
    layout a all-1g.10gb dry
    => ordered a all-1g.10gb waiting from 1970-01-12T20:00:00Z: the window has not started
    layout a all-1g.10gb
    => ordered a all-1g.10gb waiting from 1970-01-12T20:00:00Z: the window has not started
    tick 22399
    tick 1
    => cordon a layout
    node a gpus=1 off H100
    => bound w/1 0:a[0]*
    => evict w/1 MigLayout a
    tick 10
    phase w/1 evicting deadline=290
    => delete w/1#0 grace=290
    pod-gone w/1#0
    => released w/1 0:a[0]*-
    => label a all-1g.10gb
    node a gpus=1 off cut=all-1g.10gb/success H100
    node a gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => uncordon a
  )",
         with_window());
}

// A workload that keeps checkpoints saves one before it is evicted: the autoscaler orders the
// checkpoint, and evicts. If it has not done so in time, the pod is evicted without one.
TEST(Layouts, CheckpointIsSavedFirst) {
  const std::string begun = R"(
    node a gpus=1 H100
    synced
    want w/1 1x1 checkpoints | pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running
    => bound w/1 0:a[0]*
    layout a all-1g.10gb
    => ordered a all-1g.10gb waiting from 1970-01-12T20:00:00Z: the window has not started
    tick 22400
    => cordon a layout
    node a gpus=1 off H100
    => bound w/1 0:a[0]*
    => evict w/1 MigLayout a saving
  )";
  expect(begun + R"(
    -- all ranks have saved: the order comes from the autoscaler through admission
    tick 40
    phase w/1 evicting deadline=260
    => delete w/1#0 grace=260
    pod-gone w/1#0
    => released w/1 0:a[0]*-
    => label a all-1g.10gb
  )",
         with_window());
  expect(begun + R"(
    tick 299
    tick 1
    => bound w/1 0:a[0]*
    => evict w/1 MigLayout a
    tick 60
  )",
         with_window());
}

// S-130: however many workloads are pending for another layout, no node is repartitioned between windows.
TEST(Layouts, OutsideWindowsTheLayoutIsFixed) {
  expect(R"(
    node a gpus=1 sevens=7 cut=all-1g.10gb/success H100
    synced
    want w/1 1x1 mig=1 | pod w/1#0
    => reserved w/1 0:a[0=]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running
    => bound w/1 0:a[0=]*
    want v/1 4x1
    => short v/1 0 of 4 pods fit: 1 eligible nodes have 0 free GPUs, needs 4; 1 have fewer than the 1 free GPUs that a pod requests
    => demand v/1
    tick 3600
    layout a all-disabled
    => ordered a all-disabled waiting from 1970-01-12T20:00:00Z: the window has not started
    tick 18000
    layout-withdrawn a
    => ordered a all-disabled failed from 1970-01-12T20:00:00Z: withdrawn
    tick 3600
  )",
         with_window());
}

TEST(Layouts, WithoutWindowWaitsForIdleGpus) {
  expect(R"(
    node a gpus=1 H100
    synced
    unmanaged p on=a gpus=1
    layout a all-1g.10gb
    => ordered a all-1g.10gb waiting: 1 pods use its GPUs
    tick 86400
    unmanaged-gone p
    => cordon a layout
  )");
}

TEST(Layouts, UnmanagedPodsStayAndTheWindowPasses) {
  expect(R"(
    node a gpus=1 H100
    synced
    unmanaged p on=a gpus=1
    layout a all-1g.10gb
    => ordered a all-1g.10gb waiting from 1970-01-12T20:00:00Z: the window has not started
    tick 22400
    => cordon a layout
    node a gpus=1 off H100
    tick 1200
    => uncordon a
    node a gpus=1 H100
    show nodes
    unmanaged-gone p
    => node a ready pods=0 empty
  )",
         with_window());
}

// S-128, with rollback: mig-manager fails, or the node advertises other devices than the layout has.
TEST(Layouts, FailureRestoresFormerLayout) {
  expect(R"(
    node a gpus=1 cut=all-disabled/success H100
    synced
    layout a all-1g.10gb
    => cordon a layout
    => ordered a all-1g.10gb emptying: the node is being cordoned
    node a gpus=1 off cut=all-disabled/success H100
    => label a all-1g.10gb
    node a gpus=1 off cut=all-1g.10gb/failed H100
    => label a all-disabled
    node a gpus=1 off cut=all-disabled/pending H100
    node a gpus=1 off cut=all-disabled/success H100
    => uncordon a
    node a gpus=1 cut=all-disabled/success H100
    -- once more, and now the plugin advertises six
    layout a all-1g.10gb
    => cordon a layout
    => ordered a all-1g.10gb emptying: the node is being cordoned
    node a gpus=1 off cut=all-disabled/success H100
    => label a all-1g.10gb
    node a gpus=1 sevens=6 off cut=all-1g.10gb/success H100
    tick 300
    => label a all-disabled
    node a gpus=1 off cut=all-disabled/success H100
    => uncordon a
  )");
}

TEST(Layouts, FailedRollbackLeavesNodeCordoned) {
  expect(R"(
    show nodes
    node a gpus=1 cut=all-disabled/success H100
    => node a ready pods=0 empty
    synced
    layout a all-1g.10gb
    => node a cordoned pods=0 empty layout: all-1g.10gb: the node is being cordoned
    => cordon a layout
    => ordered a all-1g.10gb emptying: the node is being cordoned
    node a gpus=1 off cut=all-disabled/success H100
    => node a cordoned pods=0 empty layout: all-1g.10gb: the label is being written
    => label a all-1g.10gb
    node a gpus=1 off cut=all-1g.10gb/failed H100
    => node a cordoned pods=0 empty layout: all-1g.10gb: mig-manager could not apply the layout
    => label a all-disabled
    node a gpus=1 off cut=all-disabled/failed H100
    => node a cordoned pods=0 empty layout: all-1g.10gb: mig-manager could not apply the layout; it could not apply the former layout either
    tick 86400
    -- an operator has repaired it and orders the layout again
    node a gpus=1 off cut=all-disabled/success H100
    => node a cordoned pods=0 empty layout: all-1g.10gb: mig-manager could not apply the layout; it could not apply the former layout either
    layout a all-disabled
    => node a cordoned pods=0 empty being uncordoned
    => uncordon a
    => ordered a all-disabled done: the layout is applied already
  )");
}

// S-128: a label that another client set is compared with what the node advertises.
TEST(Layouts, CapacityMismatchIsReported) {
  expect(R"(
    show nodes
    node a gpus=1 sevens=6 cut=all-1g.10gb/success H100
    => node a ready pods=0 empty
    synced
    tick 299
    tick 1
    => node a ready pods=0 empty MIG_CAPACITY_MISMATCH: layout all-1g.10gb has nvidia.com/mig-1g.10gb 7, and the node advertises nvidia.com/mig-1g.10gb 6
    node a gpus=1 sevens=7 cut=all-1g.10gb/success H100
    => node a ready pods=0 empty
    -- while mig-manager works no instances are available, and that is not a mismatch
    node a gpus=1 cut=all-disabled/pending H100
    => node a ready pods=0 empty
    tick 600
    want w/1 1x1
    => short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 1; 1 changing the MIG layout
    => demand w/1
    node a gpus=1 cut=all-disabled/success H100
    => reserved w/1 0:a[0]
    => node a ready pods=1
    => demand
  )");
}

// S-141: pools of GPUs without MIG are refused, and layouts that do not fit any GPU of the model.
TEST(Layouts, ImpossibleLayoutIsRefused) {
  expect(R"(
    node t4 gpus=4 model=Tesla-T4 | node a10g gpus=4 model=NVIDIA-A10G | node l4 gpus=1 model=NVIDIA-L4
    node v100 gpus=8 model=Tesla-V100-SXM2-16GB | node h gpus=8 H100 | synced
    layout t4 all-1g.10gb
    => refused node t4: layout all-1g.10gb: Tesla-T4 does not support MIG
    layout a10g all-1g.10gb
    => refused node a10g: layout all-1g.10gb: NVIDIA-A10G does not support MIG
    layout l4 all-1g.10gb
    => refused node l4: layout all-1g.10gb: NVIDIA-L4 does not support MIG
    layout v100 all-1g.10gb
    => refused node v100: layout all-1g.10gb: Tesla-V100-SXM2-16GB does not support MIG
    layout h all-1g.5gb
    => refused node h: layout all-1g.5gb: H100-80GB has no profile 1g.5gb
    layout h mine
    => refused node h: layout mine does not exist
    layout x all-1g.10gb
    => refused there is no node x
    layout-withdrawn h
    => refused node h has no layout order in progress
    layout h all-1g.10gb dry
    => ordered h all-1g.10gb emptying: the node is being cordoned
    layout t4 all-disabled
    => cordon t4 layout
    => ordered t4 all-disabled emptying: the node is being cordoned
  )");
}

// S-125 S-131: a default reaches every MIG-capable node, or those without the label.
TEST(Layouts, DefaultAppliesToNodesWithoutOrder) {
  const std::string nodes = R"(
    node a gpus=1 H100 | node b gpus=1 cut=all-disabled/success H100 | node t4 gpus=4 model=Tesla-T4 | synced
  )";
  expect(nodes + R"(
    layout-default all-1g.10gb
    => cordon a layout
    => ordered a all-1g.10gb emptying: the node is being cordoned
    node c gpus=1 H100
    => cordon c layout
    -- a node with a withdrawn order keeps its layout
    layout-withdrawn c
    => uncordon c
    => ordered c all-1g.10gb failed: withdrawn
  )");
  expect(nodes + R"(
    layout-default all-1g.10gb everywhere
    => cordon a layout
    => cordon b layout
    => ordered a all-1g.10gb emptying: the node is being cordoned
    => ordered b all-1g.10gb emptying: the node is being cordoned
    node a gpus=1 off H100
    => label a all-1g.10gb
    node a gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => uncordon a
    node a gpus=1 sevens=7 cut=all-1g.10gb/success H100
    -- another default replaces a default, not an order
    layout-default all-2g.20gb everywhere
    => cordon a layout
    => ordered a all-2g.20gb emptying: the node is being cordoned
  )");
}

// S-119: an eighth instance does not exist, whatever is advertised; instances are on a GPU of the node.
TEST(Layouts, NoGpuFitsAnEighthInstance) {
  expect(R"(
    node a gpus=1 sevens=8 H100
    synced
    want w/1 8x1 mig=1
    => short w/1 7 of 8 pods fit: 1 eligible nodes
    => demand w/1
    want v/1 7x1 mig=1
    => reserved v/1 0:a[0=] 1:a[0=] 2:a[0=] 3:a[0=] 4:a[0=] 5:a[0=] 6:a[0=]
  )");
}

// The GPU with the fewest idle instances is filled first, and an instance counts on the GPU where
// the kubelet allocated it.
TEST(Layouts, InstancesFillOneGpuFirst) {
  expect(R"(
    node a gpus=2 sevens=14 H100
    synced
    unmanaged p on=a mig=1
    devices a p=1.x
    want w/1 7x1 mig=1
    => reserved w/1 0:a[1=] 1:a[1=] 2:a[1=] 3:a[1=] 4:a[1=] 5:a[1=] 6:a[0=]
  )");
}

// S-144: seven instances in four shares each are 28 units; the 29th pod is pending.
TEST(Layouts, SharesOfInstancesMultiply) {
  Script script;
  ASSERT_EQ(script.run(spelled(R"(
    node a gpus=1 sevens=28 label=nvidia.com/mig-1g.10gb.replicas=4 cut=all-1g.10gb/success H100
    synced
    want w/1 29x1 mig=1
    => short w/1 28 of 29 pods fit: 1 eligible nodes
    => demand w/1
  )")),
            "");
  EXPECT_EQ(script.engine().layout_finding(NodeName("a")), "");
  const auto planned = script.engine().planned_of(NodeName("a"));
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->capacity, (mig::Capacity{{"nvidia.com/mig-1g.10gb", 7}}));
}

// Where instances are advertised as GPUs, a partitioned node is counted by its GPUs, and can be
// repartitioned to whole GPUs.
TEST(Layouts, SingleStrategyInstancesCountByTheirGpus) {
  const std::string single = " label=nvidia.com/mig.strategy=single model=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb";
  Script script;
  ASSERT_EQ(script.run(spelled("node a gpus=14 cut=all-1g.10gb/success" + single + R"(
    synced
    unmanaged p on=a gpus=1 | unmanaged q on=a gpus=1
    devices a p=0.x q=0.y
    want w/1 13x1
    => short w/1 12 of 13 pods fit: 1 eligible nodes have 12 free GPUs, needs 13
    => demand w/1
    phase w/1 cancelled
    => forget short w/1 12 of 13 pods fit: 1 eligible nodes have 12 free GPUs, needs 13
    => demand
    want v/1 2x1 | pod v/1#0 | pod v/1#1
    => reserved v/1 0:a[0] 1:a[1]
    => bind v/1#0 -> a [0]
    => bind v/1#1 -> a [1]
    pod v/1#0 on=a running | pod v/1#1 on=a running
    => bound v/1 0:a[0]* 1:a[1]*
    -- instances of one GPU are neither drift nor a duplicate device
    devices a p=0.x q=0.y v/1#0=0.z v/1#1=0.w
    want u/1 10x1
    => reserved u/1 0:a[2] 1:a[3] 2:a[4] 3:a[5] 4:a[6] 5:a[7] 6:a[8] 7:a[9] 8:a[10] 9:a[11]
  )")),
            "");
  const auto planned = script.engine().planned_of(NodeName("a"));
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->capacity, (mig::Capacity{{"nvidia.com/gpu", 14}}));
  ASSERT_EQ(script.run("layout a all-disabled\n=> ordered a all-disabled waiting: 14 pods use its GPUs\n"), "");
  EXPECT_EQ(script.engine().tables().repartitions.find(NodeName("a"))->order->order.capacity,
            (mig::Capacity{{"nvidia.com/gpu", 2}}));
  // A missing instance is reported, and a layout without a label is derived from the product name.
  expect("show nodes\nnode a gpus=13 cut=all-1g.10gb/success" + single + R"(
    => node a ready pods=0 empty
    synced
    tick 300
    => node a ready pods=0 empty MIG_CAPACITY_MISMATCH: layout all-1g.10gb has nvidia.com/gpu 14, and the node advertises nvidia.com/gpu 13
  )");
  expect("node a gpus=7" + single + R"(
    synced
    layout a all-3g.40gb
    => cordon a layout
    => ordered a all-3g.40gb emptying: the node is being cordoned
  )");
  expect("node a gpus=7 label=nvidia.com/mig.strategy=single model=NVIDIA-H100-80GB-HBM3-MIG-INVALID\n" +
         std::string(R"(
    synced
    layout a all-3g.40gb
    => refused node a: its number of GPUs is not known
  )"));
}

// S-014: four pods share a time-sliced GPU, and the fifth is pending.
TEST(Layouts, FifthPodIsPendingForAFreeSlice) {
  expect(R"(
    node a gpus=4 label=nvidia.com/gpu.replicas=4 model=NVIDIA-A10G
    synced
    want w/1 4x1
    => reserved w/1 0:a[0] 1:a[1] 2:a[2] 3:a[3]
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 with no-free-slice: pods have all shares of their GPUs
    => demand v/1
  )");
}

// A restart in the middle of an order: the rows and the cluster contain the whole state.
TEST(Layouts, RestartContinuesOrder) {
  Script script;
  ASSERT_EQ(script.run(spelled(R"(
    node a gpus=1 H100
    synced
    layout a all-1g.10gb
    => cordon a layout
    => ordered a all-1g.10gb emptying: the node is being cordoned
    node a gpus=1 off H100
    => label a all-1g.10gb
  )")),
            "");
  script.engine().rebuild();
  ASSERT_EQ(script.run(spelled(R"(
    restart
    node a gpus=1 off cut=all-1g.10gb/success H100
    synced
    tick 200
    node a gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => uncordon a
  )")),
            "");
}

// Capacity that is partitioned on devices 0 to 3 leaves 4 to 7 to pods that request whole GPUs.
TEST(Layouts, UnpartitionedGpusAreAllocatedWhole) {
  Script script;
  OrderLayouts order;
  order.definitions["half"] = {{{0, 1, 2, 3}, true, {{"1g.10gb", 7}}}};
  script.step({order});
  ASSERT_EQ(script.run(spelled(R"(
    node a gpus=8 allocatable=4 ext=28 cut=half/success H100
    synced
    want w/1 4x1
    => reserved w/1 0:a[4] 1:a[5] 2:a[6] 3:a[7]
  )")),
            "");
  const auto layout = script.engine().layout_of(NodeName("a"));
  ASSERT_TRUE(layout);
  EXPECT_EQ(mig::capacity_of(*layout), (mig::Capacity{{"nvidia.com/gpu", 4}, {"nvidia.com/mig-1g.10gb", 28}}));
}

}  // namespace layouts_cases_test
}  // namespace qm::placement::testing
