#pragma once
#include "qm/base/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace qm {

/// Domain time: jobs, notices, prices, budgets, sampling. UTC microseconds since 1970; may run faster than the wall.
struct DomainClockTag {
  using duration = std::chrono::microseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<DomainClockTag, duration>;
  static constexpr bool is_steady = false;
};
using Duration = std::chrono::microseconds;
using Instant = DomainClockTag::time_point;

/// Steady time: leases, timeouts, retries, certificates. Never scaled. The two clocks cannot be converted.
using SteadyInstant = std::chrono::steady_clock::time_point;
using SteadyDuration = std::chrono::steady_clock::duration;

[[nodiscard]] constexpr std::int64_t micros(Instant t) { return t.time_since_epoch().count(); }
[[nodiscard]] constexpr Instant from_micros(std::int64_t us) { return Instant{Duration{us}}; }
[[nodiscard]] constexpr double seconds(Duration d) { return static_cast<double>(d.count()) / 1e6; }

/// RFC 3339 in UTC as Kubernetes writes it ("2026-11-21T09:14:29Z"); microseconds only where they are not zero.
[[nodiscard]] std::string to_rfc3339(Instant t);
/// Parses the format of to_rfc3339, also with offsets ("+01:00"). The kInvalid error has the text.
[[nodiscard]] Result<Instant> from_rfc3339(std::string_view text);

}  // namespace qm
