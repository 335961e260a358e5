// A defragmentation plan with names, and its budget as given in a request.
#include "messages.hpp"
#include "qm/placement/api.hpp"

namespace qm::placement::testing {
namespace tidy_test {

TEST(DefragApi, PlanNamesNodesAndWorkloads) {
  Stepped stepped;
  stepped.open();
  for (const char* uid : {"x", "y", "z"}) {
    auto runs = workload_event(uid, 1, pb::ADMITTED, 1, 4);
    runs.set_admitted_us(1'000'000);
    stepped.step({latest(runs)});
  }
  auto over = workload_event("x", 1, pb::FINISHED, 1, 4);
  stepped.now += std::chrono::seconds(60);
  stepped.step({latest(over)});
  const auto question = stepped.shell.engine().defrag_input();
  const auto plan = defrag_plan(question, defrag_nodes(question, {}));
  EXPECT_EQ(plan.at_us(), micros(stepped.now));
  EXPECT_EQ(plan.free_before(), 0);
  EXPECT_EQ(plan.free_after(), 1);
  ASSERT_EQ(plan.steps_size(), 1);
  const auto& step = plan.steps(0);
  EXPECT_EQ(step.pods(), 1);
  EXPECT_EQ(step.gpu_seconds(), 4 * (60 + 120));
  EXPECT_EQ(step.micro_usd(), 4 * (60 + 120) * 3'400);
  ASSERT_EQ(step.moves_size(), 1);
  EXPECT_EQ(step.moves(0).namespace_(), "team");
  EXPECT_EQ(step.moves(0).workload(), "job-y");
  ASSERT_EQ(step.nodes_size(), 1);
  EXPECT_EQ(step.moves(0).from(0), step.nodes(0));
  EXPECT_NE(step.moves(0).to(0), step.nodes(0));
}

TEST(DefragApi, BudgetOfTheRequestApplies) {
  pb::PlanDefragmentationRequest request;
  EXPECT_EQ(defrag_budget(request)->gpu_seconds, plan::Budget().gpu_seconds) << "no limit";
  request.set_max_pods(3);
  request.set_max_gpu_seconds(60);
  request.set_max_micro_usd(7);
  const auto budget = defrag_budget(request);
  ASSERT_TRUE(budget);
  EXPECT_EQ(budget->pods, 3);
  EXPECT_EQ(budget->gpu_seconds, 60);
  EXPECT_EQ(budget->cost, 7);
  request.set_max_pods(-1);
  EXPECT_EQ(defrag_budget(request).error().code, Code::kInvalid);
}

}  // namespace tidy_test
}  // namespace qm::placement::testing
