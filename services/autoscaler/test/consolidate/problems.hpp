#pragma once
// Clusters of tests: a node, a pod and a launchable type in one line each.
#include "qm/autoscaler/consolidate/plan.hpp"

#include <fmt/format.h>

#include <string>

namespace qm::autoscaler::consolidate::testing {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
inline constexpr const char* kZone = "topology.kubernetes.io/zone";

inline Money usd(double value) { return Money::nano(static_cast<std::int64_t>(value * 1e9)); }

/// Builds a problem. Every node has the label of its zone, and room for 110 pods.
class ClusterOf {
 public:
  Problem problem;

  ClusterOf() { problem.rules.restart = std::chrono::minutes(1); }

  Pool& pool(const std::string& name, std::int64_t disruptions = 100) {
    Pool& out = problem.pools.emplace_back();
    out.name = name;
    out.disruptions = disruptions;
    return out;
  }
  /// A type that the last pool may launch.
  void type(const std::string& name, std::int64_t cores, double price, std::int64_t gpus = 0,
            const std::string& market = "on-demand", std::optional<double> hazard = {}, const std::string& zone = "a") {
    Pool& pool = problem.pools.back();
    pack::InstanceType out;
    out.name = name;
    out.cpu_milli = cores * 1000, out.memory_bytes = cores * 4 * kGiB, out.pods = 110;
    if (gpus > 0) out.extended["nvidia.com/gpu"] = gpus;
    out.offerings.push_back({zone, market, price, true});
    pool.types.push_back(std::move(out));
    pool.hazards.push_back({hazard});
    pool.uses.push_back({{"cpu", cores * 1000}});
  }
  std::size_t node(const std::string& name, const std::string& pool, std::int64_t cores, double price,
                   std::int64_t gpus = 0, const std::string& zone = "a") {
    Node out;
    out.view.name = NodeName(name);
    out.view.labels = {{kZone, zone}, {"kubernetes.io/hostname", name}};
    out.view.allocatable = {{"cpu", cores * 1000}, {"memory", cores * 4 * kGiB}, {"pods", 110}};
    if (gpus > 0) out.view.allocatable["nvidia.com/gpu"] = gpus;
    out.pool = pool;
    out.type = fmt::format("{}-core", cores);
    out.zone = zone;
    out.per_hour = usd(price);
    problem.nodes.push_back(std::move(out));
    return problem.nodes.size() - 1;
  }
  /// Index of the kind with these requests.
  std::size_t kind(std::int64_t milli, std::int64_t gpus = 0, const std::string& app = {}) {
    PodKind out;
    out.rules.ns = Namespace("default");
    out.rules.rules.requests = {{"cpu", milli}, {"memory", milli * kGiB / 1000}};
    if (gpus > 0) out.rules.rules.requests["nvidia.com/gpu"] = gpus;
    if (!app.empty()) out.rules.labels["app"] = app;
    pack::Pod packed;
    packed.uid = "kind", packed.name_space = "default";
    packed.cpu_milli = milli, packed.memory_bytes = milli * kGiB / 1000;
    if (gpus > 0) packed.extended["nvidia.com/gpu"] = gpus;
    packed.labels = out.rules.labels;
    out.on_new_node = std::move(packed);
    problem.kinds.push_back(std::move(out));
    return problem.kinds.size() - 1;
  }
  Pod& pod(std::size_t node, std::size_t kind) {
    Pod out;
    out.name = fmt::format("default/pod-{}", ++pods_);
    out.kind = kind;
    return problem.nodes[node].pods.emplace_back(std::move(out));
  }

 private:
  int pods_ = 0;
};

}  // namespace qm::autoscaler::consolidate::testing
