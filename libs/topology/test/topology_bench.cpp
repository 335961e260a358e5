// A search over a large flavor: hosts of 8 GPUs, 32 to a rack, 16 racks to a block, nine tenths of the GPUs
// in use.
#include "qm/topology/search.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

namespace qm::topology {
namespace {

struct Large {
  ResourceNames names;
  Requests gpu{{names.intern("nvidia.com/gpu"), 1}};
  Topology topology;

  explicit Large(int hosts)
      : topology(names, {"default", {"block", "rack", std::string(kHostnameLabel)}, {}, {}}, nodes(hosts)) {
    const DomainRange leaves = topology.tree().leaves();
    for (DomainId leaf = leaves.begin; leaf < leaves.end; ++leaf) {
      const Pods taken = leaf % 10 == 0 ? 0 : 8 - (leaf * 7 % 16 == 0 ? 4 : 0);
      topology.take(leaf, usage_of(gpu, taken));
    }
  }

  [[nodiscard]] std::vector<Node> nodes(int hosts) const {
    std::vector<Node> out(static_cast<std::size_t>(hosts));
    for (int i = 0; i < hosts; ++i) {
      auto& node = out[static_cast<std::size_t>(i)];
      node.name = fmt::format("n{:06}", i);
      node.labels = {{"block", fmt::format("b{:04}", i / 512)},
                     {"rack", fmt::format("r{:05}", i / 32)},
                     {std::string(kHostnameLabel), node.name},
                     {"gpu", "h100"}};
      node.allocatable = {{kPods, 110}, {gpu[0].resource, 8}};
    }
    return out;
  }
};

PodSetRequest gang(const Large& large, Pods pods, TopologyRequest topology) {
  PodSetRequest out;
  out.name = "main";
  out.count = pods;
  out.per_pod = large.gpu;
  out.topology = std::move(topology);
  out.rules.node_selector = {{"gpu", "h100"}};
  return out;
}

void place(benchmark::State& state, Pods pods, const TopologyRequest& topology, Gates gates = {}) {
  const Large large(static_cast<int>(state.range(0)));
  Search search(large.topology, gates);
  const auto workers = gang(large, pods, topology);
  for (auto _ : state) benchmark::DoNotOptimize(search.place(workers, nullptr, {}));
}

void required_rack(benchmark::State& state) {
  place(state, 24, {.required = "rack", .preferred = {}, .unconstrained = false, .slices = {}});
}
void preferred_rack(benchmark::State& state) {
  place(state, 512, {.required = {}, .preferred = "rack", .unconstrained = false, .slices = {}});
}
void unconstrained(benchmark::State& state) {
  place(state, 512, {.required = {}, .preferred = {}, .unconstrained = true, .slices = {}});
}
void balanced_rack(benchmark::State& state) {
  place(state, 64, {.required = {}, .preferred = "rack", .unconstrained = false, .slices = {}}, {.balanced = true});
}
void no_capacity(benchmark::State& state) {
  place(state, 100000, {.required = "rack", .preferred = {}, .unconstrained = false, .slices = {}});
}

BENCHMARK(required_rack)->Arg(2500)->Arg(100000)->Unit(benchmark::kMicrosecond);
BENCHMARK(preferred_rack)->Arg(2500)->Arg(100000)->Unit(benchmark::kMicrosecond);
BENCHMARK(unconstrained)->Arg(2500)->Arg(100000)->Unit(benchmark::kMicrosecond);
BENCHMARK(balanced_rack)->Arg(2500)->Arg(100000)->Unit(benchmark::kMicrosecond);
BENCHMARK(no_capacity)->Arg(2500)->Arg(100000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace qm::topology
