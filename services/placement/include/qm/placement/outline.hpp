#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::placement {

/// The fleet and what is asked of it, in numbers alone: who reckons with it elsewhere needs nothing of the engine.
///
/// Units    CPU in milli-cores, memory in bytes, GPUs in milli-GPU.
struct Outline {
  /// What a node has for pods of ours: without what strangers use, faulty devices, and all of a node that takes nothing new; but
  /// never less than what pods of ours hold there. So what is placed now is possible here.
  struct Machine {
    std::string model;
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    std::vector<std::int32_t> free_milli;  ///< by device, most first; none that has nothing
    friend auto operator<=>(const Machine&, const Machine&) = default;
  };
  /// What a pod asks for; MIG instances and other counted resources are not told.
  struct Ask {
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    std::int32_t gpus = 0, gpu_milli = 0;  ///< `gpu_milli` of each device
    std::vector<std::string> models;  ///< empty = any; that of the node where it is does for a pod that has a place
    friend auto operator<=>(const Ask&, const Ask&) = default;
  };
  struct Pods {
    std::int64_t placed = 0, waiting = 0;
    friend auto operator<=>(const Pods&, const Pods&) = default;
  };
  std::map<Machine, std::int64_t> machines;  ///< how many there are
  std::map<Ask, Pods> pods;
  friend bool operator==(const Outline&, const Outline&) = default;
};

}  // namespace qm::placement
