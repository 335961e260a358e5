#include "qm/admission/forecast/correction.hpp"

#include <algorithm>
#include <cmath>

namespace qm::admission::forecast {
namespace {

Duration times(double factor, Duration d) {
  return Duration(static_cast<std::int64_t>(factor * static_cast<double>(d.count())));
}

}  // namespace

Correction::Correction(Settings settings)
    : settings_(settings),
      up_(std::exp(settings.step * (1 - settings.target))),
      down_(std::exp(-settings.step * settings.target)),
      factors_{} {}

std::size_t Correction::kind_of(const Interval& raw) {
  std::size_t out = 0;
  for (auto rest = raw.middle / std::chrono::minutes(1); rest > 0 && out + 1 < kKinds; rest /= 4) ++out;
  return out;
}

Interval Correction::corrected(const Interval& raw) const {
  const auto [low, high] = factors_[kind_of(raw)];
  return {std::max(Duration::zero(), raw.middle - times(low, raw.middle - raw.low + settings_.grain)), raw.middle,
          raw.middle + times(high, raw.high - raw.middle + settings_.grain)};
}

void Correction::move(double& factor, bool missed) const {
  constexpr double kMost = 64;
  factor = std::clamp(factor * (missed ? up_ : down_), 1 / kMost, kMost);
}

}  // namespace qm::admission::forecast
