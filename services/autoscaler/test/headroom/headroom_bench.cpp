// Cost of one plan over a history with day and week pattern.
#include "qm/autoscaler/headroom/headroom.hpp"

#include <benchmark/benchmark.h>

namespace qm::autoscaler::headroom {
namespace {

void plan_of_arrivals(benchmark::State& bench) {
  Problem problem;
  problem.wait = std::chrono::seconds(60);
  problem.until = problem.from + std::chrono::hours(24 * 28);
  Shape shape{"g", 1'000'000'000, std::chrono::minutes(4), 1000, {}};
  const auto between = (problem.until - problem.from) / bench.range(0);
  for (std::int64_t i = 0; i < bench.range(0); ++i)
    shape.changes.push_back({problem.from + between * i, 1 + i * 7919 % 13 / 12 * 20});
  problem.shapes.push_back(shape);
  for (auto _ : bench) benchmark::DoNotOptimize(plan(problem));
  bench.SetItemsProcessed(static_cast<std::int64_t>(bench.iterations()) * bench.range(0));
}
BENCHMARK(plan_of_arrivals)->Arg(1'000)->Arg(32'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::autoscaler::headroom
