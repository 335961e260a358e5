#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "state.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The reason for draining the node of an instance that its Auto Scaling group terminates on its own, and for checkpoint
/// orders and evictions of the gangs on it.
inline constexpr const char* kGroupTermination = "GroupTermination";

/// What Auto Scaling groups do with their instances on their own.
///
/// Failure  a launch that the group reports as failed is given up at once, and only then the group is made smaller.
/// Leaving  the node of an instance that the group terminates (a rebalance of zones, a health check, an operator) is
///          drained, and its gangs save. The replacement that the group launches is matched as any instance.
/// Hooks    at a launch hook the instance continues once its node is ready. At a termination hook the group waits, with
///          heartbeats, while pods are on the node, at most Options::group_drain.
class GroupMembers {
 public:
  GroupMembers(State& state, const Facts& facts, Claims& claims)
      : state_(state), options_(state.options), tables_(state.tables), facts_(facts), claims_(claims) {}

  /// Gives up the launches that the cloud reports as failed.
  void give_up_failed();
  /// Drains the nodes whose instances their group terminates.
  void drain_leaving();
  /// Continues instances at lifecycle hooks, or prolongs their wait.
  void answer_hooks();
  /// The next heartbeat, or the end of a wait; nullopt if no instance waits at a hook.
  [[nodiscard]] std::optional<Instant> next_hook() const;

 private:
  [[nodiscard]] bool may_continue(const Claim& claim, const HookWait& wait) const;
  [[nodiscard]] Duration heartbeat(const Claim& claim, bool launching) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
};

}  // namespace qm::autoscaler
