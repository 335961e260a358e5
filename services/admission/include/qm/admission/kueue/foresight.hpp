#pragma once
#include "qm/admission/kueue/victims.hpp"

namespace qm::admission::kueue {

/// Starts reserved for pending workloads, in order, by the declared run times of all workloads. Decides which
/// workloads may be backfilled without delaying a reserved start. A query is begin(), then reserve() for each in
/// order, with passes() in between. forecast/reservations.hpp.
class BackfillPlan {
 public:
  virtual ~BackfillPlan() = default;
  /// Starts from the state of the field at `field.now`.
  virtual void begin(const QuotaState& field) = 0;
  /// Reserves the earliest start that delays no earlier one; false if there is none within its bounds.
  virtual bool reserve(const Work& work) = 0;
  /// Whether the workload may start now with this usage and delay no reservation so far.
  virtual bool passes(const Work& work, const Amounts& usage) = 0;
};

}  // namespace qm::admission::kueue
