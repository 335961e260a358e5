// The inputs of Karpenter's scheduling benchmark and the GPU mixes. Each answer is checked by tests/packing/check.py,
// which shares no code with the product, and its price is compared with the recorded answers.
#include "qm/autoscaler/pack/json.hpp"
#include "qm/base/unpacked.hpp"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace qm::autoscaler::pack::testing {
namespace vectors_test {

using qm::testing::shared_dir;

Json read_json(const std::string& path) {
  const auto text = read_unpacked(path, "");
  EXPECT_TRUE(text) << path;
  return text ? *Json::parse(*text) : Json();
}

/// Packs the input, and has the answer checked. Returns the plan.
Plan checked(const std::string& input) {
  const auto problem = problem_of(read_json(input));
  EXPECT_TRUE(problem) << input;
  if (!problem) return {};
  const auto plan = pack(*problem);
  EXPECT_TRUE(plan) << input;
  if (!plan) return {};
  const auto held = still_holds(*problem, *plan);
  EXPECT_TRUE(held) << input << (held ? "" : ": " + held.error().to_string());
  const qm::testing::TempDir folder;
  const std::string answer = folder.path() + "/answer.json";
  std::ofstream(answer) << answer_of(*problem, *plan).dump();
  qm::testing::Process::Options options;
  options.argv = {"python3", std::string(QM_SOURCE_DIR) + "/tests/packing/check.py", input, answer};
  options.output = folder.path() + "/faults";
  auto process = qm::testing::Process::start(options);
  EXPECT_TRUE(process);
  EXPECT_EQ((*process)->wait(std::chrono::minutes(1)).value_or(-1), 0) << input << '\n'
                                                                       << qm::testing::read_file(options.output);
  return *plan;
}

std::vector<std::string> sets_in(const std::string& folder) {
  static constexpr std::string_view kEnd = ".input.json.gz";
  std::vector<std::string> out;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string path = file.path().string();
    if (path.ends_with(kEnd)) out.push_back(path.substr(0, path.size() - kEnd.size()));
  }
  std::ranges::sort(out);
  return out;
}

TEST(PackVectors, KarpentersBenchmarkCostsAThirdLess) {
  const auto shared = shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  for (const auto& set : sets_in(*shared + "/vectors/karpenter")) {
    SCOPED_TRACE(set);
    const auto plan = checked(set + ".input.json.gz");
    EXPECT_TRUE(plan.unplaced.empty());
    const double karpenter = std::min(read_json(set + ".karpenter.json.gz")["total_price"].number(),
                                      read_json(set + ".karpenter-ignore.json.gz")["total_price"].number());
    const bool diverse = set.find("diverse") != std::string::npos;
    EXPECT_LE(plan.price, karpenter * (!diverse ? 1.0 : set.find("-200-") != std::string::npos ? 0.75 : 0.70));
  }
}

TEST(PackVectors, GpuMixesAreNeverAboveTheGreedyPrice) {
  const auto shared = shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  for (const auto& set : sets_in(*shared + "/vectors/gpu-mixes")) {
    SCOPED_TRACE(set);
    const auto plan = checked(set + ".input.json.gz");
    const Json reference = read_json(set + ".reference.json");
    EXPECT_EQ(static_cast<std::int64_t>(plan.unplaced.size()), reference["greedy"]["errors"].integer());
    EXPECT_LE(plan.price, reference["greedy"]["price"].number() + 1e-6);
    EXPECT_LE(plan.price, reference["fewest_pods_first"]["price"].number() + 1e-6);
    EXPECT_GE(plan.price, reference["bound"]["price"].number() - 1e-6);
  }
}

TEST(PackVectors, ANodePriceOfOnePercentHalvesTheNodes) {
  const auto shared = shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  for (const auto& set : sets_in(*shared + "/vectors/gpu-mixes")) {
    SCOPED_TRACE(set);
    const auto problem = problem_of(read_json(set + ".input.json.gz"));
    ASSERT_TRUE(problem);
    const Json reference = read_json(set + ".reference.json")["greedy"];
    Effort effort;
    effort.node_price = reference["price"].number() / 100;
    const auto plan = pack(*problem, effort);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(still_holds(*problem, *plan, effort.node_price));
    EXPECT_LE(static_cast<std::int64_t>(plan->nodes.size()) * 2, reference["nodes"].integer());
  }
}

}  // namespace vectors_test
}  // namespace qm::autoscaler::pack::testing
