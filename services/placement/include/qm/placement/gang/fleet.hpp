#pragma once
#include "qm/placement/gang/tree.hpp"
#include "qm/placement/pack/policy.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace qm::placement::gang {

/// Every node has one of 64 gates. One bit per gate states which gates the pods of a set may use, by selectors,
/// taints and all other constraints apart from free capacity.
using Gates = std::uint64_t;
inline constexpr Gates kAllGates = std::numeric_limits<Gates>::max();
inline constexpr std::uint8_t kMostGates = 64;

/// A class of pods with its constraints on one node.
struct Kind {
  pack::PodClass pod;
  Gates gates = kAllGates;
  bool exclusive = false;                                        ///< only on nodes without other pods
  std::int32_t most = std::numeric_limits<std::int32_t>::max();  ///< on one node
  std::int32_t run = 1;                                          ///< number of pods on a node is a multiple of it
  friend auto operator<=>(const Kind&, const Kind&) = default;
  /// Counted unit: pods; or, for bounds on gangs of several kinds, idle whole devices, or free cores rounded
  /// up.
  enum class Unit : std::uint8_t { kPods, kDevices, kCores } unit = Unit::kPods;
};

/// How many pods of the class fit the node one after another. The order of devices does not matter.
[[nodiscard]] std::int32_t pods_that_fit(const pack::NodeState& node, const pack::PodClass& pod);

/// How many pods of one kind fit each domain, at every level.
class DomainCapacity {
 public:
  /// The sum over the domain's nodes; below 2^31 by the bounds of a fleet.
  [[nodiscard]] std::int32_t takes(Domain domain) const { return of(takes_, domain); }
  /// Numbers of pods above 0 that some node of the domain fits exactly: bit n for n pods, the last bit for
  /// that many or more.
  [[nodiscard]] std::uint64_t exactly(Domain domain) const { return of(exactly_, domain); }
  static constexpr std::int32_t kLastBit = 63;
  /// The most that a single node of the domain fits.
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
  Columns largest_;            // without nodes: theirs is takes_
  By<std::uint64_t> exactly_;  // without nodes
  std::uint64_t read_ = 0;
  std::uint64_t asked_ = 0;
};

/// The nodes of a fleet with their free capacity, and per kind of pods a table of how many fit each domain.
///
/// Changes of nodes are written to one journal. A table reads new entries at the next request of its kind:
/// O(depth) for each change. If the largest count of a domain, or its last node with an exact count, changed,
/// its parts are read again. The cost of a request therefore depends on the changes since the last one of its
/// kind, not on the fleet.
///
/// Threads  one.
/// Memory   64 bytes a node twice; 4 bytes a node for each table; at most kTables tables, of which the least
///          recently used is dropped.
class Fleet {
 public:
  static constexpr std::size_t kTables = 128;

  /// The policy must outlive the fleet.
  Fleet(std::vector<std::string> levels, const pack::Policy& policy) : tree_(std::move(levels)), policy_(policy) {}

  /// Adds a node. `empty` is its free capacity without workload pods, the current state.
  NodeId add(std::span<const std::string> path, std::string name, const pack::NodeState& empty);
  /// Updates the free capacity of the node.
  void set(NodeId node, const pack::NodeState& state);
  /// Nothing is placed on the node until it is set again.
  void remove(NodeId node);
  /// Reserves the node for one gang: nothing else is placed there until it is opened.
  void close(NodeId node) { flag(node, kClosed, true); }
  void open(NodeId node) { flag(node, kClosed, false); }
  /// Marks the node's pods as those of the gang that is being placed, so an exclusive gang may add to them.
  void lend(NodeId node, bool lent) { flag(node, kLent, lent); }
  /// Below kMostGates; initially 0.
  void set_gate(NodeId node, std::uint8_t gate);

  [[nodiscard]] const Tree& tree() const { return tree_; }
  [[nodiscard]] const pack::Policy& policy() const { return policy_; }
  [[nodiscard]] const pack::NodeState& state(NodeId node) const { return nodes_[node].now; }
  [[nodiscard]] std::uint8_t gate(NodeId node) const { return nodes_[node].gate; }
  /// How many pods of the kind fit the node now.
  [[nodiscard]] std::int32_t takes(NodeId node, const Kind& kind) const;
  /// The current table of a kind. The reference is valid until kTables other kinds are requested; the content
  /// until the next change.
  const DomainCapacity& capacity(const Kind& kind);

  /// Asserts that every table equals a recount.
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
  void begin(DomainCapacity& capacity) const;
  void resize(DomainCapacity& capacity) const;

  Tree tree_;
  const pack::Policy& policy_;
  std::vector<Node> nodes_;
  std::vector<NodeId> journal_;
  std::uint64_t journal_base_ = 0;
  std::map<Kind, DomainCapacity> capacities_;
  std::uint64_t asked_ = 0;
};

}  // namespace qm::placement::gang
