#pragma once
#include "qm/autoscaler/engine.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// The part of the limits that a pool's instances use.
struct Usage {
  std::int64_t gpus = 0, cpu_milli = 0, memory_bytes = 0, instances = 0;

  void add(const InstanceType& t, std::int64_t nodes) {
    instances += nodes;
    gpus += nodes * t.gpus;
    cpu_milli += nodes * t.cpu_milli;
    memory_bytes += nodes * t.memory_bytes;
  }
  /// The resource that exceeds its limit; empty = all are within.
  /// "NodePool p has the limit nvidia.com/gpu 16: 12 in use, 8 more needed", for the resource that exceeds its limit.
  [[nodiscard]] std::string limit_text(const Pool& p, const Usage& in_use) const {
    constexpr double kMilli = 1000, kGibi = 1 << 30;
    const auto text = [&](std::string_view resource, std::int64_t limit, std::int64_t used, std::int64_t with,
                          double unit, std::string_view suffix) {
      const auto shown = [&](std::int64_t amount) {
        return fmt::format("{:g}{}", static_cast<double>(amount) / unit, suffix);
      };
      return fmt::format("NodePool {} has the limit {} {}: {} in use, {} more needed", p.name, resource, shown(limit),
                         shown(used), shown(with - used));
    };
    const auto resource = beyond(p);
    if (resource == "cpu") return text(resource, p.limit_cpu_milli, in_use.cpu_milli, cpu_milli, kMilli, "");
    if (resource == "memory")
      return text(resource, p.limit_memory_bytes, in_use.memory_bytes, memory_bytes, kGibi, "Gi");
    if (resource == "nodes") return text(resource, p.limit_nodes, in_use.instances, instances, 1, "");
    return text(resource, p.limit_gpus, in_use.gpus, gpus, 1, "");
  }
  [[nodiscard]] std::string_view beyond(const Pool& p) const {
    if (p.limit_gpus >= 0 && gpus > p.limit_gpus) return words::kGpuResource;
    if (p.limit_cpu_milli >= 0 && cpu_milli > p.limit_cpu_milli) return "cpu";
    if (p.limit_memory_bytes >= 0 && memory_bytes > p.limit_memory_bytes) return "memory";
    if (p.limit_nodes >= 0 && instances > p.limit_nodes) return "nodes";
    return {};
  }
};

/// Instances of one kind that can be requested from a pool.
struct Offer {
  const Pool* pool = nullptr;
  const InstanceType* type = nullptr;
  Offering offering;
  std::int64_t nodes = 0;
  Money per_hour;
  Labels labels;
};

/// The values of labels that the pool's rules leave open, for instances with these pods: the values that the pods
/// select, else the lowest. None if pods select a forbidden value, or different values: no instance of the pool fits
/// them together.
[[nodiscard]] std::optional<Labels> chosen_labels(const Pool& pool, const std::vector<PodSet>& sets);
/// A label that the pool's rules leave open and of which the pod sets select several values, each allowed alone; empty
/// = none.
[[nodiscard]] std::string contested_label(const Pool& pool, const std::vector<PodSet>& sets);

}  // namespace qm::autoscaler
