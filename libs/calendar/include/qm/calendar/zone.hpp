#pragma once
#include "qm/base/time.hpp"
#include "qm/calendar/cron.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace qm::calendar {

/// A time zone of the IANA database, such as "Europe/Berlin".
///
/// Units    seconds since 1970 in UTC; an offset is local time minus UTC.
/// Threads  any; a value. Copies share the loaded data.
/// Source   the package tzdata in /usr/share/zoneinfo, or in the folder of the environment variable TZDIR.
class Zone {
 public:
  /// kInvalid: the database has no zone of this name. "" and "UTC" are UTC.
  [[nodiscard]] static Result<Zone> load(std::string_view name);
  [[nodiscard]] std::int64_t offset_at(std::int64_t unix_seconds) const;

 private:
  struct Impl;
  explicit Zone(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// The next instant of the line after this one in a time zone, as robfig/cron v3 finds it; empty if there is none in
/// five years.
///
/// An hour that the zone skips does not occur, and an hour that it repeats occurs twice. The search advances by whole
/// hours: where a zone shifts by half an hour or at midnight, it skips minutes, as the original does.
[[nodiscard]] std::optional<Instant> next(const Cron& cron, Instant after, const Zone& zone);

}  // namespace qm::calendar
