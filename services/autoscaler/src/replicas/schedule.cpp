#include "qm/autoscaler/replicas/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int32_t kHours = 24;
constexpr std::int64_t kLeastDays = 14, kMonthDays = 30;

std::int64_t hours_since_epoch(Instant t) {
  return std::chrono::floor<std::chrono::hours>(t).time_since_epoch().count();
}
std::int32_t hour_of_day(Instant t) { return static_cast<std::int32_t>(hours_since_epoch(t) % kHours); }

Money saving_of(std::int32_t fewer, std::int32_t hours, Money usd_hour) {
  return Money::nano(std::int64_t{fewer} * hours * kMonthDays * usd_hour.nano());
}

bool contains(const OffPeak& window, std::int32_t hour) {
  return (hour - window.from + kHours) % kHours < window.hours;
}

std::int64_t short_hours(std::span<const HourlyNeed> history, const OffPeak& window) {
  return std::ranges::count_if(history, [&](const HourlyNeed& need) {
    return need.replicas > window.replicas && contains(window, hour_of_day(need.hour));
  });
}

}  // namespace

Result<ScheduleProposal> propose_schedule(std::span<const HourlyNeed> history, const ScheduleTerms& terms) {
  ScheduleProposal out;
  std::array<std::int32_t, kHours> most{};
  most.fill(terms.least);
  std::set<std::int64_t> days;
  for (const HourlyNeed& need : history) {
    auto& at = most.at(static_cast<std::size_t>(hour_of_day(need.hour)));
    at = std::max(at, need.replicas);
    out.peak = std::max(out.peak, need.replicas);
    days.insert(hours_since_epoch(need.hour) / kHours);
  }
  out.days = static_cast<std::int64_t>(days.size());
  if (out.days < kLeastDays) {
    return fail(Error{Code::kInvalid, fmt::format("the history has {} days", out.days), "history",
                      fmt::format("give at least {} days, so that weekends are in it", kLeastDays)});
  }
  for (std::int32_t from = 0; from < kHours; ++from) {
    std::int32_t need = terms.least;
    for (std::int32_t hours = 1; hours < kHours; ++hours) {
      need = std::max(need, most.at(static_cast<std::size_t>((from + hours - 1) % kHours)));
      const OffPeak window{
          need, from, (from + hours) % kHours, hours, saving_of(out.peak - need, hours, terms.usd_hour), 0};
      // In replica-hours, so that a price of zero decides nothing.
      const auto worth = [&](const OffPeak& w) { return std::tuple((out.peak - w.replicas) * w.hours, w.hours); };
      if (out.off_peak.hours == 0 || worth(window) > worth(out.off_peak)) out.off_peak = window;
    }
  }
  if (out.peak <= out.off_peak.replicas) {
    return fail(Error{Code::kNotFound, fmt::format("every hour of the day needs up to {} replicas", out.peak),
                      "history", "keep the size, or scale by a metric"});
  }
  for (const std::int32_t size : terms.other_sizes) {
    if (size < 0 || size >= out.peak) {
      return fail(Error{Code::kInvalid, fmt::format("{} replicas are no saving: the peak is {}", size, out.peak),
                        "other_sizes", fmt::format("use sizes below {}", out.peak)});
    }
    OffPeak other = out.off_peak;
    other.replicas = size;
    other.saving = saving_of(out.peak - size, other.hours, terms.usd_hour);
    other.short_hours = short_hours(history, other);
    out.smaller.push_back(other);
  }
  return out;
}

}  // namespace qm::autoscaler::replicas
