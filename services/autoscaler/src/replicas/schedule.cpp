#include "qm/autoscaler/replicas/schedule.hpp"

#include "qm/calendar/zone.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int32_t kHours = 24;
constexpr std::int64_t kLeastDays = 14, kMonthDays = 30;

/// The needs of a history by hour of the day.
class DailyNeeds {
 public:
  DailyNeeds(std::span<const HourlyNeed> history, const calendar::Zone& zone) {
    constexpr std::chrono::seconds kOne{1};
    for (const HourlyNeed& need : history) {
      const auto begin = std::chrono::floor<std::chrono::seconds>(need.hour);
      const auto local = begin + std::chrono::seconds(zone.offset_at(begin.time_since_epoch().count()));
      const auto first = std::chrono::floor<std::chrono::hours>(local);
      const auto last = std::chrono::floor<std::chrono::hours>(local + std::chrono::hours(1) - kOne);
      add(first, need.replicas);
      if (last != first) add(last, need.replicas);
    }
  }
  /// The largest need in the hour of the day.
  [[nodiscard]] std::int32_t most(std::int32_t hour) const {
    const auto& all = needs_.at(static_cast<std::size_t>(hour));
    return all.empty() ? 0 : *all.rbegin();
  }
  /// Days that have the hour of the day.
  [[nodiscard]] std::int64_t days(std::int32_t hour) const {
    return static_cast<std::int64_t>(days_.at(static_cast<std::size_t>(hour)).size());
  }
  /// Needs of the hour of the day that are above the size.
  [[nodiscard]] std::int64_t above(std::int32_t hour, std::int32_t size) const {
    const auto& all = needs_.at(static_cast<std::size_t>(hour));
    return std::distance(all.upper_bound(size), all.end());
  }

 private:
  using LocalHour = std::chrono::time_point<Instant::clock, std::chrono::hours>;
  void add(LocalHour hour, std::int32_t replicas) {
    const auto day = std::chrono::floor<std::chrono::days>(hour);
    const auto at = static_cast<std::size_t>((hour - day).count());
    days_.at(at).insert(day.time_since_epoch().count());
    needs_.at(at).insert(replicas);
  }
  std::array<std::set<std::int64_t>, kHours> days_;
  std::array<std::multiset<std::int32_t>, kHours> needs_;
};

Money saving_of(std::int32_t fewer, std::int32_t hours, Money usd_hour) {
  return Money::nano(std::int64_t{fewer} * hours * kMonthDays * usd_hour.nano());
}

/// The window with the largest saving.
OffPeak best_window(const DailyNeeds& needs, std::int32_t peak, const ScheduleTerms& terms) {
  OffPeak best;
  for (std::int32_t from = 0; from < kHours; ++from) {
    std::int32_t need = terms.least;
    for (std::int32_t hours = 1; hours < kHours; ++hours) {
      need = std::max(need, needs.most((from + hours - 1) % kHours));
      const OffPeak window{need, from, (from + hours) % kHours, hours, saving_of(peak - need, hours, terms.usd_hour),
                           0};
      // In replica-hours, so that a price of zero decides nothing.
      const auto worth = [&](const OffPeak& w) {
        return std::tuple(std::int64_t{peak - w.replicas} * w.hours, w.hours);
      };
      if (best.hours == 0 || worth(window) > worth(best)) best = window;
    }
  }
  return best;
}

std::int64_t short_hours(const DailyNeeds& needs, const OffPeak& window) {
  std::int64_t out = 0;
  for (std::int32_t i = 0; i < window.hours; ++i) out += needs.above((window.from + i) % kHours, window.replicas);
  return out;
}

Status check(const ScheduleTerms& terms, std::int32_t peak) {
  const std::int64_t most = std::int64_t{peak} * kHours * kMonthDays;
  if (terms.usd_hour.nano() > std::numeric_limits<std::int64_t>::max() / std::max<std::int64_t>(most, 1)) {
    return fail(Error{Code::kInvalid,
                      fmt::format("{} replicas at {} USD an hour exceed the range of amounts in {} days", peak,
                                  terms.usd_hour.to_usd(2), kMonthDays),
                      "usd_hour", "give the price of one replica in one hour"});
  }
  for (const std::int32_t size : terms.other_sizes) {
    if (size >= 0 && size < peak) continue;
    return fail(Error{Code::kInvalid, fmt::format("{} replicas are no saving: the peak is {}", size, peak),
                      "other_sizes", fmt::format("use sizes from 0 to {}", peak - 1)});
  }
  return {};
}

}  // namespace

Result<ScheduleProposal> propose_schedule(std::span<const HourlyNeed> history, const ScheduleTerms& terms) {
  QM_ASSIGN(const auto zone, calendar::Zone::load(terms.timezone));
  const DailyNeeds needs(history, zone);
  ScheduleProposal out;
  out.peak = terms.least;
  out.days = std::numeric_limits<std::int64_t>::max();
  std::int32_t quietest = std::numeric_limits<std::int32_t>::max();
  for (std::int32_t hour = 0; hour < kHours; ++hour) {
    if (needs.days(hour) < kLeastDays) {
      return fail(Error{
          Code::kInvalid,
          fmt::format("the history has the hour {:02}:00 on {} of {} needed days", hour, needs.days(hour), kLeastDays),
          "history",
          fmt::format("give each hour of at least {} days, so that weekends are in it; "
                      "an hour without load needs 0 replicas",
                      kLeastDays)});
    }
    out.days = std::min(out.days, needs.days(hour));
    out.peak = std::max(out.peak, needs.most(hour));
    quietest = std::min(quietest, needs.most(hour));
  }
  if (std::max(quietest, terms.least) == out.peak) {
    return fail(
        Error{Code::kNotFound,
              fmt::format("every hour of the day needs up to {} replicas, with a minimum of {}", out.peak, terms.least),
              "history", "keep the size, or scale by a metric"});
  }
  QM_TRY(check(terms, out.peak));
  out.off_peak = best_window(needs, out.peak, terms);
  for (const std::int32_t size : terms.other_sizes) {
    OffPeak other = out.off_peak;
    other.replicas = size;
    other.saving = saving_of(out.peak - size, other.hours, terms.usd_hour);
    other.short_hours = short_hours(needs, other);
    out.smaller.push_back(other);
  }
  return out;
}

}  // namespace qm::autoscaler::replicas
