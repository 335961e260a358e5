#pragma once
#include "qm/placement/bound/bound.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace qm::placement::bound {

/// Prices are integers: so many parts of a milli-GPU.
inline constexpr std::int64_t kPart = 1 << 20;

/// What a linear program may say of a group's nodes: parts for each milli-core and each MiB.
struct NodePrices {
  std::int64_t cpu = 0, memory = 0;
};

/// Pods that a node takes, and what they earn beyond all prices.
struct Pattern {
  std::int64_t parts = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> pods;  ///< class and count
};

/// The best pattern of one node, exactly, for prices that change.
///
/// Sketch   CPU and shares go in whole steps, what pods ask rounded down. First what shares earn on one device, for each size of it and each
///          number of CPU steps; then device after device, either filled so or part of a pod that takes several; then
///          pods without GPUs on the CPU that is left.
/// Cost     O(cpu steps * (classes * device steps + cpu steps * devices)).
class Pricer {
 public:
  Pricer(const pack::NodeState& node, std::span<const Wanted> wanted);
  /// `pods`: parts for each pod of a class; below zero it earns more than its GPUs.
  [[nodiscard]] Pattern best(std::span<const std::int64_t> pods, const NodePrices& prices) const;
  [[nodiscard]] std::int64_t cpu_milli() const { return node_.cpu_milli; }
  [[nodiscard]] std::int64_t memory_mebi() const { return memory_mebi_; }

 private:
  struct Ask {  // of a class that the node takes at all
    std::size_t number;
    std::int64_t cpu_milli, memory_mebi, milli;
    std::size_t cpu, share;  // in steps, rounded down
    std::size_t gpus;        // 0 = none; 1 and a share below a device = shares
    bool shares;
    std::int64_t most;  // on one node, by exact CPU
  };
  struct Offer {  // an ask at today's prices
    const Ask* ask;
    std::int64_t parts;
  };
  [[nodiscard]] static std::vector<Offer> undominated(std::vector<Offer> offers);

  pack::NodeState node_;
  std::int64_t memory_mebi_ = 0;
  std::size_t cpu_steps_ = 0;
  std::size_t whole_ = 0;          // devices that are free as a whole
  std::vector<std::size_t> free_;  // of each device, in steps; the whole ones first
  std::vector<Ask> asks_;
};

}  // namespace qm::placement::bound
