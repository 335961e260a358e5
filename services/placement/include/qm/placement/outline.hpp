#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::placement {

/// The fleet and its demand as numbers, for calculations without the engine.
///
/// Units    CPU in milli-cores, memory in bytes, GPUs in milli-GPU.
struct Outline {
  /// Capacity of a node for our pods: without the use of other pods, faulty devices, and everything on an
  /// unschedulable node. It is never less than what our pods hold there, so every current placement is
  /// possible.
  struct NodeShape {
    std::string model;
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    std::vector<std::int32_t> free_milli;  ///< by device, largest first, without zeros
    friend auto operator<=>(const NodeShape&, const NodeShape&) = default;
  };
  /// Requests of a pod, without MIG instances and other counted resources.
  struct Ask {
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    std::int32_t gpus = 0, gpu_milli = 0;  ///< `gpu_milli` of each device
    std::vector<std::string> models;       ///< empty = any; of a placed pod also its node's model
    friend auto operator<=>(const Ask&, const Ask&) = default;
  };
  struct Pods {
    std::int64_t placed = 0, waiting = 0;
    friend auto operator<=>(const Pods&, const Pods&) = default;
  };
  std::map<NodeShape, std::int64_t> machines;  ///< number of such nodes
  std::map<Ask, Pods> pods;
  friend bool operator==(const Outline&, const Outline&) = default;
};

}  // namespace qm::placement
