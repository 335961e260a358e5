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

std::size_t Correction::kind_of(const Interval& raw, std::size_t group) {
  std::size_t out = 0;
  for (auto rest = raw.middle / std::chrono::minutes(1); rest > 0 && out + 1 < kKinds; rest /= 4) ++out;
  return std::min(group, kGroups - 1) * kKinds + out;
}

double Correction::value(Factor Ends::*end, std::size_t kind) const {
  const Factor& own = factors_[kind].*end;
  return own.steps > 0 ? own.value : (all_.*end).value;
}

Interval Correction::corrected(const Interval& raw, std::size_t group) const {
  const auto kind = kind_of(raw, group);
  return {
      std::max(Duration::zero(), raw.middle - times(value(&Ends::low, kind), raw.middle - raw.low + settings_.grain)),
      raw.middle, raw.middle + times(value(&Ends::high, kind), raw.high - raw.middle + settings_.grain)};
}

void Correction::learn(Factor Ends::*end, std::size_t kind, bool missed) {
  Factor& own = factors_[kind].*end;
  own.value = value(end, kind);
  move(own, missed);
  move(all_.*end, missed);
}

/// Numbers 0 and 1 are the low and high factor of all intervals; two numbers for each kind follow.
Correction::Factor& Correction::factor(std::size_t number) {
  Ends& ends = number < 2 ? all_ : factors_[number / 2 - 1];
  return number % 2 == 0 ? ends.low : ends.high;
}

std::vector<Correction::Kept> Correction::kept() const {
  std::vector<Kept> out;
  Correction copy = *this;
  for (std::size_t i = 0; i < 2 * (factors_.size() + 1); ++i) {
    if (const Factor& one = copy.factor(i); one.steps > 0) out.push_back({i, one.value, one.steps});
  }
  return out;
}

void Correction::restore(const std::vector<Kept>& factors) {
  all_ = {};
  factors_ = {};
  for (const auto& [number, value, steps] : factors) {
    if (number < 2 * (factors_.size() + 1)) factor(number) = {value, steps};
  }
}

void Correction::move(Factor& factor, bool missed) const {
  constexpr double kMost = 8;
  const double step = std::max(settings_.last_step, settings_.first_step / (1 + factor.steps / settings_.slowing));
  factor.steps += 1;
  factor.value = std::clamp(factor.value * std::exp(step * ((missed ? 1 : 0) - settings_.target)), 1 / kMost, kMost);
}

}  // namespace qm::admission::forecast
