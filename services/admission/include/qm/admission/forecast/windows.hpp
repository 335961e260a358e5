#pragma once
#include "qm/admission/kueue/tree.hpp"
#include "qm/base/time.hpp"
#include "qm/calendar/cron.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace qm::admission::forecast {

using calendar::Cron;

/// Recurring times: each begins at a minute of `begins` and lasts `lasts`. Overlapping ones are merged.
///
/// Units    local time is UTC plus `offset`, all year.
/// Law      open(t) differs from open just before t only where changes_after() reports it.
/// Threads  any; a value.
/// Cost     a few searches of Cron; one for each overlap, of which 10,000 in a row count as open forever.
class Window {
 public:
  /// kInvalid: the duration is not positive.
  [[nodiscard]] static Result<Window> make(Cron begins, Duration lasts, std::chrono::minutes offset);
  /// From one minute of the day to another, on the given days (bit 0 is Sunday); past midnight if `to` is not after
  /// `from`.
  [[nodiscard]] static Result<Window> weekly(unsigned days, std::chrono::minutes from, std::chrono::minutes to,
                                             std::chrono::minutes offset);
  [[nodiscard]] bool open(Instant at) const;
  /// The first instant after this one at which it opens or closes; empty if it never does again.
  [[nodiscard]] std::optional<Instant> changes_after(Instant at) const;
  friend bool operator==(const Window&, const Window&) = default;

 private:
  Window(Cron begins, Duration lasts, std::chrono::minutes offset) : begins_(begins), lasts_(lasts), offset_(offset) {}
  [[nodiscard]] std::int64_t minute_of(Instant at) const;  ///< the one that contains it, local
  [[nodiscard]] Instant instant_of(std::int64_t minute) const;
  Cron begins_;
  Duration lasts_;
  std::chrono::minutes offset_;
};

/// Quota that follows the calendar: the first listed open window defines it; without an open window, `otherwise`.
struct CalendarQuota {
  kueue::Quota otherwise;
  std::vector<std::pair<Window, kueue::Quota>> windows;
  [[nodiscard]] const kueue::Quota& at(Instant now) const;
  /// The next change; empty if there is none, or if 1,000 openings and closings pass without a change.
  [[nodiscard]] std::optional<Instant> changes_after(Instant now) const;
};

}  // namespace qm::admission::forecast
