#pragma once
#include "qm/admission/exact/victims.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace qm::admission::exact {

struct Admitted {
  int id = -1;
  Assignment assignment;
};
struct Preempted {
  int id = -1, by = -1;
  Reason reason = Reason::kInClusterQueue;
};
/// Why a workload that was looked at waits, in the words of the condition QuotaReserved.
enum class Wait : std::uint8_t {
  kWaitingForQuota,
  kExceedsMaxQuota,
  kNoMatchingFlavor,
  kWaitingForPreemptedWorkloads,
  kMisconfigured,
  kTopologyPlacementFailed,
  kPendingEvaluation,
  kAdmissionGated,
};
[[nodiscard]] std::string_view name_of(Wait wait);
/// Nodes of a workload that held quota before; where there are none, it keeps what it has.
struct PlacedAgain {
  int id = -1;
  Placing placing;
};
/// What was decided, in the order in which it was.
struct Outcome {
  std::vector<PlacedAgain> placed_again;
  std::vector<Admitted> admitted;
  std::vector<Preempted> preempted;
  std::vector<std::pair<int, int>> replaced;  ///< a slice has ended, and the one that took its place
  std::vector<std::pair<int, Wait>> waiting;
  std::vector<int> unclaimed;  ///< their victims are gone, and they wait all the same
};

/// What a workload would get, and from whom: nobody where it fits.
struct Nomination {
  Assignment assignment;
  std::vector<Target> targets;
  [[nodiscard]] bool fits() const { return assignment.mode() == Mode::kFit; }
  /// It fits, or will once its targets are gone.
  [[nodiscard]] bool good() const { return fits() || !targets.empty(); }
};
/// The best for the workload as the field stands, with fewer pods where that will do; the field is as before afterwards.
/// `same_as`: with no other flavors than those.
[[nodiscard]] Nomination nominate(Field& field, const Work& work, const Assignment* same_as = nullptr);

/// The same choice of flavors, with what was in the way of each.
[[nodiscard]] Assignment explain(Field& field, const Work& work);
/// Whether it would fit if everybody were gone who is leaving.
[[nodiscard]] bool fits_once_they_left(Field& field, const Work& work);

}  // namespace qm::admission::exact
