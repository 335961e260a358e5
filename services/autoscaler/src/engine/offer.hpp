#pragma once
#include "qm/autoscaler/engine.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// What a pool's machines take of its limits.
struct Engine::Usage {
  std::int64_t gpus = 0, cpu_milli = 0, memory_bytes = 0, machines = 0;

  void add(const InstanceType& t, std::int64_t nodes) {
    machines += nodes;
    gpus += nodes * t.gpus;
    cpu_milli += nodes * t.cpu_milli;
    memory_bytes += nodes * t.memory_bytes;
  }
  /// The resource that passes its limit; empty = all are within.
  [[nodiscard]] std::string_view beyond(const Pool& p) const {
    if (p.limit_gpus >= 0 && gpus > p.limit_gpus) return words::kGpuResource;
    if (p.limit_cpu_milli >= 0 && cpu_milli > p.limit_cpu_milli) return "cpu";
    if (p.limit_memory_bytes >= 0 && memory_bytes > p.limit_memory_bytes) return "memory";
    if (p.limit_nodes >= 0 && machines > p.limit_nodes) return "nodes";
    return {};
  }
};

/// Machines of one kind that a pool may be asked for.
struct Engine::Offer {
  const Pool* pool = nullptr;
  const InstanceType* type = nullptr;
  Offering offering;
  std::int64_t nodes = 0;
  Money per_hour;
  Labels labels;
};

/// The labels that the pool's rules leave open, as machines for these pods get them: what the pods ask for, else the lowest value.
/// None where pods ask for what is not allowed, or for different values: no machine of the pool holds them together.
[[nodiscard]] std::optional<Labels> chosen_labels(const Pool& pool, const std::vector<PodSet>& sets);
/// A label that the pool's rules leave open and of which the pod sets select several values, each allowed alone; empty = none.
[[nodiscard]] std::string contested_label(const Pool& pool, const std::vector<PodSet>& sets);

}  // namespace qm::autoscaler
