// The gain of a defragmentation, computed on a copy: which gang moves where, and its cost. Nothing is changed.
#include "qm/placement/defrag_input.hpp"

#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <optional>

namespace qm::placement::testing {
namespace defrag_input_test {

class DefragOptions : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* node : {"a", "b", "c", "d"}) play(fmt::format("node {0} gpus=8 label=host={0}", node));
    play("synced");
  }
  void play(const std::string& line) { (void)script.run(line); }
  /// A job that runs on the node for 100 s.
  void run_on(const std::string& job, const std::string& node, const std::string& what, const std::string& rest = "") {
    play(fmt::format("want {}/1 {} select=host={} {}", job, what, node, rest));
    // The selector determines its current node; it may move to any node that it fits.
    play(fmt::format("phase {}/1 admitted", job));
  }
  [[nodiscard]] plan::DefragPlan defragment(const plan::Budget& budget = {}) {
    const auto before = script.engine().digest();
    problem.emplace(script.engine().defrag_input());
    auto out = defrag_nodes(*problem, budget);
    EXPECT_EQ(script.engine().digest(), before);
    script.engine().audit();
    return out;
  }
  /// "a: j1 a>b" for each step.
  [[nodiscard]] std::string text_of(const plan::DefragPlan& found) const {
    std::string out;
    for (const auto& step : found.steps) {
      out += out.empty() ? "" : "; ";
      for (const auto node : step.nodes) out += problem->nodes[node].value() + ":";
      for (const auto& move : step.moves) {
        out += " " + problem->gangs[move.gang].name;
        for (const auto& seat : move.placements) out += ">" + problem->nodes[seat.node].value();
      }
    }
    return out;
  }

  Script script;
  std::optional<DefragInput> problem;
};

/// Two jobs of four GPUs on each of two nodes, of which one of each has finished; those on a run 900 s longer.
void half_empty(const std::function<void(const std::string&)>& play) {
  play("want a1/1 1x4 | want a2/1 1x4");
  play("phase a1/1 admitted | phase a2/1 admitted");
  play("tick 100");
  play("want b1/1 1x4 | want b2/1 1x4");
  play("phase b1/1 admitted | phase b2/1 admitted");
  play("tick 100");
  play("phase a2/1 finished | phase b2/1 finished");
}

TEST_F(DefragOptions, CheaperOfTwoHalfEmptyNodesIsReclaimed) {
  half_empty([this](const std::string& line) { play(line); });
  const auto found = defragment();
  EXPECT_EQ(text_of(found), "b: b1>a");
  EXPECT_EQ(found.free_before, 2);
  EXPECT_EQ(found.free_after, 3);
  ASSERT_EQ(found.steps.size(), 1U);
  EXPECT_EQ(found.steps[0].pods, 1);
  EXPECT_EQ(found.steps[0].gpu_seconds, 4 * (100 + 120)) << "since its start, and two minutes of restart";
  EXPECT_EQ(found.steps[0].cost.lost_work, 4 * (100 + 120) * 3'400);
  EXPECT_EQ(text_of(defragment({.gpu_seconds = 4 * (100 + 120) - 1})), "") << "beyond the budget";
}

TEST_F(DefragOptions, WorkloadInMinimumRunTimeIsNotMigrated) {
  half_empty([this](const std::string& line) { play(line); });
  play("phase b1/1 admitted min-runtime=60");
  EXPECT_EQ(text_of(defragment()), "a: a1>b");
}

TEST_F(DefragOptions, NodesWithUnmanagedPodsAreExcluded) {
  half_empty([this](const std::string& line) { play(line); });
  play("unmanaged x on=a gpus=1 devices=7");
  EXPECT_EQ(text_of(defragment()), "");
  play("unmanaged-gone x");
  play("drain a");
  EXPECT_EQ(text_of(defragment()), "");
}

TEST_F(DefragOptions, EvictingWorkloadIsNotMigrated) {
  half_empty([this](const std::string& line) { play(line); });
  play("pod b1/1#0");
  play("pod b1/1#0 on=b running");
  play("phase b1/1 evicting deadline=30");
  EXPECT_EQ(text_of(defragment()), "a: a1>b");
}

TEST_F(DefragOptions, ImmovableWorkloadIsNotMigrated) {
  run_on("a1", "a", "1x2");
  run_on("b1", "b", "1x2");
  EXPECT_EQ(text_of(defragment()), "") << "each has chosen its node";
}

}  // namespace defrag_input_test
}  // namespace qm::placement::testing
