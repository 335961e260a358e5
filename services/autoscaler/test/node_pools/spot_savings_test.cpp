// What spot capacity saved by histories of prices.
#include "qm/autoscaler/node_pools/spot_savings.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace qm::autoscaler {
namespace spot_savings_test {

Instant day(int n) { return *from_rfc3339("2026-10-01T00:00:00Z") + std::chrono::hours(24 * n); }

PoolSummary pool_of(std::vector<std::string> types, std::vector<std::string> zones = {}) {
  PoolSummary out;
  out.instance_types = std::move(types);
  out.zones = std::move(zones);
  out.spot = true;
  return out;
}

SpotPricePoint point(const char* type, const char* zone, int from_day, const char* usd) {
  return {type, zone, day(from_day), *Money::parse_usd(usd)};
}

// S-156: of each NodePool, from the history and not from a figure.
TEST(SpotSavings, FollowTheHistoryWeightedByTime) {
  // g5.xlarge costs 1.006 on demand: 10 days at 0.302 and 20 at 0.503, in any order.
  const std::vector<SpotPricePoint> history{point("g5.xlarge", "a", 10, "0.503"), point("g5.xlarge", "a", 0, "0.302"),
                                            point("g5.xlarge", "b", 0, "1.2072"), point("g6.xlarge", "a", 0, "0.1")};
  const auto saving = spot_saving_of(pool_of({"g5.2xlarge", "g5.xlarge"}), history, day(30));
  ASSERT_EQ(saving.columns.size(), 2U);
  EXPECT_EQ(saving.columns[0].zone, "a");
  EXPECT_EQ(saving.columns[0].mean.to_usd(3), "0.436");
  EXPECT_NEAR(saving.columns[0].percent, 56.66, 0.01);
  EXPECT_NEAR(saving.columns[1].percent, -20, 1e-9) << "it was more expensive than on demand";
  EXPECT_NEAR(saving.mean_percent, (56.66 - 20) / 2, 0.01);
  EXPECT_EQ(saving.types_without_price, std::vector<std::string>{"g5.2xlarge"});
  const auto zoned = spot_saving_of(pool_of({"g5.xlarge"}, {"b"}), history, day(30));
  ASSERT_EQ(zoned.columns.size(), 1U);
  EXPECT_EQ(zoned.columns[0].zone, "b");
}

// S-156: of the prices of the reference about 70 % in each pool.
TEST(SpotSavings, OfTheReferencePricesAreAboutSeventyPercent) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  std::istringstream table(qm::testing::read_file(*shared + "/tables/spot-prices.csv"));
  std::string line;
  std::getline(table, line);
  int rows = 0;
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    std::string type, on_demand, spot;
    std::getline(cells, type, ',');
    std::getline(cells, on_demand, ',');
    std::getline(cells, spot, ',');
    const auto saving =
        spot_saving_of(pool_of({type}), std::vector{point(type.c_str(), "a", 0, spot.c_str())}, day(30));
    EXPECT_GT(saving.mean_percent, 69.9) << line;
    EXPECT_LT(saving.mean_percent, 70.1) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 5);
}

TEST(SpotSavings, WithoutSpotCapacityOrPricesThereIsNone) {
  const std::vector<SpotPricePoint> history{point("g5.xlarge", "a", 5, "0.3")};
  auto on_demand = pool_of({"g5.xlarge"});
  on_demand.spot = false;
  EXPECT_TRUE(spot_saving_of(on_demand, history, day(30)).columns.empty());
  EXPECT_TRUE(spot_saving_of(pool_of({"g5.xlarge"}), history, day(5)).columns.empty()) << "no price has a duration";
  EXPECT_TRUE(spot_saving_of(pool_of({"g5.xlarge"}), {}, day(30)).columns.empty());
}

}  // namespace spot_savings_test
}  // namespace qm::autoscaler
