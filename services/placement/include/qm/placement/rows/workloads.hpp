#pragma once
#include "qm/placement/proposals.hpp"

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::placement {

enum class WorkloadPhase { kPending, kQuotaReserved, kAdmitted, kEvicting, kFinished, kCancelled };

/// Pods of a running gang that have no node, since none of the free capacity fits them.
struct UnplacedPods {
  std::vector<std::int32_t> by_set;  ///< empty = none
  Instant since{};
  friend auto operator<=>(const UnplacedPods&, const UnplacedPods&) = default;
};

/// Latest state of a workload that admission published.
struct Workload {
  WorkloadSpec spec;
  std::int32_t attempt = 0;
  WorkloadPhase phase = WorkloadPhase::kPending;
  Instant quota_reserved{};
  std::string order_reason;  ///< of the eviction order
  Instant order_deadline{};
  Instant short_since{};                                 ///< on the demand list since; zero = not on it
  std::set<std::pair<std::int32_t, std::int32_t>> done;  ///< (pod set, rank) whose pod has succeeded in any attempt
  QuotaFacts quota_facts;
  Instant fits_since{};  ///< on the requeue list since: pending, was short, now fits; zero = not on it
  UnplacedPods unplaced;
  friend auto operator<=>(const Workload&, const Workload&) = default;
};

[[nodiscard]] std::string_view name_of(WorkloadPhase value);

}  // namespace qm::placement
