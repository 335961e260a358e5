#pragma once
#include "state.hpp"

namespace qm::autoscaler {

/// Whether the group must have an instance for the claim.
[[nodiscard]] inline bool counts_in_group(const Claim& c) {
  return c.state != ClaimState::kTerminating && c.state != ClaimState::kGone && c.state != ClaimState::kFailed;
}

/// Instances that an Auto Scaling group launches: the size of the group is the number of its claims.
class Groups {
 public:
  explicit Groups(State& state) : state_(state), tables_(state.tables) {}

  /// Requests the sizes of groups.
  void size_groups();

 private:
  State& state_;
  Tables& tables_;
};

}  // namespace qm::autoscaler
