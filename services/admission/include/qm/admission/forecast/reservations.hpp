#pragma once
#include "qm/admission/forecast/profile.hpp"
#include "qm/admission/kueue/foresight.hpp"

#include <optional>

namespace qm::admission::forecast {

/// Backfill for the scheduler: conservative backfill over the declared run times of all workloads.
///
/// A workload that exceeds its declared run time is assumed to end in a minute; one without a run time, to run
/// beyond the horizon. So a wrong or missing run time allows fewer backfilled starts, never more.
///
/// Law      While no workload exceeds its declared run time, no reserved start is delayed.
/// Threads  one.
/// Cost     as Backfill: begin() O(holders), reserve() and passes() one search of the profile for each way.
class Reservations final : public kueue::BackfillPlan {
 public:
  explicit Reservations(Duration horizon = std::chrono::hours(24 * 7)) : horizon_(horizon) {}
  void begin(const kueue::QuotaState& field) override;
  bool reserve(const kueue::Work& work) override;
  bool passes(const kueue::Work& work, const kueue::Amounts& usage) override;
  /// The start of the last reservation.
  [[nodiscard]] Instant last() const { return plan_->reservations().back().start; }

 private:
  [[nodiscard]] Duration run_of(const kueue::Work& work) const;
  Duration horizon_;
  const kueue::QuotaState* field_ = nullptr;
  std::optional<Backfill> plan_;
};

}  // namespace qm::admission::forecast
