#pragma once
#include "qm/placement/preference.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace qm::placement {

/// The nodes for pods of a set that go one by one, the best first: by what the set's soft rules make of them, then those that the gang
/// already uses, then by score, those with the set's data, and name.
///
/// Sketch   Every node is looked at once and has its place in the order of what no pod elsewhere changes. Which of them are open now is a set
///          of places, kept up with what the neighbourhood says by the nodes in which its answers differ. Without soft rules the best is
///          the first of that set, or a node that the gang uses; with them a pass over the open ones.
/// Laws     It says what a look at all nodes for each pod would say; a test compares.
/// Cost     O(n log n) for n nodes at first; then O(n / 64) and what has changed, or O(n) where soft rules tell nodes apart.
class OneByOne {
 public:
  /// `used`: rooms that the gang has taken from before, as they are. All must outlive it.
  OneByOne(const Rooms& rooms, const std::map<NodeName, Room>& used, std::size_t position, const PodSet& set,
           const Preference& preference, const Neighbourhood& beside);

  /// The node for the next pod; null where none takes it.
  [[nodiscard]] const NodeName* next();
  /// The pod is there, and this is the node's room now.
  void taken(const Room& now);

 private:
  using Place = std::uint32_t;
  static constexpr Place kNone = ~Place{0};
  struct Node {
    const NodeName* name = nullptr;
    rules::NodeIndex number = 0;
    std::int64_t score = 0;
    bool has_data = false;
    Place order = 0;  // of names
    [[nodiscard]] auto rank() const { return std::tuple(-score, !has_data, order); }
  };
  [[nodiscard]] std::optional<Node> look(const NodeName& name, const Room& room);
  void follow();

  const PodSet& set_;
  const std::size_t position_;
  const Neighbourhood& beside_;
  const Shifting* const shifting_;
  Scores scores_;
  std::vector<Node> fresh_;      // that the gang has taken nothing from, best first
  std::vector<Place> place_of_;  // in `fresh_`, by number
  rules::NodeSet left_;          // places of those that are open and not taken from
  rules::NodeSet seen_;          // nodes that were open then
  std::vector<Node> used_;
  Node chosen_;
};

}  // namespace qm::placement
