// How long one outline blocks the engine's thread: nodes of eight GPUs, each with a gang of eight pods.
#include "qm/placement/engine.hpp"

#include <benchmark/benchmark.h>

namespace qm::placement {
namespace {

void outline_of(benchmark::State& state) {
  const Options options;
  Engine engine(options);
  std::vector<Command> batch{WatchStarted{}};
  std::set<NodeName> names;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    NodeFacts facts;
    facts.model = i % 3 == 0 ? "A100" : "H100";
    facts.cpu_milli = 96'000;
    facts.memory_bytes = std::int64_t{1} << 40;
    facts.gpus = facts.gpus_installed = 8;
    facts.ready = true;
    const NodeName name(fmt::format("n{:06}", i));
    names.insert(name);
    batch.emplace_back(NodeUpdated{name, facts});
  }
  batch.emplace_back(NodesSynced{names});
  batch.emplace_back(PodsSynced{});
  const Instant now = from_micros(1'000'000'000);
  // One gang over all nodes: it is decided at once, and its members are on the same nodes as those of many gangs.
  WorkloadUpdated latest;
  latest.spec.uid = WorkloadUid("w");
  latest.spec.pod_sets.emplace_back();
  latest.spec.pod_sets[0].count = static_cast<std::int32_t>(8 * state.range(0));
  latest.spec.pod_sets[0].shape.cpu_milli = 4'000;
  latest.spec.pod_sets[0].shape.gpu.whole = 1;
  latest.phase = WorkloadPhase::kQuotaReserved;
  batch.emplace_back(latest);
  (void)engine.step(batch, now);
  engine.commit();
  std::int64_t placed = 0;
  for (auto _ : state) {
    const auto outline = engine.outline();
    placed = outline.pods.empty() ? 0 : outline.pods.begin()->second.placed;
  }
  if (placed != 8 * state.range(0)) state.SkipWithError("not all pods have a place");
}
BENCHMARK(outline_of)->Arg(1000)->Arg(5000)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::placement
