#pragma once
#include "state.hpp"

namespace qm::autoscaler {

/// Plans of gangs and the promises to admission that follow from them.
class Plans {
 public:
  explicit Plans(State& state) : state_(state), options_(state.options), tables_(state.tables) {}

  /// Stores the plan and publishes its date.
  void promise(const AttemptId& id, Plan plan);
  /// The plan failed. Its experience with the gang remains while the gang is pending.
  void withdraw(const WorkloadUid& uid);
  /// The gang's instances are idle and it is still pending: more of the same would not help. Placement knows more
  /// constraints.
  void pause(const WorkloadUid& uid);
  /// A launch for the gang failed for a reason that says nothing about other offerings: it is repeated after a while.
  void delay(const WorkloadUid& uid, const std::string& reason);
  /// Ends plans whose demand has disappeared.
  void end_lapsed_plans();

 private:
  State& state_;
  const Options& options_;
  Tables& tables_;
};

}  // namespace qm::autoscaler
