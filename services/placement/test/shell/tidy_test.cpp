// A defragmentation plan with names, and its budget as given in a request.
#include "messages.hpp"
#include "qm/placement/api.hpp"

namespace qm::placement::testing {
namespace tidy_test {

TEST(TidyApi, ThePlanInNames) {
  Stepped stepped;
  stepped.open();
  for (const char* uid : {"x", "y", "z"}) {
    auto runs = workload_event(uid, 1, pb::ADMITTED, 1, 4);
    runs.set_admitted_us(1'000'000);
    stepped.step({heard(runs)});
  }
  auto over = workload_event("x", 1, pb::FINISHED, 1, 4);
  stepped.now += std::chrono::seconds(60);
  stepped.step({heard(over)});
  const auto question = stepped.shell.engine().tidy_question();
  const auto plan = tidy_plan(question, tidied(question, {}));
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

TEST(TidyApi, TheBudgetIsWhatIsSaid) {
  pb::PlanTidyRequest request;
  EXPECT_EQ(tidy_budget(request)->gpu_seconds, plan::Budget().gpu_seconds) << "as much as it takes";
  request.set_most_pods(3);
  request.set_most_gpu_seconds(60);
  request.set_most_micro_usd(7);
  const auto budget = tidy_budget(request);
  ASSERT_TRUE(budget);
  EXPECT_EQ(budget->pods, 3);
  EXPECT_EQ(budget->gpu_seconds, 60);
  EXPECT_EQ(budget->cost, 7);
  request.set_most_pods(-1);
  EXPECT_EQ(tidy_budget(request).error().code, Code::kInvalid);
}

}  // namespace tidy_test
}  // namespace qm::placement::testing
