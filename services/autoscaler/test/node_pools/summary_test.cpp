// What NodePools allow and cost at most: own manifests, the reference ones if present, and hand-made limits.
#include "qm/autoscaler/node_pools/summary.hpp"

#include "qm/catalog/catalog.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace qm::autoscaler {
namespace summary_test {

std::map<std::string, config::NodePool> pools_in(const std::string& path) {
  std::map<std::string, config::NodePool> out;
  for (const auto& object : config::load_path(path).objects) {
    if (const auto* pool = std::get_if<config::NodePool>(&object.typed)) out.emplace(pool->name, *pool);
  }
  return out;
}

/// A pool of these instance types with one limit or `replicas`.
config::NodePool pool_of(std::vector<std::string> types, std::map<std::string, Quantity> limits,
                         std::int64_t replicas = -1) {
  config::NodePool out;
  out.name = "p";
  out.requirements = {{std::string(words::kInstanceType), "In", std::move(types), 0}};
  out.limits = std::move(limits);
  out.replicas = replicas;
  return out;
}

std::string most_of(const config::NodePool& pool) {
  const auto summary = summary_of(pool);
  return summary.most ? fmt::format("{} by {} of {}", summary.most->usd.to_usd(3), summary.most->limit,
                                    summary.most->instance_type)
                      : "unlimited";
}

// S-212, S-311: the limit times the price for each GPU of the catalog.
TEST(PoolSummary, TheLimitTimesThePriceIsTheHighestSpend) {
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto pools =
        pools_in(manifests.dir + manifests.pick("nodepool-edge-tiers.yaml", "004-nodepool-tiers-g5-g4dn.yaml"));
    ASSERT_EQ(pools.size(), 3U);
    for (const auto& [name, pool] : pools) {
      const auto summary = summary_of(pool);
      ASSERT_TRUE(summary.most) << name;
      const std::int64_t limit = pool.limits.at("nvidia.com/gpu").units();
      double highest = 0;
      for (const auto& type_name : summary.instance_types) {
        const auto& type = *catalog::find(type_name);
        if (type.gpus > 0) highest = std::max(highest, std::stod(std::string(type.usd_hour)) / type.gpus);
      }
      EXPECT_NEAR(std::stod(summary.most->usd.to_usd()), static_cast<double>(limit) * highest, 1e-6) << name;
      EXPECT_EQ(summary.most->limit, fmt::format("nvidia.com/gpu {}", limit));
    }
  }
  // 20 GPUs of the most expensive A10G: one in a g5.16xlarge.
  EXPECT_EQ(most_of(pool_of({"g5.xlarge", "g5.16xlarge", "g5.48xlarge"}, {{"nvidia.com/gpu", Quantity::of(20)}})),
            "81.920 by nvidia.com/gpu 20 of g5.16xlarge");
}

TEST(PoolSummary, OnlyWholeNodesCountWithinALimit) {
  // 12 GPUs hold one node of 8 GPUs, and four of 1.
  EXPECT_EQ(most_of(pool_of({"g5.xlarge", "g5.48xlarge"}, {{"nvidia.com/gpu", Quantity::of(12)}})),
            fmt::format("{:.3f} by nvidia.com/gpu 12 of g5.48xlarge", 16.288 + 4 * 1.006));
  EXPECT_EQ(most_of(pool_of({"g5.48xlarge"}, {{"nvidia.com/gpu", Quantity::of(7)}})),
            "0.000 by nvidia.com/gpu 7 of g5.48xlarge");
}

TEST(PoolSummary, TheLimitWithTheLowestSpendBoundsIt) {
  const auto gpus = Quantity::of(100);
  EXPECT_EQ(most_of(pool_of({"g5.xlarge"}, {{"nvidia.com/gpu", gpus}, {"cpu", Quantity::of(10)}})),
            "2.012 by cpu 10 of g5.xlarge");
  EXPECT_EQ(most_of(pool_of({"g5.xlarge"}, {{"nvidia.com/gpu", gpus}, {"nodes", Quantity::of(3)}})),
            "3.018 by nodes 3 of g5.xlarge");
  EXPECT_EQ(most_of(pool_of({"g5.xlarge"}, {{"nvidia.com/gpu", gpus}, {"cpu", Quantity::of_milli(3999)}})),
            "0.000 by cpu 3999m of g5.xlarge");
  EXPECT_EQ(most_of(pool_of({"g5.xlarge"}, {{"memory", *Quantity::parse("29600Gi")}})).substr(0, 5), "2012.")
      << "16 GiB of which 7.5 % are not the node's, so two thousand nodes";
  EXPECT_EQ(most_of(pool_of({"g5.xlarge", "g5.2xlarge"}, {}, 4)), "4.848 by replicas 4 of g5.2xlarge");
}

TEST(PoolSummary, ALimitBoundsOnlyTypesWithItsResource) {
  const auto mixed = pool_of({"g5.xlarge", "r5.large"}, {{"nvidia.com/gpu", Quantity::of(8)}});
  EXPECT_EQ(most_of(mixed), "unlimited");
  EXPECT_EQ(summary_of(mixed).unlimited_types, std::vector<std::string>{"r5.large"});
  EXPECT_EQ(most_of(pool_of({"g5.xlarge"}, {})), "unlimited");
}

TEST(PoolSummary, APoolFromWhichNothingCanBeLaunchedHasItsProblem) {
  auto pool = pool_of({"g5.xlarge"}, {});
  pool.requirements.push_back({std::string(words::kCapacityType), "In", {"rented"}, 0});
  const auto summary = summary_of(pool);
  EXPECT_NE(summary.problem.find("no supported capacity type"), std::string::npos) << summary.problem;
  EXPECT_TRUE(summary.instance_types.empty());
}

}  // namespace summary_test
}  // namespace qm::autoscaler
