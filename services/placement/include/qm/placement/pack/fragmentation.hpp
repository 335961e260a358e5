#pragma once
#include "qm/placement/pack/node_state.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace qm::placement::pack {

/// A class of pods and its frequency in the demand.
struct Demand {
  PodClass pod;
  std::int64_t weight = 0;
};

/// The most frequent classes that together make up `share` of the demand, the most frequent first.
[[nodiscard]] std::vector<Demand> typical(std::vector<Demand> mix, double share = 0.95);

/// How much of a node's idle GPU the future demand cannot use.
///
/// If a class does not fit the node, all idle GPU is lost to it. If it fits, the devices with too little free
/// milli are lost. The sum, weighted by the frequency of each class, is the node's fragment.
///
/// Remainders   FGD counts none of the devices as lost to a class of several whole devices that fits: seven idle GPUs are
///              as good for pods of four as eight, and the second place of an empty node costs nothing. With kLost the
///              devices that the pods of the class would leave over are lost too: three of seven.
///
/// Units    milli-GPU times weight: divide by weight() for milli-GPU. Integers, so equality is exact.
/// Cost     some nanoseconds for each different share that the classes request: classes that differ only in
///          CPU share one table, in which a node looks up its CPU.
/// Source   Weng and others, "Beware of Fragmentation", USENIX ATC 2023, section 4.
class Fragmentation {
 public:
  enum class Remainders : std::uint8_t { kUsable, kLost };
  /// For nodes whose model numbers are below `models`.
  explicit Fragmentation(std::span<const Demand> mix, std::size_t models = kMaxModels,
                         Remainders remainders = Remainders::kUsable);
  [[nodiscard]] std::int64_t of(const NodeState& node) const;
  [[nodiscard]] std::int64_t weight() const { return weight_; }

 private:
  struct Group {  // classes with the same device request
    std::int32_t gpus, gpu_milli;
    bool leaves_rest;  // devices that its pods leave over are lost
  };
  std::size_t models_;
  std::int64_t weight_ = 0;
  std::vector<Group> groups_;             // smallest share first
  std::vector<std::int64_t> thresholds_;  // CPU requests of the classes, ascending
  /// Weight of the classes of the group that fit the model and the CPU: [model][CPU band][group].
  std::vector<std::int64_t> served_;
};

}  // namespace qm::placement::pack
