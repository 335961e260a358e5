// GPUs that are repartitioned for pending workloads, as text tables: see script.hpp for the words.
#include "test/engine/layout_words.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace mig_repartition_cases_test {

Options repartitioning() {
  Options options;
  options.mig_repartition.on = true;
  return options;
}
void expect(const std::string& table, const Options& options = repartitioning()) {
  EXPECT_EQ(Script(options).run(spelled(table)), "");
}

TEST(MigRepartition, IdleGpusAreRepartitionedForLongPendingRequest) {
  expect(R"(
    node a gpus=1 H100
    synced
    want w/1 7x1 mig=1
    => short w/1 0 of 7 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand w/1
    tick 119
    tick 1
    => demand
    => cordon a layout
    node a gpus=1 off H100
    => label a all-1g.10gb
    node a gpus=1 off cut=all-1g.10gb/pending H100
    node a gpus=1 off cut=all-1g.10gb/success H100
    node a gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => uncordon a
    node a gpus=1 sevens=7 cut=all-1g.10gb/success H100
    => reserved w/1 0:a[0=] 1:a[0=] 2:a[0=] 3:a[0=] 4:a[0=] 5:a[0=] 6:a[0=]
    => demand
  )");
}

// S-130 applies as long as repartitions are not enabled.
TEST(MigRepartition, IsOffByDefault) {
  expect(R"(
    node a gpus=1 H100
    synced
    want w/1 7x1 mig=1
    => short w/1 0 of 7 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand w/1
    tick 86400
  )",
         {});
}

TEST(MigRepartition, OnlyNodesOfNamedPools) {
  auto options = repartitioning();
  options.mig_repartition.pools = {"shared"};
  expect(R"(
    node a gpus=1 H100
    node b gpus=1 label=karpenter.sh/nodepool=shared H100
    synced
    want w/1 7x1 mig=1
    => short w/1 0 of 7 pods fit: 2 eligible nodes; 2 have too few free 1g.10gb instances
    => demand w/1
    tick 120
    => demand
    => cordon b layout
  )",
         options);
}

// The cheapest option: idle instances are replaced before a GPU changes its MIG mode, and no more
// GPUs are repartitioned than needed.
TEST(MigRepartition, TheCheapestLayoutIsOrdered) {
  expect(R"(
    node a gpus=1 H100
    node b gpus=1 sevens=7 cut=all-1g.10gb/success H100
    synced
    want w/1 1x1 mig=1 profile=3g.40gb
    => short w/1 0 of 1 pods fit: 2 eligible nodes; 2 have too few free 3g.40gb instances
    => demand w/1
    tick 120
    => demand
    => cordon b layout
    node b gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => label b all-3g.40gb
  )");
  expect(R"(
    node a gpus=8 H100
    node b gpus=1 H100
    synced
    want w/1 1x1 mig=1
    => short w/1 0 of 1 pods fit: 2 eligible nodes; 2 have too few free 1g.10gb instances
    => demand w/1
    tick 120
    => demand
    => cordon b layout
    node b gpus=1 off H100
    => label b all-balanced
  )");
}

