// What a "no" with its reasons costs: a gang that lacks a selector, a toleration, a model and GPUs, among so many nodes.
#include "qm/placement/obstacles.hpp"

#include <benchmark/benchmark.h>

namespace qm::placement {
namespace {

struct Large {
  std::map<NodeName, NodeFacts> facts;
  Rooms rooms;
  Preference preference;

  explicit Large(std::int64_t nodes) {
    for (std::int64_t i = 0; i < nodes; ++i) {
      const NodeName name(fmt::format("n{:06}", i));
      auto& made = facts[name];
      made.model = i % 3 == 0 ? "A100" : "H100";
      made.labels = {{"pool", i % 5 == 0 ? "serve" : "train"},
                     {"zone", fmt::format("z{}", i % 3)},
                     {"rack", fmt::format("r{}", i / 32)}};
      if (i % 4 == 0) made.taints.push_back({"team", fmt::format("t{}", i % 3), "NoSchedule"});
      made.cpu_milli = 96'000;
      made.memory_bytes = std::int64_t{1} << 40;
      made.gpus = 8;
      Room room;
      room.facts = &made;
      room.usable = i % 50 != 0;
      room.why_not = "cordoned";
      room.cpu_milli = 4'000 * (i % 20);
      room.memory_bytes = made.memory_bytes;
      room.free_milli.assign(8, 0);
      for (std::int64_t d = 0; d < i % 5; ++d) room.free_milli[static_cast<std::size_t>(d)] = 1000;
      rooms.emplace(name, room);
    }
    preference.prepare(rooms);
  }
};

void Obstacles(benchmark::State& state) {
  Large fleet(state.range(0));
  PodSet set;
  set.count = static_cast<std::int32_t>(state.range(0));
  set.shape.cpu_milli = 12'000;
  set.shape.gpu.whole = 4;
  set.shape.gpu.models = {"H100"};
  set.shape.node_selector = {{"pool", "train"}, {"zone", "z1"}};
  for (auto _ : state) {
    const auto found = obstacles_of({set}, fleet.rooms, fleet.preference);
    if (found.conflict.empty()) state.SkipWithError("the gang fits");
    benchmark::DoNotOptimize(found.ways.size());
  }
}
BENCHMARK(Obstacles)->Arg(1000)->Arg(5000)->Arg(20000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::placement
