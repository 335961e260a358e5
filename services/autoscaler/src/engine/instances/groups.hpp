#pragma once
#include "state.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace qm::autoscaler {

/// Whether the group must have an instance for the claim.
[[nodiscard]] inline bool counts_in_group(const Claim& c) {
  return c.state != ClaimState::kTerminating && c.state != ClaimState::kGone && c.state != ClaimState::kFailed;
}
/// Whether the group terminates the claim's instance: it then replaces the instance, or has replaced it already.
[[nodiscard]] bool is_leaving(const Tables& tables, const Claim& c);

/// How many instances each known group has beyond its minimum, without those that are drained or leave.
[[nodiscard]] std::map<std::string, std::int64_t> spare_instances(const Tables& tables);

/// The parts of a group's size.
struct GroupCount {
  std::int64_t instances = 0;  ///< of claims, without those that leave
  std::int64_t requested = 0;  ///< claims without an instance
  std::int64_t owed = 0;       ///< launches that were given up, and of which the cloud has not confirmed that they fail
  std::int64_t recent = 0;     ///< of `instances`: found a moment ago without a claim; the group may be replacing one
  /// Launches that the group has still to make: a new request uses one that was given up.
  [[nodiscard]] std::int64_t open() const { return requested < owed ? owed : requested; }
};

/// Instances that an Auto Scaling group launches: the size of the group is the number of its claims.
class Groups {
 public:
  explicit Groups(State& state) : state_(state), options_(state.options), tables_(state.tables) {}

  /// Requests the sizes of groups.
  void size_groups();
  /// When instances that were found a moment ago count in the size; nullopt if there are none.
  [[nodiscard]] std::optional<Instant> next_recent() const;

 private:
  [[nodiscard]] bool is_recent(const ClaimName& name, const Claim& c) const;
  [[nodiscard]] std::map<std::string, GroupCount> counts() const;

  State& state_;
  const Options& options_;
  Tables& tables_;
};

}  // namespace qm::autoscaler
