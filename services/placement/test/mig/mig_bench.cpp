// A decision on 1,000 GPUs that are full but for what ended, and what is made once for a family or a mix.
#include "loss_system.hpp"

#include <benchmark/benchmark.h>

namespace qm::placement::mig::testing {
namespace {

constexpr std::size_t kGpus = 1000;

/// The fleet as the requests of the uniform mix leave it after four mean stays.
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

/// A choice, taken and given back.
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

BENCHMARK(choose_scarcity)->Unit(benchmark::kMicrosecond);
BENCHMARK(choose_first_fit)->Unit(benchmark::kMicrosecond);
BENCHMARK(place_and_free)->Unit(benchmark::kMicrosecond);
BENCHMARK(make_table)->Unit(benchmark::kMillisecond);
BENCHMARK(make_scarcity)->Unit(benchmark::kMillisecond);
BENCHMARK(make_fragmentation)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::placement::mig::testing
