#pragma once
#include "qm/admission/exact/foresight.hpp"
#include "qm/admission/forecast/profile.hpp"

#include <optional>

namespace qm::admission::forecast {

/// What the decider's backfill goes by: conservative backfill over how long everybody is said to run.
///
/// Who has run longer than was said is taken to end in a minute; who says nothing, to run beyond the horizon. So a wrong or missing
/// run time lets fewer pass, and never more.
///
/// Law      While nobody runs longer than was said, no reserved start moves to a later time.
/// Threads  one.
/// Cost     as Backfill: begin() O(holders), reserve() and passes() one search of the profile for each way.
class Reservations final : public exact::Foresight {
 public:
  explicit Reservations(Duration horizon = std::chrono::hours(24 * 7)) : horizon_(horizon) {}
  void begin(const exact::Field& field) override;
  bool reserve(const exact::Work& work) override;
  bool passes(const exact::Work& work, const exact::Amounts& usage) override;
  /// Of who was reserved for last.
  [[nodiscard]] Instant last() const { return plan_->reservations().back().start; }

 private:
  [[nodiscard]] Duration run_of(const exact::Work& work) const;
  Duration horizon_;
  const exact::Field* field_ = nullptr;
  std::optional<Backfill> plan_;
};

}  // namespace qm::admission::forecast
