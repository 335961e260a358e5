#pragma once
#include "qm/placement/gang/request.hpp"
#include "qm/placement/topology_placement.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace qm::placement {

/// Translates pod sets to a request of the gang library. All nodes are passed to gate() first, then read() is
/// called.
class GangRequestBuilder {
 public:
  /// All must outlive it. The first `own` sets belong to one workload. Further sets belong to other workloads
  /// and are used only for gates_of(). If nodes differ in more ways than there are gates, the sets of the
  /// first workload have precedence.
  GangRequestBuilder(const std::vector<PodSet>& pod_sets, const TopologyLevels& levels, std::size_t own);
  GangRequestBuilder(const std::vector<PodSet>& pod_sets, const TopologyLevels& levels)
      : GangRequestBuilder(pod_sets, levels, pod_sets.size()) {}

  /// The domains of the node; a node without the label of a level is a domain of its own.
  [[nodiscard]] std::vector<std::string> path(const NodeName& name, const NodeCapacity& capacity) const;
  /// The number of the node's gate: which of the sets it admits.
  [[nodiscard]] std::uint8_t gate(const NodeName& name, const NodeCapacity& capacity,
                                  const InterPodConstraints* constraints);
  /// Fails if a set names an unknown level.
  [[nodiscard]] Status read(const gang::Tree& tree);
  /// The same with gates that the caller numbers, by position.
  [[nodiscard]] Status read(const gang::Tree& tree, const std::function<gang::Gates(std::size_t)>& gates);
  /// Gates that the set at that position may use.
  [[nodiscard]] gang::Gates gates_of(std::size_t position) const;

  [[nodiscard]] const gang::Request& request() const { return request_; }
  /// Position of the set with that number in the library.
  [[nodiscard]] std::size_t position(std::int32_t set) const { return order_[static_cast<std::size_t>(set)]; }
  /// The inverse of position().
  [[nodiscard]] std::int32_t number(std::size_t position) const {
    return static_cast<std::int32_t>(std::ranges::find(order_, position) - order_.begin());
  }
  /// Positions of the sets of a group, which is numbered as a child from 1 on.
  [[nodiscard]] const std::vector<std::size_t>& positions(std::int32_t group) const {
    return members_[static_cast<std::size_t>(std::max(group, 1)) - 1];
  }

 private:
  [[nodiscard]] Result<gang::Level> level(const gang::Tree& tree, const std::string& key) const;

  const std::vector<PodSet>& pod_sets_;
  const TopologyLevels& levels_;
  std::size_t own_;
  std::vector<bool> alone_;  // by position: whether it needs nodes without other GPU pods
  gang::Request request_;
  std::map<std::vector<bool>, std::uint8_t> gates_;  // by the admitted sets
  std::vector<std::vector<std::size_t>> members_;    // positions of sets, by group
  std::vector<std::size_t> order_;                   // positions in the library's order of sets
};

/// Whether some set needs nodes without other GPU pods.
[[nodiscard]] bool is_exclusive(const std::vector<PodSet>& pod_sets);
/// A pod of the shape for the numeric libraries; its allowed models are expressed by gates.
[[nodiscard]] pack::PodClass class_of(const PodShape& shape);

}  // namespace qm::placement
