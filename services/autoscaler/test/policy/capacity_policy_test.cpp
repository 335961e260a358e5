// The policy table, row by row.
#include "qm/autoscaler/policy/capacity_policy.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace qm::autoscaler::testing {
namespace capacity_policy_test {

using namespace std::chrono_literals;

std::string chosen(const WorkloadTraits& workload, Reliability reliability) {
  return text_of(capacity_for(workload, reliability).order);
}

/// A workload of the reference table in our terms.
struct ReferenceRow {
  WorkloadTraits workload;
  Reliability reliability;
};

// S-192: each row of the reference table, by the profile of the fleet that it is from.
TEST(CapacityPolicy, FollowsTheReferenceTableRowByRow) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const std::map<std::string, ReferenceRow> meaning{
      {"inference (stateless)", {{"inference", false, 0s}, Reliability::kSpotFirst}},
      {"fine-tuning (short)", {{"fine-tuning", true, 2h}, Reliability::kSpotFirst}},
      {"large training (long)", {{"training", true, 72h}, Reliability::kSpotFirst}},
      {"batch processing", {{"batch", false, 0s}, Reliability::kSpotFirst}},
      {"production inference", {{"inference", false, 0s}, Reliability::kOnDemand}},
      {"training", {{"training", true, 8h}, Reliability::kOnDemand}}};
  const std::map<std::string, std::string> wanted{
      {"\"spot first, on-demand fallback\"", "spot first, on-demand fallback"},
      {"spot", "spot"},
      {"spot only", "spot"},
      {"on-demand", "on-demand"},
      {"on-demand + reserved", "on-demand + reserved"}};
  std::istringstream table(qm::testing::read_file(*shared + "/tables/decision-spot-ondemand.csv"));
  std::string line;
  std::getline(table, line);
  ASSERT_EQ(line, "workload,capacity,condition,seed");
  std::size_t rows = 0;
  while (std::getline(table, line)) {
    const auto name = line.substr(0, line.find(','));
    const bool quoted = line[name.size() + 1] == '"';
    const auto end = quoted ? line.find("\",", name.size()) + 1 : line.find(',', name.size() + 1);
    const auto capacity = line.substr(name.size() + 1, end - name.size() - 1);
    ASSERT_TRUE(meaning.contains(name)) << line;
    ASSERT_TRUE(wanted.contains(capacity)) << line;
    const auto& [workload, reliability] = meaning.at(name);
    EXPECT_EQ(chosen(workload, reliability), wanted.at(capacity)) << line;
    ++rows;
  }
  EXPECT_EQ(rows, meaning.size());
}

TEST(CapacityPolicy, WithoutCheckpointsAnInterruptionWouldLoseTheWork) {
  for (const char* type : {"training", "fine-tuning"}) {
    EXPECT_EQ(chosen({type, false, 2h}, Reliability::kSpotFirst), "on-demand");
    EXPECT_EQ(chosen({type, true, 2h}, Reliability::kSpotFirst), "spot");
  }
  EXPECT_EQ(chosen({"training", true, kLongTraining - 1us}, Reliability::kSpotFirst), "spot");
  EXPECT_EQ(chosen({"training", true, kLongTraining}, Reliability::kSpotFirst), "on-demand + reserved");
}

TEST(CapacityPolicy, NamesItsRow) {
  EXPECT_EQ(capacity_for({"inference", false, 0s}, Reliability::kSpotFirst).reason,
            "inference under reliability=spot-first: spot first, on-demand fallback");
}

TEST(CapacityPolicy, WithoutAProfileOrARowThePriceDecides) {
  EXPECT_TRUE(capacity_for({"inference", false, 0s}, Reliability::kByPrice).order.empty());
  EXPECT_TRUE(capacity_for({"notebook", true, 0s}, Reliability::kOnDemand).order.empty());
  EXPECT_TRUE(capacity_for({}, Reliability::kSpotFirst).order.empty());
}

}  // namespace capacity_policy_test
}  // namespace qm::autoscaler::testing
