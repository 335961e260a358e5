#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace qm::autoscaler::checkpoint {

/// Daly's higher-order interval, from the end of one save to the start of the next.
///
///   C <  2M   sqrt(2CM) (1 + 1/3 sqrt(C / 2M) + 1/9 (C / 2M)) - C
///   C >= 2M   M
///
/// Both positive. Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
/// Future Generation Computer Systems 22 (2006), equation 37.
[[nodiscard]] Duration daly_interval(Duration save, Duration mean_time);

/// Share of time that is not progress: C/t for saving, t/2M for repeated work, R/M for restarts. Above 1 there is no
/// progress. `interval` and `mean_time` are positive.
[[nodiscard]] double expected_waste(Duration save, Duration interval, Duration mean_time, Duration restart);

/// Work that an interruption loses on average, if a share `saved_in_time` (0 to 1) of the notices leads to a checkpoint
/// before the node ends: (1 - p) t / 2.
[[nodiscard]] Duration expected_loss(Duration interval, double saved_in_time);

/// Observed interruptions of one kind of capacity.
struct Hazard {
  std::int64_t interruptions = 0;
  Duration exposure{0};  ///< running time of all instances of the kind together
  friend auto operator<=>(const Hazard&, const Hazard&) = default;
};
/// What is assumed of a kind of capacity before it is observed: one interruption in a hundred hours, with the weight of
/// one observed interruption. An assumption, not a measurement; it fades with the first days of observation.
inline constexpr Hazard kPriorHazard{1, std::chrono::hours(100)};

/// Mean time between interruptions of one instance: the posterior mean of a Poisson rate under kPriorHazard.
[[nodiscard]] Duration mean_time_of(const Hazard& observed);
/// Mean time between interruptions of a gang: any of its nodes interrupts it, so rates add up. nullopt without nodes.
[[nodiscard]] std::optional<Duration> mean_time_of_gang(std::span<const Duration> nodes);

/// Whether a save now costs less than the work that it protects: C < p * (work since the last checkpoint).
/// `probability`: of an interruption before the next save, 0 to 1.
[[nodiscard]] bool save_pays(Duration save, Duration unsaved, double probability);

}  // namespace qm::autoscaler::checkpoint
