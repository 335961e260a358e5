// The comparison of a NodePool's requirements with the labels of instance types, and of nodes with pods.
#include "qm/autoscaler/requirements/requirement.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <vector>

namespace qm::autoscaler {
namespace {

Requirements type_labels(int i) {
  Requirements out;
  out.add(exactly("node.kubernetes.io/instance-type", fmt::format("t{}.xlarge", i)));
  for (int key = 0; key < 20; ++key)
    out.add(exactly(fmt::format("karpenter.k8s.aws/k{}", key), std::to_string(i % (key + 2))));
  return out;
}

Requirements pool_requirements() {
  Requirements out;
  for (int key = 0; key < 8; ++key)
    out.add(*requirement_of({fmt::format("karpenter.k8s.aws/k{}", key), Operator::kLte, {"40"}, {}}));
  out.add(*requirement_of({"karpenter.k8s.aws/k9", Operator::kNotIn, {"3", "7"}, {}}));
  return out;
}

/// All types of a catalog of this size against one pool.
void pool_against_types(benchmark::State& state) {
  const auto pool = pool_requirements();
  std::vector<Requirements> types;
  for (int i = 0; i < state.range(0); ++i) types.push_back(type_labels(i));
  for (auto _ : state) {
    std::int64_t allowed = 0;
    for (const auto& type : types) allowed += type.disjoint_key(pool) ? 0 : 1;
    benchmark::DoNotOptimize(allowed);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(pool_against_types)->Arg(119)->Arg(1000);

void node_against_pod(benchmark::State& state) {
  const auto node = type_labels(5);
  const Requirements pod(Labels{{"karpenter.k8s.aws/k3", "0"}, {"node.kubernetes.io/instance-type", "t5.xlarge"}});
  for (auto _ : state) benchmark::DoNotOptimize(node.conflict(pod, Undefined::kWellKnownIsAny));
}
BENCHMARK(node_against_pod);

}  // namespace
}  // namespace qm::autoscaler
