// The ConfigMap of the priority expander.
#include "qm/node_groups/priorities.hpp"

#include "qm/config/yaml_reader.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::node_groups::testing {
namespace priorities_test {

constexpr auto kHighest = PriorityOrder::kHighestWins;
constexpr auto kLowest = PriorityOrder::kLowestWins;

Priorities read(std::string_view text) {
  auto out = Priorities::parse(text);
  EXPECT_TRUE(out) << (out ? "" : out.error().to_string());
  return out.value_or(Priorities{});
}

// S-164 and S-165: the reference file, and the warning that it means the opposite in Cluster Autoscaler.
TEST(Priorities, OfTheReferenceMatchGroupsByPattern) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto yaml = config::read_yaml(
      qm::testing::read_file(*shared + "/manifests/001-cluster-autoscaler-priority-expander.yaml"), "f");
  ASSERT_EQ(yaml.documents.size(), 1U);
  const Json& object = yaml.documents[0].content;
  EXPECT_EQ(object.path("metadata.name").string(), kPriorityExpander);
  const Priorities priorities = read(object["data"][kPriorities].string());
  EXPECT_EQ(priorities.number_of("h100-ondemand-asg", kHighest), 10);
  EXPECT_EQ(priorities.number_of("h100-spot-asg", kHighest), 50);
  EXPECT_EQ(priorities.number_of("h100-asg", kHighest), std::nullopt);
  const auto highest = priorities.lint(kHighest), lowest = priorities.lint(kLowest);
  ASSERT_EQ(highest.size(), 1U);
  EXPECT_NE(highest[0].find("spot capacity (priority 50) is preferred to on-demand capacity (priority 10)"),
            std::string::npos);
  ASSERT_EQ(lowest.size(), 1U);
  EXPECT_NE(lowest[0].find("Cluster Autoscaler would choose priority 50 (.*-spot.*) first"), std::string::npos);
}

TEST(Priorities, TheWinningNumberOfSeveralMatchesCounts) {
  const Priorities priorities = read("1: ['.*']\n5: ['gpu']\n9: ['^gpu-a$', 'x']\n");
  EXPECT_EQ(priorities.number_of("gpu-a", kHighest), 9);
  EXPECT_EQ(priorities.number_of("gpu-a", kLowest), 1);
  EXPECT_EQ(priorities.number_of("my-gpu-b", kHighest), 5) << "a part matches";
}

TEST(Priorities, WithoutAmbiguityThereIsNoWarning) {
  EXPECT_TRUE(read("10: ['.*-spot.*']\n50: ['.*-on-demand.*']\n").lint(kHighest).empty());
  EXPECT_TRUE(read("10: ['.*']\n").lint(kLowest).empty());
  EXPECT_TRUE(Priorities().lint(kHighest).empty());
}

TEST(Priorities, RefusesWhatItCannotRead) {
  const auto error = [](std::string_view text) {
    const auto out = Priorities::parse(text);
    return out ? std::string() : out.error().to_string();
  };
  EXPECT_NE(error("10: ['(']").find("the expression '(' of priority 10 cannot be read"), std::string::npos);
  EXPECT_NE(error("high: ['a']").find("'high' is not a priority"), std::string::npos);
  EXPECT_NE(error("-1: ['a']").find("'-1' is not a priority"), std::string::npos);
  EXPECT_NE(error("10: a").find("priority 10 has no list"), std::string::npos);
  EXPECT_NE(error("10: []").find("priority 10 has no list"), std::string::npos);
  EXPECT_NE(error("10: [1]").find("no text"), std::string::npos);
  EXPECT_NE(error("- a"), "");
  EXPECT_NE(error(""), "");
  EXPECT_NE(error("10: [a\n"), "");
}

}  // namespace priorities_test
}  // namespace qm::node_groups::testing
