// Packing in fast mode. The pods have the mix of Karpenter's scheduling benchmark (generic, zone and host spread, zone
// affinity, host anti-affinity; random sizes and labels), on its linear instance types or on fewer and more of them.
#include "qm/autoscaler/pack/plan.hpp"

#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>

namespace qm::autoscaler::pack {
namespace {

constexpr std::int64_t kMebi = 1 << 20;

LabelSelector label_is(const std::string& key, const std::string& value) {
  return {{{key, LabelRequirement::Op::kIn, {value}}}};
}

std::vector<InstanceType> linear_types(std::int64_t count) {
  std::vector<InstanceType> out;
  for (std::int64_t i = 1; i <= count; ++i) {
    InstanceType type;
    type.name = "type-" + std::to_string(i);
    type.cpu_milli = 1000 * i, type.memory_bytes = 2048 * kMebi * i, type.pods = 10 * i;
    type.overhead_cpu_milli = 100, type.overhead_memory_bytes = 10 * kMebi;
    for (const char* zone : {"zone-1", "zone-2", "zone-3"}) {
      for (const char* capacity : {"spot", "on-demand"}) {
        type.offerings.push_back({zone, capacity, 0.3147483648 * static_cast<double>(i), true});
      }
    }
    out.push_back(std::move(type));
  }
  return out;
}

Problem diverse(std::int64_t pods, std::int64_t types) {
  static constexpr std::array<std::int64_t, 5> kCpu{100, 250, 500, 1000, 1500};
  static constexpr std::array<std::int64_t, 6> kMemory{100, 256, 512, 1024, 2048, 4096};
  std::mt19937_64 random(42);
  const auto letter = [&] { return std::string(1, static_cast<char>('a' + random() % 7)); };
  Problem out;
  out.types = linear_types(types);
  for (std::int64_t i = 0; i < pods; ++i) {
    Pod pod;
    pod.uid = "pod-" + std::to_string(i);
    pod.name_space = "default";
    pod.cpu_milli = kCpu[random() % kCpu.size()];
    pod.memory_bytes = kMemory[random() % kMemory.size()] * kMebi;
    const std::int64_t kind = i * 5 / pods;
    if (kind < 3) pod.labels["my-label"] = letter();
    if (kind == 1) pod.spread.push_back({"topology.kubernetes.io/zone", 1, label_is("my-label", letter()), true});
    if (kind == 2) pod.spread.push_back({"kubernetes.io/hostname", 1, label_is("my-label", letter()), true});
    if (kind == 3) {
      const std::string group = letter();
      pod.labels["group"] = group;
      pod.affinity.push_back({"topology.kubernetes.io/zone", label_is("group", group)});
    }
    if (kind == 4) {
      pod.labels["app"] = "nginx";
      pod.anti_affinity.push_back({"kubernetes.io/hostname", label_is("app", "nginx")});
    }
    out.pods.push_back(std::move(pod));
  }
  return out;
}

/// The binpacking benchmark of Cluster Autoscaler's estimator, which fills exactly 2,595 nodes.
Problem two_sizes() {
  Problem out;
  InstanceType type;
  type.name = "node";
  type.cpu_milli = 1000, type.memory_bytes = 5000, type.pods = 100;
  type.offerings.push_back({"zone-1", "on-demand", 1, true});
  out.types.push_back(type);
  for (int i = 0; i < 51'000; ++i) {
    Pod pod;
    pod.uid = std::to_string(i);
    pod.cpu_milli = i < 50'000 ? 50 : 95;
    pod.memory_bytes = i < 50'000 ? 100 : 190;
    out.pods.push_back(std::move(pod));
  }
  return out;
}

void run(benchmark::State& state, const Problem& problem) {
  Plan plan;
  for (auto _ : state) {
    plan = *pack(problem);
    benchmark::DoNotOptimize(plan);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(problem.pods.size()));
  state.counters["nodes"] = static_cast<double>(plan.nodes.size());
  state.counters["price"] = plan.price;
  state.counters["price/bound"] = plan.price / plan.bound;
}

void diverse_pods(benchmark::State& state) { run(state, diverse(state.range(0), 400)); }
BENCHMARK(diverse_pods)->Arg(100)->Arg(1'000)->Arg(10'000)->Arg(20'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

void instance_types(benchmark::State& state) { run(state, diverse(1'000, state.range(0))); }
BENCHMARK(instance_types)->Arg(10)->Arg(100)->Arg(400)->Arg(1'200)->Unit(benchmark::kMillisecond);

void cluster_autoscaler_oracle(benchmark::State& state) { run(state, two_sizes()); }
BENCHMARK(cluster_autoscaler_oracle)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::autoscaler::pack
