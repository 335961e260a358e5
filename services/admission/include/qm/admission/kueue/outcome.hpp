#pragma once
#include "qm/admission/kueue/victims.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace qm::admission::kueue {

struct Admitted {
  int id = -1;
  Assignment assignment;
};
struct Preempted {
  int id = -1, by = -1;
  Reason reason = Reason::kInClusterQueue;
};
/// Why a nominated workload stays pending, as reasons of the condition QuotaReserved.
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
/// New nodes of a workload that held quota before; if empty, it keeps its nodes.
struct PlacedAgain {
  int id = -1;
  Placing placing;
};
/// The decisions, in order.
struct Outcome {
  std::vector<PlacedAgain> placed_again;
  std::vector<Admitted> admitted;
  std::vector<Preempted> preempted;
  std::vector<std::pair<int, int>> replaced;  ///< an ended slice, and the one that replaced it
  std::vector<std::pair<int, Wait>> waiting;
  std::vector<int> unclaimed;  ///< their victims are gone, and they still do not fit
};

/// The assignment of a workload, and its victims; without victims if it fits.
struct Nomination {
  Assignment assignment;
  std::vector<Target> targets;
  [[nodiscard]] bool fits() const { return assignment.mode() == Mode::kFit; }
  /// It fits, or will fit once its victims are gone.
  [[nodiscard]] bool good() const { return fits() || !targets.empty(); }
};
/// The best nomination for the workload in the current field, with fewer pods where allowed. The field is unchanged
/// afterwards. `same_as`: only those flavors.
[[nodiscard]] Nomination nominate(QuotaState& field, const Work& work, const Assignment* same_as = nullptr);

/// The same flavor assignment, with the obstacles of each flavor.
[[nodiscard]] Assignment explain(QuotaState& field, const Work& work);
/// Whether the workload would fit if all leaving workloads were gone.
[[nodiscard]] bool fits_once_they_left(QuotaState& field, const Work& work);

}  // namespace qm::admission::kueue
