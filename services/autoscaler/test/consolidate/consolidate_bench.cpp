// Nodes of 16 cores, of which each fourth is half full: what a search costs by the number of nodes.
#include "problems.hpp"

#include <benchmark/benchmark.h>

namespace qm::autoscaler::consolidate::testing {
namespace {

ClusterOf cluster_of(std::int64_t nodes) {
  ClusterOf out;
  out.pool("p", nodes);
  for (std::int64_t cores = 2; cores <= 64; cores *= 2)
    out.type(fmt::format("{}-cores", cores), cores, static_cast<double>(cores) * 0.05);
  const auto kind = out.kind(1000, 0, "web");
  for (std::int64_t i = 0; i < nodes; ++i) {
    const auto node = out.node(fmt::format("n{}", i), "p", 16, 0.9);
    for (int pod = 0; pod < (i % 4 == 0 ? 8 : 15); ++pod) out.pod(node, kind);
  }
  return out;
}

void search(benchmark::State& state) {
  const auto cluster = cluster_of(state.range(0));
  std::size_t removed = 0;
  for (auto _ : state) {
    const auto out = plan(cluster.problem);
    removed = out ? out->removed.size() : 0;
  }
  state.counters["removed"] = static_cast<double>(removed);
}
BENCHMARK(search)->Arg(10)->Arg(100)->Arg(1'000)->Unit(benchmark::kMillisecond);

void verify(benchmark::State& state) {
  const auto cluster = cluster_of(state.range(0));
  const auto out = plan(cluster.problem);
  for (auto _ : state) benchmark::DoNotOptimize(still_holds(cluster.problem, *out));
}
BENCHMARK(verify)->Arg(100)->Arg(1'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::autoscaler::consolidate::testing
