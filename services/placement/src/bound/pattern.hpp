#pragma once
#include "qm/placement/bound/bound.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace qm::placement::bound {

/// The unit of prices: an integer number of parts of a milli-GPU.
inline constexpr std::int64_t kPart = 1 << 20;

/// The prices that a linear program sets on a group's nodes: parts for each milli-core and each
/// MiB.
struct NodePrices {
  std::int64_t cpu = 0, memory = 0;
};

/// Pods that fit on a node together, and what they earn above all prices.
struct Pattern {
  std::int64_t parts = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> pods;  ///< class and count
};

/// Computes the best pattern of one node, exactly, for prices that change.
///
/// Sketch   CPU and shares are counted in whole steps; a pod's requests are rounded down. First
///          comes what shares earn on one device, for each device size and each number of CPU
///          steps. Then, device after device, the device is either filled with shares or is part of
///          a pod that uses several. Last, pods without GPUs use the remaining CPU.
/// Cost     O(cpu steps * (classes * device steps + cpu steps * devices)).
class Pricer {
 public:
  Pricer(const pack::NodeState& node, std::span<const Wanted> wanted);
  /// `pods`: parts for each pod of a class; a pod with a negative price earns more than its GPUs.
  [[nodiscard]] Pattern best(std::span<const std::int64_t> pods, const NodePrices& prices) const;
  [[nodiscard]] std::int64_t cpu_milli() const { return node_.cpu_milli; }
  [[nodiscard]] std::int64_t memory_mebi() const { return memory_mebi_; }

 private:
  struct Ask {  // one for each class that fits on the node
    std::size_t number;
    std::int64_t cpu_milli, memory_mebi, milli;
    std::size_t cpu, share;  // in steps, rounded down
    std::size_t gpus;        // 0 = none; 1 and a share below a device = shares
    bool shares;
    std::int64_t most;  // pods on one node, by exact CPU
  };
  struct Offer {  // an `Ask` at the current prices
    const Ask* ask;
    std::int64_t parts;
  };
  [[nodiscard]] static std::vector<Offer> undominated(std::vector<Offer> offers);

  pack::NodeState node_;
  std::int64_t memory_mebi_ = 0;
  std::size_t cpu_steps_ = 0;
  std::size_t whole_ = 0;          // devices that are wholly free
  std::vector<std::size_t> free_;  // free part of each device, in steps; wholly free devices first
  std::vector<Ask> asks_;
};

}  // namespace qm::placement::bound
