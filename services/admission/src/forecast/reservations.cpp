#include "qm/admission/forecast/reservations.hpp"

#include <algorithm>

namespace qm::admission::forecast {
namespace {

/// A workload that is evicted or has exceeded its expected run time is assumed to end this long from now.
constexpr Duration kSoon = std::chrono::minutes(1);

}  // namespace

Duration Reservations::run_of(const kueue::Work& work) const {
  return work.run_us > 0 ? Duration(work.run_us) : horizon_;
}

void Reservations::begin(const kueue::QuotaState& field) {
  field_ = &field;
  const Instant now = from_micros(field.now);
  Profile::Settings settings;
  settings.horizon = horizon_;
  settings.resolution = Duration(1);  // no rounding: a decision may not depend on the instant at which it is made
  Profile profile(field.tree, now, settings);
  for (const auto& holders : field.holders) {
    for (const auto* work : holders) {
      if (work->run_us == 0 && !work->evicted) continue;
      const Instant end = work->evicted ? now : from_micros(work->reserved) + run_of(*work);
      profile.frees(work->queue, work->usage, std::max(end, now + kSoon));
    }
  }
  plan_.emplace(std::move(profile));
}

bool Reservations::reserve(const kueue::Work& work) {
  return plan_->next({work.id, work.queue, remedies_of(*field_, work), run_of(work), false}).has_value();
}

bool Reservations::passes(const kueue::Work& work, const kueue::Amounts& usage) {
  auto& profile = plan_->profile();
  return profile.earliest(work.queue, usage, run_of(work), profile.now()) == profile.now();
}

}  // namespace qm::admission::forecast
