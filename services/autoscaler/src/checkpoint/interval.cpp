#include "qm/autoscaler/checkpoint/interval.hpp"

#include "qm/base/assert.hpp"

#include <cmath>

namespace qm::autoscaler::checkpoint {
namespace {

Duration rounded(double microseconds) { return Duration(static_cast<std::int64_t>(std::llround(microseconds))); }

double number(Duration d) { return static_cast<double>(d.count()); }

}  // namespace

Duration daly_interval(Duration save, Duration mean_time) {
  QM_ASSERT(save > Duration{0} && mean_time > Duration{0}, "a save takes {} us, and interruptions are {} us apart",
            save.count(), mean_time.count());
  if (save >= 2 * mean_time) return mean_time;
  const double c = number(save), m = number(mean_time), ratio = c / (2 * m);
  return rounded(std::sqrt(2 * c * m) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - c);
}

double expected_waste(Duration save, Duration interval, Duration mean_time, Duration restart) {
  const double m = number(mean_time), t = number(interval);
  return number(save) / t + t / (2 * m) + number(restart) / m;
}

Duration expected_loss(Duration interval, double saved_in_time) {
  return rounded((1 - saved_in_time) * number(interval) / 2);
}

Duration mean_time_of(const Hazard& observed) {
  const auto interruptions = observed.interruptions + kPriorHazard.interruptions;
  return Duration((observed.exposure + kPriorHazard.exposure).count() / interruptions);
}

std::optional<Duration> mean_time_of_gang(std::span<const Duration> nodes) {
  if (nodes.empty()) return std::nullopt;
  double rate = 0;
  for (const Duration node : nodes) rate += 1 / number(node);
  return rounded(1 / rate);
}

bool save_pays(Duration save, Duration unsaved, double probability) {
  return number(save) < probability * number(unsaved);
}

}  // namespace qm::autoscaler::checkpoint
