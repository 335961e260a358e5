#include "qm/admission/forecast/correction.hpp"

#include <algorithm>
#include <cmath>

namespace qm::admission::forecast {
namespace {

Duration times(double factor, Duration d) {
  return Duration(static_cast<std::int64_t>(factor * static_cast<double>(d.count())));
}

}  // namespace

Correction::Correction(Settings settings) : settings_(settings), factors_{} {}

std::size_t Correction::kind_of(const Interval& raw) {
  std::size_t out = 0;
  for (auto rest = raw.middle / std::chrono::minutes(1); rest > 0 && out + 1 < kKinds; rest /= 4) ++out;
  return out;
}

Interval Correction::corrected(const Interval& raw) const {
  const auto [low, high] = factors_[kind_of(raw)];
  return {std::max(Duration::zero(), raw.middle - times(low.value, raw.middle - raw.low + settings_.grain)), raw.middle,
          raw.middle + times(high.value, raw.high - raw.middle + settings_.grain)};
}

void Correction::move(Factor& factor, bool missed) const {
  constexpr double kMost = 8;
  const double step = std::max(settings_.last_step, settings_.first_step / (1 + factor.steps / settings_.slowing));
  factor.steps += 1;
  factor.value = std::clamp(factor.value * std::exp(step * ((missed ? 1 : 0) - settings_.target)), 1 / kMost, kMost);
}

}  // namespace qm::admission::forecast
