// A month of recorded workloads through the engine with a simulated cloud.
#include "qm/autoscaler/history/history.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

namespace qm::autoscaler {
namespace {

/// GPU types with prices per GPU that grow with the size.
std::vector<InstanceType> catalog() {
  const auto type = [](const char* name, std::int64_t gpus, std::int64_t usd) {
    return InstanceType{name, gpus, "H100", gpus * 16'000, gpus << 36, HourlyRate{Money::nano(usd * 1'000'000'000)}};
  };
  return {type("a8", 8, 40), type("g1", 1, 1), type("g4", 4, 5), type("h8", 8, 90)};
}

PodSet pod_set(std::int32_t count, std::int64_t gpus) {
  PodSet set;
  set.count = count;
  set.shape.gpu.whole = gpus;
  return set;
}

/// `jobs` workloads over 30 days: 80 % single pods of 1 to 8 GPUs, the rest gangs of 2 to 4 nodes; minutes to a day.
History month_of(std::int64_t jobs) {
  constexpr std::chrono::hours kMonth{24 * 30};
  constexpr std::int64_t kFrom = 1'000'000'000'000;
  History out;
  out.from = from_micros(kFrom);
  out.to = out.from + kMonth;
  Pool pool;
  pool.name = "p";
  pool.instance_types = {"a8", "g1", "g4", "h8"};
  pool.markets = {Market::kOnDemand};
  pool.consolidate_after = std::chrono::minutes(5);
  out.changes.push_back({out.from, PoolsApplied{{pool}}});
  std::mt19937 random(3);
  for (std::int64_t i = 0; i < jobs; ++i) {
    History::Job job;
    job.item.id = {WorkloadUid("w" + std::to_string(i)), 1};
    job.item.since = out.from + std::chrono::seconds(random() % (24 * 30 * 3600));
    const bool gang = random() % 5 == 0;
    job.item.pod_sets = {
        pod_set(gang ? static_cast<std::int32_t>(2 + random() % 3) : 1, gang ? 8 : std::int64_t{1} << (random() % 4))};
    job.workload.uid = job.item.id.uid;
    job.runs = std::chrono::seconds(300 + random() % (random() % 10 == 0 ? 86'400 : 7'200));
    out.jobs.push_back(std::move(job));
  }
  std::ranges::sort(out.jobs, std::less<>{});
  return out;
}

void month(benchmark::State& state) {
  const auto history = month_of(state.range(0));
  for (auto _ : state) {
    const auto bill = replay_bill(history, catalog(), {}, {});
    benchmark::DoNotOptimize(bill);
    state.counters["finished"] = static_cast<double>(bill->finished);
    state.counters["launches"] = static_cast<double>(bill->launches);
  }
}
BENCHMARK(month)->Arg(2'000)->Arg(20'000)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace qm::autoscaler
