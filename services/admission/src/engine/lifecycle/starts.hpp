#pragma once
#include "lifecycle/transitions.hpp"

#include <cstdint>
#include <optional>

namespace qm::admission {

/// Starts gangs that have nodes. A gang runs when its last pod is bound, and the Job controller creates the pods of all
/// started Jobs at the same time: were all gangs started at once, the first would be complete about when the last is.
///
/// Window   a gang starts when fewer than Options::start_window pods of gangs that are not larger are unbound. So a large
///          gang does not delay small ones. Single pods start at once.
/// First    after a pause of kPause without a gang that was started and is bound, the window is kFirst pods: the first gang
///          of a burst does not share the Job controller, and is complete soonest.
/// Gather   a gang of at least Options::start_window pods waits for Options::start_gather, in case that smaller ones follow:
///          the Job controller creates up to 500 of its pods at once, and all other requests wait for these.
/// Order    that of their quota, where each pod counts as kLater. A large gang therefore yields to small ones that follow
///          closely.
/// Bounds   a gang whose pods are not bound counts for counts_for(): pods that are not created delay others for seconds.
///          A gang does not start on a reservation that has expired.
/// Cost     the gangs with nodes that are not started, times those that are starting.
class Starts {
 public:
  static constexpr Duration kLater = std::chrono::milliseconds(10);
  static constexpr Duration kLonger = std::chrono::seconds(2);
  static constexpr std::int64_t kFirst = 32;
  static constexpr Duration kPause = std::chrono::seconds(10);
  Starts(EngineState& state, WorkloadRows& rows, Transitions& transitions)
      : state_(state), rows_(rows), transitions_(transitions) {}

  /// For how long the pods of a gang count after its start: about what their creation and binds take.
  [[nodiscard]] static Duration counts_for(std::int32_t pods);
  /// The window now: Options::start_window, or kFirst after a pause.
  [[nodiscard]] static std::int64_t window(const EngineState& state);
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
  WorkloadRows& rows_;
  Transitions& transitions_;
};

}  // namespace qm::admission
