#pragma once
#include "qm/placement/pack/node_state.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace qm::placement::pack {

/// A class of pods and how often it is asked for.
struct Demand {
  PodClass pod;
  std::int64_t weight = 0;
};

/// The most frequent classes that together make up a share of the whole, the most frequent first.
[[nodiscard]] std::vector<Demand> typical(std::vector<Demand> mix, double share = 0.95);

/// How much of a node's idle GPU the demand to come cannot use.
///
/// A class finds either no room on the node, then all that is idle is lost to it; or room, then what is lost are the devices
/// that have too little free for it. Weighted by how often each class comes this is the node's fragment.
///
/// Units    milli-GPU times weight: divide by weight() for milli-GPU. Integers, so that equal is equal.
/// Cost     some nanoseconds for each different share that the classes ask: classes that differ in CPU alone share one
///          table, and a node looks its CPU up in there.
/// Source   Weng and others, "Beware of Fragmentation", USENIX ATC 2023, section 4.
class Fragmentation {
 public:
  /// Of nodes whose models are below `models`.
  explicit Fragmentation(std::span<const Demand> mix, std::size_t models = kMaxModels);
  [[nodiscard]] std::int64_t of(const NodeState& node) const;
  [[nodiscard]] std::int64_t weight() const { return weight_; }

 private:
  struct Group {  // classes that ask the same of the devices
    std::int32_t gpus, gpu_milli;
  };
  std::size_t models_;
  std::int64_t weight_ = 0;
  std::vector<Group> groups_;             // smallest share first
  std::vector<std::int64_t> thresholds_;  // CPU that some class asks, ascending
  /// Weight of those of the group that the model and the CPU suffice for: [model][CPU band][group].
  std::vector<std::int64_t> served_;
};

}  // namespace qm::placement::pack
