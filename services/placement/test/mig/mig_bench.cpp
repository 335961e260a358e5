// Packing of many requests at once, and the table of layouts, which is built once for a family.
#include "qm/placement/mig/pack.hpp"

#include <benchmark/benchmark.h>

#include <random>

namespace qm::placement::mig::testing {
namespace {

void make_table(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(StateTable(geometry_of(Family::kSeven)));
}

/// Packs as many compute slices of requests as the empty GPUs have.
void pack_at_once(benchmark::State& state) {
  const auto gpus = static_cast<std::size_t>(state.range(0));
  const StateTable& table = StateTable::of(Family::kSeven);
  std::vector<Pending> pending(seven::kProfiles);
  for (ProfileId id = 0; id < pending.size(); ++id) pending[id].weight = table.geometry().profiles[id].compute;
  std::mt19937_64 random(1);
  for (auto slices = static_cast<int>(gpus) * table.geometry().compute_slices; slices > 0;) {
    const auto id = static_cast<std::size_t>(random() % pending.size());
    ++pending[id].count;
    slices -= table.geometry().profiles[id].compute;
  }
  const std::vector<StateId> empty(gpus, StateTable::empty());
  for (auto _ : state) benchmark::DoNotOptimize(pack(table, empty, pending, 10'000));
}

BENCHMARK(pack_at_once)->Arg(8)->Arg(100)->Unit(benchmark::kMicrosecond);
BENCHMARK(make_table)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::placement::mig::testing
