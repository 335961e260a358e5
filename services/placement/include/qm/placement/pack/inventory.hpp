#pragma once
#include "qm/base/lookup.hpp"
#include "qm/placement/pack/policy.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace qm::placement::pack {

/// A number for each node, dense, in the order that breaks ties.
using NodeId = std::uint32_t;
/// A number for each requested class of pods.
using ClassId = std::uint32_t;

struct Found {
  NodeId node = 0;
  Choice choice;
};

/// Index of all nodes of a fleet by free capacity, with the best node for each class of pods.
///
/// Nodes with equal states share one entry. Each recently requested class has an agenda: the states that it
/// fits, best first. Changes of nodes are written to one journal, and an agenda reads new entries at the next
/// request of its class. The cost of a request therefore depends on the changes since the last one, not on
/// the size of the fleet.
///
/// Order    highest score, then the smallest node number. The same calls give the same results.
/// Threads  one.
/// Cost     best(): O(log states) for each change since the last call of the class, with one choose() for
///          each new state; O(states) for a new or long unused class. set(): O(log nodes of the state).
/// Memory   some 20 bytes a node, 100 a state; 24 for each state that a class fits; agendas of at most kAgendas classes.
class Inventory {
 public:
  static constexpr std::size_t kAgendas = 512;

  /// The policy must outlive the inventory.
  explicit Inventory(const Policy& policy) : policy_(policy) {}

  /// Adds a node with the next number.
  NodeId add(const NodeState& state);
  /// Updates the state of the node.
  void set(NodeId node, const NodeState& state);
  /// Excludes the node until it is set again.
  void remove(NodeId node);
  [[nodiscard]] const NodeState* state_of(NodeId node) const;  ///< null if removed
  [[nodiscard]] std::size_t nodes() const { return state_of_.size(); }
  [[nodiscard]] std::size_t distinct_states() const { return alive_; }

  /// The number of the class; constant while the class has an agenda.
  ClassId class_of(const PodClass& pod);
  /// The best node for a pod of the class now; none if it fits no node.
  [[nodiscard]] std::optional<Found> best(const PodClass& pod);
  /// best(), and adds the pod to the node.
  std::optional<Found> place(const PodClass& pod);

  /// Asserts that every agenda gives the result of a pass over all nodes.
  void audit();

 private:
  using StateId = std::uint32_t;
  static constexpr StateId kNone = std::numeric_limits<StateId>::max();

  struct State {
    NodeState value;
    Policy::NodeScores scores;
    std::vector<NodeId> nodes;  // a heap, smallest first, including some removed ones
    std::uint32_t count = 0;    // without the removed ones
    std::uint64_t written = 0;  // its last position in the journal, plus one
  };
  struct Entry {  // of an agenda; valid while its state has the same first node
    std::int64_t score;
    NodeId first;
    StateId state;
    std::int32_t device_milli;
    /// Heap order: the best is the largest.
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.score != b.score ? a.score < b.score : a.first > b.first;
    }
  };
  struct Agenda {
    PodClass pod;
    std::vector<Entry> heap;
    std::uint64_t read = 0;  // end of the read part of the journal
    std::uint64_t asked = 0;
  };

  StateId intern(const NodeState& value);
  void leave(NodeId node);
  void compact(State& state, StateId id);
  NodeId first_of(State& state);
  void write(StateId state);
  void offer(Agenda& agenda, StateId id);
  void catch_up(Agenda& agenda);
  void begin(Agenda& agenda);
  void sweep();

  const Policy& policy_;
  std::vector<StateId> state_of_;  // by node
  std::vector<State> states_;
  std::vector<StateId> spare_;  // unused state numbers
  Lookup<NodeState, StateId, StateHash> id_of_;
  std::size_t alive_ = 0;
  std::vector<StateId> journal_;  // new states, and states with a smaller first node
  std::uint64_t journal_base_ = 0;
  std::vector<Agenda> agendas_;
  std::map<PodClass, ClassId> class_of_;
  std::uint64_t asked_ = 0;
};

}  // namespace qm::placement::pack
