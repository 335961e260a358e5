// A decision on 1,000 GPUs that are full except for finished requests, and the tables that are
// built once for a family or a mix.
#include "loss_system.hpp"
#include "qm/placement/mig/pack.hpp"
#include "qm/placement/mig/reslice.hpp"

#include <benchmark/benchmark.h>

namespace qm::placement::mig::testing {
namespace {

constexpr std::size_t kGpus = 1000;

/// The fleet after four mean durations of requests of the uniform mix.
struct Busy {
  const StateTable& table = StateTable::of(Family::kSeven);
  Mix mix = mixes()[0].mix;
  LeastLoss policy{"scarcity", scarcity_worth(table, mix)};
  Fleet fleet = made_on_demand(table, kGpus);

  Busy() {
    struct Held {
      double until;
      Choice choice;
    };
    std::vector<Held> held;
    for (const Request& request : requests(table.geometry(), mix, kGpus, 1.0, 4, 1)) {
      std::erase_if(held, [&](const Held& each) {
        if (each.until > request.at) return false;
        fleet.give_back(each.choice.gpu, each.choice.spot);
        return true;
      });
      const auto choice = choose(fleet, request.profile, policy);
      if (!choice) continue;
      fleet.take(choice->gpu, choice->spot);
      held.push_back({request.at + request.stays, *choice});
    }
  }
};

const Busy& busy() {
  static const Busy all;
  return all;
}

void choose_on(benchmark::State& state, const Fleet& fleet, const Policy& policy) {
  ProfileId profile = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(choose(fleet, profile, policy));
    profile = static_cast<ProfileId>((profile + 1) % seven::kProfiles);
  }
  state.counters["kinds"] = static_cast<double>(fleet.kinds().size());
}
void choose_scarcity(benchmark::State& state) { choose_on(state, busy().fleet, busy().policy); }
void choose_first_fit(benchmark::State& state) { choose_on(state, busy().fleet, FirstFit()); }

/// Places an instance and frees it again.
void place_and_free(benchmark::State& state) {
  Fleet fleet = busy().fleet;
  for (auto _ : state) {
    const auto choice = choose(fleet, seven::k1g, busy().policy);
    if (!choice) continue;
    fleet.take(choice->gpu, choice->spot);
    fleet.give_back(choice->gpu, choice->spot);
  }
}

void make_table(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(StateTable(geometry_of(Family::kSeven)));
}
void make_scarcity(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(scarcity_worth(busy().table, busy().mix));
}
void make_fragmentation(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(fragmentation_worth(busy().table, busy().mix));
}

/// A node of eight busy GPUs where any instance may be drained and none of the profile is free.
void reslice_node(benchmark::State& state) {
  std::vector<Sliced> gpus;
  for (GpuId id = 0; gpus.size() < 8; ++id) {
    const StateId used = busy().fleet.gpu(id).used;
    if (busy().table.fits(used, seven::k3g)) continue;
    gpus.push_back({true, false, used, {}});
    for (SpotId spot = 0; spot < busy().table.spots().size(); ++spot) {
      if (busy().table.has(used, spot)) gpus.back().used[spot] = 10 * busy().table.profile_at(spot).compute + id % 3;
    }
  }
  const std::vector<ProfileId> wanted{seven::k3g};
  for (auto _ : state) benchmark::DoNotOptimize(reslice(busy().table, gpus, wanted, {}, busy().policy));
}

/// Packs all requests of one mean duration onto the same number of empty GPUs at once.
void pack_at_once(benchmark::State& state) {
  const auto gpus = static_cast<std::size_t>(state.range(0));
  std::vector<Waiting> waiting(seven::kProfiles);
  for (ProfileId id = 0; id < waiting.size(); ++id) waiting[id].weight = busy().table.geometry().profiles[id].compute;
  for (const Request& each : requests(busy().table.geometry(), busy().mix, gpus, 1.0, 1, 1))
    ++waiting[each.profile].count;
  const std::vector<StateId> empty(gpus, StateTable::empty());
  for (auto _ : state) benchmark::DoNotOptimize(pack(busy().table, empty, waiting, 10'000));
}

BENCHMARK(choose_scarcity)->Unit(benchmark::kMicrosecond);
BENCHMARK(choose_first_fit)->Unit(benchmark::kMicrosecond);
BENCHMARK(place_and_free)->Unit(benchmark::kMicrosecond);
BENCHMARK(reslice_node)->Unit(benchmark::kMicrosecond);
BENCHMARK(pack_at_once)->Arg(8)->Arg(100)->Unit(benchmark::kMicrosecond);
BENCHMARK(make_table)->Unit(benchmark::kMillisecond);
BENCHMARK(make_scarcity)->Unit(benchmark::kMillisecond);
BENCHMARK(make_fragmentation)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::placement::mig::testing
