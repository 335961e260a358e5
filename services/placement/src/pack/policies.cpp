// The simple policies, each a few lines. Those of the FGD paper score in its integers from 0 to
// 100. Equal scores go to the first node, so the granularity of the score matters as much as the
// rule.
#include "policies.hpp"

#include <algorithm>

namespace qm::placement::pack {
namespace {

// The divisors of the paper: the size of its largest node.
constexpr std::int64_t kMostCpu = 128'000;
constexpr std::int64_t kMostGpu = 8'000;
constexpr std::int64_t kBest = 100;

/// Least left over: CPU and GPU count half each.
class BestFit final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "bestfit"; }
  [[nodiscard]] Choice weigh(const NodeState& node, const NodeScores&, const PodClass& pod) const override {
    const double cpu = static_cast<double>(node.cpu_milli - pod.cpu_milli) / kMostCpu;
    const double gpu = static_cast<double>(node.free_milli() - pod.total_milli()) / kMostGpu;
    return {static_cast<std::int64_t>((1 - (cpu + gpu) / 2) * kBest), tightest_device(node, pod)};
  }
};

/// The smallest product of free and requested amounts, summed over CPU and GPU (Tetris, reversed).
class DotProduct final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "dotprod"; }
  [[nodiscard]] Choice weigh(const NodeState& node, const NodeScores&, const PodClass& pod) const override {
    const double cpu = static_cast<double>(node.cpu_milli) / kMostCpu * static_cast<double>(pod.cpu_milli) / kMostCpu;
    const double gpu =
        static_cast<double>(node.free_milli()) / kMostGpu * static_cast<double>(pod.total_milli()) / kMostGpu;
    return {static_cast<std::int64_t>(kBest * (1 - (cpu + gpu) / 2)), tightest_device(node, pod)};
  }
};

/// Nodes with pods of the same kind only come first, then nodes with such pods among others, then
/// empty nodes, then the rest; within each, the fullest first.
class Clustering final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "clustering"; }
  [[nodiscard]] Choice weigh(const NodeState& node, const NodeScores&, const PodClass& pod) const override {
    if (pod.gpus == 0) return {0, 0};
    const auto kind = kind_of(pod);
    const std::int64_t group = node.kinds == kind ? 3 : (node.kinds & kind) != 0 ? 2 : node.kinds == 0 ? 1 : 0;
    return {group * kBest / 4 + kBest / 4 * (kMostGpu - node.free_milli()) / kMostGpu, tightest_device(node, pod)};
  }
};

/// Devices that are shared first, then idle devices of nodes in use, then idle nodes; within each,
/// the least capacity that suffices.
class Packing final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "packing"; }
  [[nodiscard]] Choice weigh(const NodeState& node, const NodeScores&, const PodClass& pod) const override {
    if (pod.gpus == 0) return {0, 0};
    const std::int64_t idle = node.idle();
    const auto device = tightest_device(node, pod);
    if (idle == node.gpus) return {std::max(kBest / 3 - idle, idle), device};
    if (!pod.shares() || device == kDevice) return {std::max(kBest / 2 - pod.gpus, kBest / 3), device};
    return {std::max(kBest - device * 100 / kDevice / 10, kBest / 2), device};
  }
};

/// The emptiest node first: most of its GPUs free, then most CPU.
class Spread final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "spread"; }
  [[nodiscard]] Choice weigh(const NodeState& node, const NodeScores&, const PodClass& pod) const override {
    Choice choice{node.free_milli() * (std::int64_t{1} << 32) + node.cpu_milli, 0};
    each_device(node, pod, [&](std::int32_t milli) { choice.device_milli = std::max(choice.device_milli, milli); });
    return choice;
  }
};

}  // namespace

std::int32_t tightest_device(const NodeState& node, const PodClass& pod) {
  std::int32_t tightest = 0;
  each_device(node, pod, [&](std::int32_t milli) { tightest = milli; });
  return tightest;
}

std::unique_ptr<Policy> make_bestfit() { return std::make_unique<BestFit>(); }
std::unique_ptr<Policy> make_dotprod() { return std::make_unique<DotProduct>(); }
std::unique_ptr<Policy> make_clustering() { return std::make_unique<Clustering>(); }
std::unique_ptr<Policy> make_packing() { return std::make_unique<Packing>(); }
std::unique_ptr<Policy> make_spread() { return std::make_unique<Spread>(); }

}  // namespace qm::placement::pack
