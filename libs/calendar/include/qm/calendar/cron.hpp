#pragma once
#include "qm/base/result.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace qm::calendar {

/// The rules that differ between readers of crontab lines.
enum class CronDialect {
  kCrontab,  ///< crontab(5): Sunday is 0 or 7, and a field that begins with `*` is unrestricted
  kRobfig,   ///< robfig/cron v3, as in Kubernetes, KEDA and Karpenter: Sunday is 0, and a step ends a `*`
};

/// The minutes of a crontab line such as "30 22 * * MON-FRI". The line has five fields:
///
///   1  minute
///   2  hour
///   3  day of the month
///   4  month            number or name, JAN to DEC
///   5  day of the week  number or name, SUN to SAT
///
/// Each is `*`, a number, a range, or a list of them, with a step ("*/15"). If both kinds of days are restricted, a
/// match of either suffices. Instead of the fields, @yearly, @monthly, @weekly, @daily or @hourly is allowed.
///
/// Units    minutes since 1970 in the local time of the caller; next() in zone.hpp knows time zones.
/// Threads  any; a value.
/// Cost     O(days searched), at most eight years (29 February).
/// Source   crontab(5); POSIX; robfig/cron v3, spec.go and parser.go.
class Cron {
 public:
  /// kInvalid names the part.
  [[nodiscard]] static Result<Cron> parse(std::string_view line, CronDialect dialect = CronDialect::kCrontab);
  [[nodiscard]] bool matches(std::int64_t minute) const;
  /// The last matching minute at or before this one; empty if there is none in eight years.
  [[nodiscard]] std::optional<std::int64_t> at_or_before(std::int64_t minute) const;
  /// The first matching minute after this one.
  [[nodiscard]] std::optional<std::int64_t> after(std::int64_t minute) const;
  friend bool operator==(const Cron&, const Cron&) = default;

 private:
  friend class NextSearch;
  [[nodiscard]] bool month_matches(std::int64_t day) const;
  [[nodiscard]] bool day_matches(std::int64_t day) const;  ///< by its number or its day of the week
  std::uint64_t minutes_ = 0, hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;
  bool any_day_ = true, any_weekday_ = true;
};

}  // namespace qm::calendar
