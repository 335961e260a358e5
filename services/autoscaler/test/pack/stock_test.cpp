// Plans for kube-scheduler without nominated nodes. scheduler_k8s_test.cpp runs the real one.
#include "qm/autoscaler/pack/plan.hpp"
#include "test/pack/problems.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::pack::testing {
namespace stock_test {

Plan packed(const Problem& problem, Binding binding) {
  Effort effort;
  effort.binding = binding;
  const auto plan = pack(problem, effort);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().to_string());
  if (!plan) return {};
  const auto held = still_holds(problem, *plan);
  EXPECT_TRUE(held) << (held ? "" : held.error().to_string());
  return *plan;
}

/// The small pods come first; the scheduler spreads them over the nodes, and then no node is free for a large pod.
Problem small_before_large() {
  Problem out;
  out.types = {type_of("small", 2, 4, 0.1), type_of("large", 8, 16, 0.4)};
  for (int i = 0; i < 16; ++i) out.pods.push_back(pod_of("small-" + std::to_string(i), 1000, 2));
  for (int i = 0; i < 4; ++i) out.pods.push_back(pod_of("large-" + std::to_string(i), 8000, 16));
  return out;
}

TEST(PackStock, ATightPlanNeedsNominatedNodes) {
  const auto problem = small_before_large();
  const auto tight = packed(problem, Binding::kNominated);
  EXPECT_FALSE(tight.stock);
  EXPECT_NEAR(tight.price, 2.4, 1e-9);
  const auto loose = packed(problem, Binding::kStock);
  ASSERT_TRUE(loose.stock);
  EXPECT_NEAR(loose.stock->nominated_price, 2.4, 1e-9);
  EXPECT_LE(loose.stock->nominated_share, 0.85);
  EXPECT_GE(loose.stock->share, 0.995);
  EXPECT_GT(loose.price, tight.price);
  EXPECT_LE(loose.bound, tight.price);
}

TEST(PackStock, NothingIsAddedWhereTheSchedulerHasNoChoice) {
  Problem problem;
  problem.types = {type_of("t", 2, 4, 0.1)};
  for (int i = 0; i < 10; ++i) problem.pods.push_back(pod_of(std::to_string(i), 1000, 2));
  const auto plan = packed(problem, Binding::kStock);
  EXPECT_NEAR(plan.price, 0.5, 1e-9);
  EXPECT_EQ(plan.stock->share, 1);
  EXPECT_EQ(plan.stock->nominated_share, 1);
}

TEST(PackStock, EveryZoneOfASpreadHasANode) {
  Problem problem;
  problem.types = {type_of("t", 4, 8, 0.2, 0, {"a", "b", "c"})};
  for (int i = 0; i < 9; ++i) {
    problem.pods.push_back(pod_of(std::to_string(i), 500 + 250 * (i % 3), 1));
    problem.pods.back().labels["app"] = "web";
    problem.pods.back().spread = {{kZone, 1, app_is("web"), true}};
  }
  EXPECT_GE(packed(problem, Binding::kStock).nodes.size(), 3U);
}

TEST(PackStock, EqualProblemsGiveEqualPlans) {
  const auto problem = small_before_large();
  const auto a = packed(problem, Binding::kStock), b = packed(problem, Binding::kStock);
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (std::size_t i = 0; i < a.nodes.size(); ++i) EXPECT_EQ(a.nodes[i].pods, b.nodes[i].pods);
}

}  // namespace stock_test
}  // namespace qm::autoscaler::pack::testing
