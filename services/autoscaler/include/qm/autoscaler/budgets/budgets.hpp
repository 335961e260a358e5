#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// Why a node is disrupted voluntarily. Expiry, interruption, repair and deletion by a user ignore budgets.
enum class DisruptionReason { kUnderutilized, kEmpty, kDrifted };
[[nodiscard]] std::string_view name_of(DisruptionReason reason);

/// One entry of `spec.disruption.budgets` of a NodePool.
struct Budget {
  std::string nodes;                 ///< "2", or a share such as "10%", rounded up
  std::string schedule;              ///< cron of five fields or a macro, UTC; empty = always active
  Duration duration{0};              ///< of each window that the schedule opens; with a schedule only
  std::vector<std::string> reasons;  ///< names of DisruptionReason; empty = all
  friend auto operator<=>(const Budget&, const Budget&) = default;
};

/// The first time after `after` that a schedule names, in UTC; an error if it is not a schedule.
using NextHit = std::function<Result<Instant>(const std::string& schedule, Instant after)>;
/// The NextHit of Karpenter, which reads schedules as robfig/cron does.
[[nodiscard]] Result<Instant> next_in_utc(const std::string& schedule, Instant after);

inline constexpr std::int64_t kUnlimitedDisruptions = INT32_MAX;

struct Allowance {
  std::int64_t nodes = kUnlimitedDisruptions;  ///< that may be disrupted at once
  std::string malformed;                       ///< the field and why; then `nodes` is 0. Empty = every budget is valid
};

/// How many of a pool's nodes may be disrupted at once for a reason: the least of the active budgets that have it.
///
/// Active   without a schedule always, else if next(now - duration) <= now.
/// Malformed  any malformed budget allows no disruption for any reason: the pool fails closed.
/// Units    `nodes`: initialized nodes of the pool whose instances are not terminating.
/// Source   pkg/apis/v1/nodepool.go of Karpenter 1.14, GetAllowedDisruptionsByReason.
[[nodiscard]] Allowance allowed_disruptions(std::span<const Budget> budgets, DisruptionReason reason,
                                            std::int64_t nodes, Instant now, const NextHit& next);

}  // namespace qm::autoscaler
