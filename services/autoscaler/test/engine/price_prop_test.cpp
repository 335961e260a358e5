// The selection of an instance type compared with an exhaustive search.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::autoscaler::testing {
namespace price_prop_test {

// S-169: a launch costs as much as the cheapest feasible type, on price lists from a thousand seeds.
TEST(Price, IsTheLeastOfAllFeasibleTypes) {
  int waited = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution(low, high)(random);
    };
    std::vector<InstanceType> catalog;
    Pool pool;
    pool.name = "p";
    pool.markets = {Market::kOnDemand};
    for (int i = 0; i < 6; ++i) {
      InstanceType type;
      type.name = fmt::format("t{}", i);
      type.gpus = between(0, 8);
      type.gpu_product = "H100";
      type.cpu_milli = 1000 * between(4, 64);
      type.memory_bytes = between(8, 512) << 30;
      type.on_demand = HourlyRate{Money::nano(between(1, 50) * 1'000'000'000)};
      pool.instance_types.push_back(type.name);
      catalog.push_back(std::move(type));
    }
    PodSet pods = pod_set(static_cast<std::int32_t>(between(1, 6)), between(1, 4));
    pods.shape.cpu_milli = 1000 * between(0, 12);
    pods.shape.memory_bytes = between(0, 64) << 30;

    std::optional<std::int64_t> least;
    for (const auto& type : catalog) {
      std::int64_t fit = type.gpus / pods.shape.gpu.whole;
      if (pods.shape.cpu_milli > 0) fit = std::min(fit, type.cpu_milli / pods.shape.cpu_milli);
      if (pods.shape.memory_bytes > 0) fit = std::min(fit, type.memory_bytes / pods.shape.memory_bytes);
      if (fit == 0) continue;
      const std::int64_t cost = (pods.count + fit - 1) / fit * type.on_demand.per_hour.nano();
      if (!least || cost < *least) least = cost;
    }

    Engine engine(catalog);
    const Instant now = from_micros(1'000'000);
    const std::vector<Command> batch{PoolsApplied{{pool}}, DemandUpdated{{{attempt_id("w/1"), {pods}, 0, now}}}};
    const auto output = engine.step(batch, now);
    std::int64_t cost = 0;
    for (const auto& launch : output.launches) cost += engine.type(launch.row.type)->on_demand.per_hour.nano();
    ASSERT_EQ(cost, least.value_or(0)) << "seed " << seed;
    waited += least ? 0 : 1;
  }
  EXPECT_LT(waited, 500) << "hardly anything can be launched in the generated lists";
}

}  // namespace price_prop_test
}  // namespace qm::autoscaler::testing
