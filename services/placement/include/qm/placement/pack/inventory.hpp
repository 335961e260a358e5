#pragma once
#include "qm/base/lookup.hpp"
#include "qm/placement/pack/policy.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace qm::placement::pack {

/// A number for each node, dense, in the order in which ties are decided.
using NodeId = std::uint32_t;
/// A number for each class of pods that was asked for.
using ClassId = std::uint32_t;

struct Found {
  NodeId node = 0;
  Choice choice;
};

/// All nodes of a fleet by what is free on them, and the best place for each class of pods.
///
/// Nodes of equal state share one entry. A class that is asked for again and again keeps an agenda: the states that it fits,
/// best first. A change of a node is written into one journal; an agenda reads on in there when its class is asked for next,
/// so a decision costs by what has changed since the last one for that class, not by the size of the fleet.
///
/// Order    highest score, then the smallest node number. The same calls give the same answers.
/// Threads  one.
/// Cost     best(): O(log states) for each change since the last call of the class, with one choose() for each new state;
///          O(states) for a class that is new or was not asked for long. set(): O(log nodes of the state).
/// Memory   some 20 bytes a node, 100 a state; 24 for each state that a class fits; agendas of at most kAgendas classes.
class Inventory {
 public:
  static constexpr std::size_t kAgendas = 512;

  /// The policy must outlive the inventory.
  explicit Inventory(const Policy& policy) : policy_(policy) {}

  /// A new node, behind all that are there.
  NodeId add(const NodeState& state);
  /// The node is as `state` says from now on.
  void set(NodeId node, const NodeState& state);
  /// Nothing is placed there any more, until it is set again.
  void remove(NodeId node);
  [[nodiscard]] const NodeState* state_of(NodeId node) const;  ///< null where removed
  [[nodiscard]] std::size_t nodes() const { return state_of_.size(); }
  [[nodiscard]] std::size_t distinct_states() const { return alive_; }

  /// The number of the class; the same for the same class as long as it is among those that have an agenda.
  ClassId class_of(const PodClass& pod);
  /// The best node for a pod of the class now; none where it fits nowhere.
  [[nodiscard]] std::optional<Found> best(const PodClass& pod);
  /// best(), and the pod is there.
  std::optional<Found> place(const PodClass& pod);

  /// Asserts that every agenda would answer what a look at all nodes answers.
  void audit();

 private:
  using StateId = std::uint32_t;
  static constexpr StateId kNone = std::numeric_limits<StateId>::max();

  struct State {
    NodeState value;
    Policy::Standing standing;
    std::vector<NodeId> nodes;  // a heap, smallest first, with some that have left
    std::uint32_t count = 0;    // that are there
    std::uint64_t written = 0;  // its last place in the journal, plus one
  };
  struct Entry {  // of an agenda; valid while its state's first node is that one
    std::int64_t score;
    NodeId first;
    StateId state;
    std::int32_t device_milli;
    /// As heaps have it: the best is the largest.
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.score != b.score ? a.score < b.score : a.first > b.first;
    }
  };
  struct Agenda {
    PodClass pod;
    std::vector<Entry> heap;
    std::uint64_t read = 0;  // the journal up to there
    std::uint64_t asked = 0;
  };

  StateId intern(const NodeState& value);
  void leave(NodeId node);
  void tidy(State& state, StateId id);
  NodeId first_of(State& state);
  void write(StateId state);
  void offer(Agenda& agenda, StateId id);
  void catch_up(Agenda& agenda);
  void begin(Agenda& agenda);
  void sweep();

  const Policy& policy_;
  std::vector<StateId> state_of_;  // by node
  std::vector<State> states_;
  std::vector<StateId> spare_;  // numbers of states that are no more
  Lookup<NodeState, StateId, StateHash> id_of_;
  std::size_t alive_ = 0;
  std::vector<StateId> journal_;  // states that came to be, or got a node before their first
  std::uint64_t journal_base_ = 0;
  std::vector<Agenda> agendas_;
  std::map<PodClass, ClassId> class_of_;
  std::uint64_t asked_ = 0;
};

}  // namespace qm::placement::pack