TEST(MigRepartition, GangGetsAsManyNodesAsNeeded) {
  Script script(repartitioning());
  ASSERT_EQ(script.run(spelled(R"(
    node a gpus=1 H100 | node b gpus=1 H100 | node c gpus=1 H100
    synced
    want w/1 10x1 mig=1
    => short w/1 0 of 10 pods fit: 3 eligible nodes; 3 have too few free 1g.10gb instances
    => demand w/1
    tick 120
    => demand
    => cordon a layout
    => cordon b layout
  )")),
            "");
}

// A GPU in use is not repartitioned; a layout that is not in the list is not ordered; and the reason is reported.
TEST(MigRepartition, UnsuitableNodesAreReported) {
  Script script(repartitioning());
  OrderLayouts list;
  list.definitions["halves"] = {{{}, true, {{"3g.40gb", 2}}}};
  script.step({list});
  const auto words = [&] { return script.engine().repartition_status(WorkloadUid("w")); };
  ASSERT_EQ(script.run(spelled(R"(
    node a gpus=1 H100 | node t gpus=4 model=Tesla-T4 | node b gpus=1 H100
    synced
    unmanaged p on=b gpus=1
    want w/1 1x1 mig=1
    => short w/1 0 of 1 pods fit: 3 eligible nodes; 3 have too few free 1g.10gb instances
    => demand w/1
  )")),
            "");
  EXPECT_EQ(words(), "GPUs may be repartitioned for it from 1970-01-12T13:48:40Z on");
  ASSERT_EQ(script.run("tick 120\n"), "");
  EXPECT_EQ(
      words(),
      "no node can be repartitioned for it: 1 do not support MIG, 1 where no allowed layout has more instances for it, 1 with GPUs "
      "in use");
  ASSERT_EQ(script.run(spelled("unmanaged-gone p\ntick 10\n")), "");
  EXPECT_EQ(
      words(),
      "no node can be repartitioned for it: 1 do not support MIG, 2 where no allowed layout has more instances for it");
  OrderLayouts more;
  more.definitions["sevens"] = {{{}, true, {{"1g.10gb", 7}}}};
  script.step({more});
  ASSERT_EQ(script.run(spelled(R"(
    tick 10
    => demand
    => cordon a layout
  )")),
            "");
  EXPECT_EQ(words(), "node a is being repartitioned to sevens for it: the node is being cordoned");
}

// If quota is lost in between and reserved again: no workload of the same priority gets the
// instances, but one of a higher priority does.
TEST(MigRepartition, NewInstancesAreReservedForTheirRequest) {
  const std::string begun = R"(
    node a gpus=1 H100
    synced
    want w/1 7x1 mig=1
    => short w/1 0 of 7 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand w/1
    tick 120
    => demand
    => cordon a layout
    phase w/1 pending
    => forget short w/1 0 of 7 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    node a gpus=1 off H100
    => label a all-1g.10gb
    node a gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => uncordon a
    node a gpus=1 sevens=7 cut=all-1g.10gb/success H100
    => demand
    => requeue w/1
  )";
  expect(begun + R"(
    want v/1 1x1 mig=1
    => short v/1 0 of 1 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand v/1
    want w/2 7x1 mig=1
    => reserved w/2 0:a[0=] 1:a[0=] 2:a[0=] 3:a[0=] 4:a[0=] 5:a[0=] 6:a[0=]
    => requeue
  )");
  expect(begun + R"(
    want v/1 1x1 mig=1 prio=5
    => reserved v/1 0:a[0=]
  )");
  expect(begun + R"(
    want v/1 1x1 mig=1
    => short v/1 0 of 1 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand v/1
    tick 900
    => reserved v/1 0:a[0=]
    => demand
  )");
}

TEST(MigRepartition, OrderIsWithdrawnWithItsRequest) {
  const std::string begun = R"(
    node a gpus=1 H100
    synced
    want w/1 7x1 mig=1
    => short w/1 0 of 7 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand w/1
    tick 120
    => demand
    => cordon a layout
  )";
  expect(begun + R"(
    phase w/1 cancelled
    => forget short w/1 0 of 7 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand
    => uncordon a
  )");
  // Or it is placed on another node.
  expect(begun + R"(
    node b gpus=1 sevens=7 cut=all-1g.10gb/success H100
    => reserved w/1 0:b[0=] 1:b[0=] 2:b[0=] 3:b[0=] 4:b[0=] 5:b[0=] 6:b[0=]
    => demand
    => uncordon a
  )");
  // Or another pod uses the node first.
  expect(begun + R"(
    unmanaged p on=a gpus=1
    node a gpus=1 off H100
    => demand w/1
    => uncordon a
    node a gpus=1 H100
    unmanaged-gone p
  )");
}

TEST(MigRepartition, LayoutsDoNotFlap) {
  auto options = repartitioning();
  options.mig_repartition.most_orders = 1;
  Script script(options);
  ASSERT_EQ(script.run(spelled(R"(
    node a gpus=1 H100 | node b gpus=1 H100
    synced
    want w/1 7x1 mig=1
    => short w/1 0 of 7 pods fit: 2 eligible nodes; 2 have too few free 1g.10gb instances
    => demand w/1
    tick 120
    => demand
    => cordon a layout
    node a gpus=1 off H100
    => label a all-1g.10gb
    tick 60
    node a gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => uncordon a
    node a gpus=1 sevens=7 cut=all-1g.10gb/success H100
    => reserved w/1 0:a[0=] 1:a[0=] 2:a[0=] 3:a[0=] 4:a[0=] 5:a[0=] 6:a[0=]
    => demand
    phase w/1 cancelled
    => released w/1 0:a[0=]- 1:a[0=]- 2:a[0=]- 3:a[0=]- 4:a[0=]- 5:a[0=]- 6:a[0=]-
    -- now for another: no second order in the hour
    want v/1 1x1 mig=1 profile=3g.40gb
    => short v/1 0 of 1 pods fit: 2 eligible nodes; 2 have too few free 3g.40gb instances
    => demand v/1
    tick 120
  )")),
            "");
  EXPECT_EQ(script.engine().repartition_status(WorkloadUid("v")),
            "no GPUs are repartitioned for it now: the limit of 1 orders in 60 min is reached");
  // After the hour is over: not the node that was repartitioned before, though it would cost less,
  // because its cooldown is not over yet.
  ASSERT_EQ(script.run(spelled(R"(
    tick 3419
    => forget released w/1 0:a[0=]- 1:a[0=]- 2:a[0=]- 3:a[0=]- 4:a[0=]- 5:a[0=]- 6:a[0=]-
    tick 1
    => demand
    => cordon b layout
  )")),
            "");
}

TEST(MigRepartition, FailureRollsBackAndAnotherNodeIsTried) {
  expect(R"(
    node a gpus=1 H100 | node b gpus=1 H100
    synced
    want w/1 7x1 mig=1
    => short w/1 0 of 7 pods fit: 2 eligible nodes; 2 have too few free 1g.10gb instances
    => demand w/1
    tick 120
    => demand
    => cordon a layout
    node a gpus=1 off H100
    => label a all-1g.10gb
    node a gpus=1 off cut=all-1g.10gb/failed H100
    => label a all-disabled
    node a gpus=1 off cut=all-disabled/success H100
    => demand w/1
    => uncordon a
    tick 10
    => demand
    => cordon b layout
  )");
}

// A second workload waits for the repartition in progress if it will be enough.
TEST(MigRepartition, NodesUnderRepartitionCountWithTheirTargetLayout) {
  Script script(repartitioning());
  ASSERT_EQ(script.run(spelled(R"(
    node a gpus=1 H100 | node b gpus=1 H100
    synced
    want w/1 5x1 mig=1 | want v/1 2x1 mig=1
    => short v/1 0 of 2 pods fit: 2 eligible nodes; 2 have too few free 1g.10gb instances
    => short w/1 0 of 5 pods fit: 2 eligible nodes; 2 have too few free 1g.10gb instances
    => demand v/1 w/1
    tick 120
    => demand
    => cordon a layout
    => cordon b layout
  )")),
            "");
}

TEST(MigRepartition, RestartContinuesOrder) {
  Script script(repartitioning());
  ASSERT_EQ(script.run(spelled(R"(
    node a gpus=1 H100
    synced
    want w/1 7x1 mig=1
    => short w/1 0 of 7 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances
    => demand w/1
    tick 120
    => demand
    => cordon a layout
    node a gpus=1 off H100
    => label a all-1g.10gb
  )")),
            "");
  script.engine().rebuild();
  ASSERT_EQ(script.run(spelled(R"(
    restart
    node a gpus=1 sevens=7 off cut=all-1g.10gb/success H100
    => uncordon a
    node a gpus=1 sevens=7 cut=all-1g.10gb/success H100
    synced
    => reserved w/1 0:a[0=] 1:a[0=] 2:a[0=] 3:a[0=] 4:a[0=] 5:a[0=] 6:a[0=]
    => demand
  )")),
            "");
}

}  // namespace mig_repartition_cases_test
}  // namespace qm::placement::testing
