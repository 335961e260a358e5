#pragma once
#include "qm/placement/gang/tree.hpp"
#include "qm/placement/pack/policy.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace qm::placement::gang {

/// Nodes stand behind one of 64 gates, and a bit each says through which of them pods may go: selectors, taints and whatever
/// else there is that room does not say.
using Gates = std::uint64_t;
inline constexpr Gates kAllGates = std::numeric_limits<Gates>::max();
inline constexpr std::uint8_t kMostGates = 64;

/// Pods of one class, as a node sees those that may come to it.
struct Kind {
  pack::PodClass pod;
  Gates gates = kAllGates;
  bool exclusive = false;                                        ///< only where no other pods are
  std::int32_t most = std::numeric_limits<std::int32_t>::max();  ///< on one node
  std::int32_t run = 1;                                          ///< they come to a node in runs of that many
  friend auto operator<=>(const Kind&, const Kind&) = default;
  /// What is counted: pods; or, for bounds on gangs of several kinds, whole devices that are idle, or cores that are free, begun ones too.
  enum class Unit : std::uint8_t { kPods, kDevices, kCores } unit = Unit::kPods;
};

/// How many pods of the class find their place on the node one after another. The order of devices does not matter to that.
[[nodiscard]] std::int32_t pods_that_fit(const pack::NodeState& node, const pack::PodClass& pod);

/// How many pods of one kind each domain takes, at every level.
class Room {
 public:
  /// The sum over the domain's nodes; below 2^31 by the bounds of a fleet.
  [[nodiscard]] std::int32_t takes(Domain domain) const { return of(takes_, domain); }
  /// Which numbers of pods above 0 some node of the domain takes just so: bit n for n pods, the last bit for that many and more.
  [[nodiscard]] std::uint64_t exactly(Domain domain) const { return of(exactly_, domain); }
  static constexpr std::int32_t kLastBit = 63;
  /// What the roomiest node of the domain takes.
  [[nodiscard]] std::int32_t largest(Domain domain) const { return of(largest_, domain); }

 private:
  friend class Fleet;
  template <class T>
  using By = std::vector<std::vector<T>>;  // level and number
  using Columns = By<std::int32_t>;
  template <class T>
  static T of(const By<T>& columns, Domain domain) {
    return columns[static_cast<std::size_t>(domain.level)][domain.index];
  }
  void change(const Tree& tree, NodeId node, std::int32_t takes);
  void change_exactly(const Tree& tree, NodeId node, std::int32_t before);

  Kind kind_;
  Columns takes_;
  Columns largest_;            // without nodes: there it is takes_
  By<std::uint64_t> exactly_;  // without nodes
  std::uint64_t read_ = 0;
  std::uint64_t asked_ = 0;
};

/// The nodes of a fleet, what is free on each, and per kind of pods a table of what every domain takes.
///
/// A change of a node is written into one journal. A table reads on in there when its kind is next asked for: O(depth) for each
/// change, and once more the parts of a domain whose roomiest node, or last one with so much room, has changed. So a question costs by what has changed since the
/// last one of its kind, and not by the fleet.
///
/// Threads  one.
/// Memory   64 bytes a node twice; 4 bytes a node for each table; at most kTables tables, the one that was not asked for longest goes.
class Fleet {
 public:
  static constexpr std::size_t kTables = 128;

  /// The policy must outlive the fleet.
  Fleet(std::vector<std::string> levels, const pack::Policy& policy) : tree_(std::move(levels)), policy_(policy) {}

  /// A new node. `empty` is what is free on it while no pods of workloads are there, as now.
  NodeId add(std::span<const std::string> path, std::string name, const pack::NodeState& empty);
  /// The node is as `state` says from now on.
  void set(NodeId node, const pack::NodeState& state);
  /// Nothing is placed there any more, until it is set again.
  void remove(NodeId node);
  /// Somebody has the node for himself: nothing is placed there until it is opened.
  void close(NodeId node) { flag(node, kClosed, true); }
  void open(NodeId node) { flag(node, kClosed, false); }
  /// Its pods are those of the gang that is being placed, so that an exclusive gang may add to them.
  void lend(NodeId node, bool lent) { flag(node, kLent, lent); }
  /// Below kMostGates; 0 to begin with.
  void put_behind(NodeId node, std::uint8_t gate);

  [[nodiscard]] const Tree& tree() const { return tree_; }
  [[nodiscard]] const pack::Policy& policy() const { return policy_; }
  [[nodiscard]] const pack::NodeState& state(NodeId node) const { return nodes_[node].now; }
  [[nodiscard]] std::uint8_t gate(NodeId node) const { return nodes_[node].gate; }
  /// Pods of the kind that the node takes now.
  [[nodiscard]] std::int32_t takes(NodeId node, const Kind& kind) const;
  /// The table of a kind, as of now. It stays where it is until kTables others were asked for; it is true until the next change.
  const Room& room(const Kind& kind);

  /// Asserts that every table is what counting from scratch gives.
  void audit();

 private:
  enum : std::uint8_t { kGone = 1, kClosed = 2, kLent = 4 };
  struct Node {
    pack::NodeState now, empty;
    std::uint8_t flags = 0;
    std::uint8_t gate = 0;
  };
  void flag(NodeId node, std::uint8_t bit, bool on);
  void write(NodeId node);
  void begin(Room& room) const;
  void grow(Room& room) const;

  Tree tree_;
  const pack::Policy& policy_;
  std::vector<Node> nodes_;
  std::vector<NodeId> journal_;
  std::uint64_t journal_base_ = 0;
  std::map<Kind, Room> rooms_;
  std::uint64_t asked_ = 0;
};

}  // namespace qm::placement::gang
