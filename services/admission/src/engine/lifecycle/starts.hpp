#pragma once
#include "lifecycle/transitions.hpp"

namespace qm::admission {

/// Starts gangs that have nodes. A gang runs when its last pod is bound, and the Job controller creates the pods of all
/// started Jobs at the same time: were all gangs started at once, the first would be complete about when the last is.
///
/// Window   a gang starts when fewer than Options::start_window pods of gangs that are not larger are unbound. So a large
///          gang does not delay small ones. Single pods start at once.
/// Gather   a gang of at least Options::start_window pods waits for Options::start_gather, in case that smaller ones follow:
///          the Job controller creates up to 500 of its pods at once, and all other requests wait for these.
/// Order    that of their quota, where each pod counts as kLater. A large gang therefore yields to small ones that follow
///          closely, and is not starved.
/// Bounds   a gang whose pods are not bound counts for Options::start_limit: pods that cannot be created block no other.
/// Cost     the gangs that are starting, for each gang that could start.
class Starts {
 public:
  static constexpr Duration kLater = std::chrono::milliseconds(10);
  Starts(EngineState& state, Transitions& transitions) : state_(state), transitions_(transitions) {}

  /// Placement has reserved nodes for the workload: it starts now, or in its turn.
  void on_reserved(const WorkloadUid& uid);
  /// Starts gangs in their turn.
  void start_in_turn();
  /// When the next one may start, unless others become bound before.
  [[nodiscard]] std::optional<Instant> next() const;

 private:
  [[nodiscard]] bool is_large(const Workload& w) const;
  [[nodiscard]] bool may_start(const Workload& w) const;

  EngineState& state_;
  Transitions& transitions_;
};

}  // namespace qm::admission
