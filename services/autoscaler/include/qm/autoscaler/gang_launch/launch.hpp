#pragma once
#include "qm/base/time.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A member of a gang launch: the instance of one claim.
enum class LaunchMember {
  kRequested,  ///< without an instance so far
  kLaunched,   ///< has an instance, without pods
  kInUse,      ///< pods are bound to its node: it is not terminated any more
  kRefused,    ///< the launch was refused, and it has no instance
  kLate,       ///< it got an instance after it was refused
  kEnded,      ///< its instance is being terminated or is gone
};

enum class LaunchPhase {
  kPending,   ///< no member was refused, not all have an instance
  kWhole,     ///< every member has an instance, or had one
  kRollBack,  ///< a member was refused: what came is terminated
  kClosed,    ///< rolled back: no member has an instance, and none is awaited
};

/// A decision about a launch: its phase, and the members for which something is left to do.
struct LaunchStep {
  LaunchPhase phase = LaunchPhase::kPending;
  std::vector<std::size_t> terminate;  ///< indexes of members whose instances are terminated
  std::vector<std::size_t> cancel;     ///< indexes of members that are not awaited any more
};

/// All or none: the next step of a launch of n members. A pure function of their states, so that a restart continues
/// with the step that the crash prevented; it is repeated until the phase is kWhole or kClosed.
///
///   kPending -- all have instances --> kWhole
///   kPending -- one was refused -----> kRollBack -- terminated, canceled --> kClosed, then the next alternative
///
/// A member whose node has pods stays in any case.
[[nodiscard]] LaunchStep next_step(std::span<const LaunchMember> members);

/// Time within which what a failed launch left is terminated, from the first instance: a cloud bills each of them for a
/// minute at least.
inline constexpr Duration kRollBackWithin = std::chrono::seconds(60);
/// A launch whose members get instances one by one (NodeClaims) is refused if the last is later than this after the
/// first. The rest of kRollBackWithin is for the termination.
inline constexpr Duration kPartialFor = std::chrono::seconds(40);

/// The id of a launch by its first claim and its size: "gpu-00007x4". Claim names are never reused, so a further attempt
/// for the same gang has another id, and a repetition after a crash the same.
[[nodiscard]] std::string launch_id(const std::string& first_claim, std::size_t members);
/// The client token of a launch or of a single claim in a shard. EC2 accepts 64 characters; a longer one is digested.
[[nodiscard]] std::string client_token(const std::string& shard, const std::string& id);

/// An instance of the answer to a launch request.
struct LaunchedInstance {
  std::string id;
  bool alive = true;  ///< neither terminated nor being terminated
};
/// Matches the instances of an answer to the claims of the launch, both in order of their names; so a repetition of the
/// request gives the same pairs. `partial` if fewer instances than claims are alive: then `alive` is terminated.
struct LaunchAnswer {
  bool partial = false;
  std::vector<std::string> alive;      ///< instance ids, sorted
  std::vector<std::string> instances;  ///< by claim; empty if partial
};
[[nodiscard]] LaunchAnswer match(std::span<const LaunchedInstance> instances, std::size_t claims);

}  // namespace qm::autoscaler
