#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::exact {

/// How far a workload that was looked at came in its cycle.
enum class Fate : std::uint8_t {
  kNotNominated,  ///< it fits nothing, or waits for those whom it displaces
  kSkipped,       ///< another workload was in its way
  kGated,         ///< it would displace somebody, and may not
  kNominated,     ///< it fits, and was not admitted
  kAssumed,       ///< it is admitted, once that is written
  kEvicted,       ///< it held quota, and goes
};

/// Why a workload is looked at again, and so when. The words are Kueue's.
enum class Requeue : std::uint8_t {
  kGeneric,
  kFailedAfterNomination,
  kNamespaceMismatch,
  kPreemptionGated,
  kPendingPreemption,
  kPendingMigration,
  kPreemptionFailed,
  kNoFit,
  kNoCandidates,
};
[[nodiscard]] std::string_view name_of(Requeue reason);

/// Where a workload goes that was looked at and not admitted.
struct Return {
  Requeue reason = Requeue::kGeneric;
  bool at_once = false;       ///< among those that are looked at in the next cycles; else when something has changed
  bool leads = false;         ///< ahead of its queue, for those leave whom it displaced
  bool closes_shape = false;  ///< whoever is like it has nothing to hope for either
  bool told = false;          ///< its status says why
};
/// `strict`: of its queue. `flavors_left`: the search through the flavors has not come to its end.
/// Source   Kueue, pkg/scheduler/scheduler.go requeueAndUpdate; pkg/cache/queue/cluster_queue.go RequeueIfNotPresent.
[[nodiscard]] Return returned(Fate fate, Requeue reason, bool strict, bool flavors_left);

/// What came of the orders to displace others, `failed` of which could not be given. Whatever it was, the search through the
/// flavors begins anew.
struct Displacing {
  Requeue reason = Requeue::kGeneric;
  std::string told;  ///< added to what is said of the workload
};
[[nodiscard]] Displacing displacing(int issued, int failed);

/// What the status of a workload says that goes back. `wait` and `text`: the reason that QuotaReserved is false, in a word and
/// in words.
struct Condition {
  std::string type;
  bool holds = false;
  std::string reason, message;
};
[[nodiscard]] std::vector<Condition> conditions_of(Fate fate, std::string_view wait, std::string_view text);

}  // namespace qm::admission::exact
