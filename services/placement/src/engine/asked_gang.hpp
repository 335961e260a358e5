#pragma once
#include "qm/placement/gang/request.hpp"
#include "qm/placement/together.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace qm::placement {

/// What pod sets ask for, in the words of the library of gangs. First all nodes are shown to it, then read() is asked.
class AskedGang {
 public:
  /// All must outlive it. The first `own` sets are one workload's. Any others are so many workloads' and only asked for gates(): there
  /// those of the first go before, where nodes differ in more ways than there are gates.
  AskedGang(const std::vector<PodSet>& pod_sets, const TopologyLevels& levels, std::size_t own);
  AskedGang(const std::vector<PodSet>& pod_sets, const TopologyLevels& levels)
      : AskedGang(pod_sets, levels, pod_sets.size()) {}

  /// The domains that the node is in; without a label of a level it stands by itself.
  [[nodiscard]] std::vector<std::string> path(const NodeName& name, const Room& room) const;
  /// The number of the gate behind which the node stands: which of the sets may go there.
  [[nodiscard]] std::uint8_t gate(const NodeName& name, const Room& room, const Neighbourhood* beside);
  /// Fails where it names a level that there is not.
  [[nodiscard]] Status read(const gang::Tree& tree);
  /// With gates that somebody else has numbered; by position.
  [[nodiscard]] Status read(const gang::Tree& tree, const std::function<gang::Gates(std::size_t)>& gates);
  /// Through which gates the set of that position may go.
  [[nodiscard]] gang::Gates gates_of(std::size_t position) const;

  [[nodiscard]] const gang::Request& request() const { return request_; }
  /// Position of the set that the library has numbered so.
  [[nodiscard]] std::size_t position(std::int32_t set) const { return order_[static_cast<std::size_t>(set)]; }
  /// The other way round.
  [[nodiscard]] std::int32_t number(std::size_t position) const {
    return static_cast<std::int32_t>(std::ranges::find(order_, position) - order_.begin());
  }
  /// Positions of the sets of a group; its number is that of a child, from 1 on.
  [[nodiscard]] const std::vector<std::size_t>& positions(std::int32_t group) const {
    return members_[static_cast<std::size_t>(std::max(group, 1)) - 1];
  }

 private:
  [[nodiscard]] Result<gang::Level> level(const gang::Tree& tree, const std::string& key) const;

  const std::vector<PodSet>& pod_sets_;
  const TopologyLevels& levels_;
  std::size_t own_;
  std::vector<bool> alone_;  // by position, whether it takes no node with GPU pods of others
  gang::Request request_;
  std::map<std::vector<bool>, std::uint8_t> gates_;  // by which sets are let in
  std::vector<std::vector<std::size_t>> members_;    // positions of sets, by group
  std::vector<std::size_t> order_;                   // positions, as the library numbers the sets
};

/// Whether some set takes no node with GPU pods of others.
[[nodiscard]] bool wants_to_be_alone(const std::vector<PodSet>& pod_sets);
/// A pod of the shape, as the libraries of numbers know it: the models that it allows are a matter of gates.
[[nodiscard]] pack::PodClass class_of(const PodShape& shape);

}  // namespace qm::placement
