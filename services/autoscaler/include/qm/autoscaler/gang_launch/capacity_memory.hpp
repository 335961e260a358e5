#pragma once
#include "qm/base/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace qm::autoscaler {

/// What refusals taught about one offering: an instance type in a zone and a market.
struct Outage {
  std::optional<Instant> since;  ///< first refusal of the present outage; none = the last launch succeeded
  Instant last{};                ///< last refusal
  Instant until{};               ///< not requested before
  std::int64_t out_us = 0;       ///< time that it is known to have been out, decayed
  std::int64_t ends_milli = 0;   ///< outages that ended, in thousandths, decayed
  Instant decayed{};             ///< both are decayed up to here
  friend auto operator<=>(const Outage&, const Outage&) = default;
};

struct MemoryOptions {
  Duration prior = std::chrono::minutes(3);     ///< expected outage of an offering without a history, as Karpenter's
  Duration least = std::chrono::seconds(30);    ///< of a hold
  Duration most = std::chrono::minutes(30);     ///< of a hold
  Duration half_life = std::chrono::hours(6);   ///< of what was observed
  Duration forgotten = std::chrono::hours(24);  ///< after the last refusal the row is of no use
  std::int64_t prior_weight = 2;                ///< outages that the prior counts as
};

/// The expected length of an outage: outages are exponential, and their rate has a gamma prior. Each outage that ended
/// adds its length and one end, an outage that continues adds its length so far.
///
/// Units    microseconds and thousandths, integers: equal histories give equal values on every machine.
/// Source   conjugate prior of censored exponential data; the initial hold is that of Karpenter's cache, 3 minutes.
[[nodiscard]] Duration expected_outage(const Outage& outage, const MemoryOptions& options);

/// The row after a refusal: the offering is held for the expected outage, within the bounds. A second refusal at the
/// same time changes nothing.
[[nodiscard]] Outage after_refusal(const Outage& before, Instant now, const MemoryOptions& options);
/// The row after a launch: an outage ended between the last refusal and now, and the offering is not held.
[[nodiscard]] Outage after_launch(const Outage& before, Instant now, const MemoryOptions& options);
/// The row after a refusal that says nothing about capacity, such as a wrong parameter: held for `hold`, nothing is
/// learned.
[[nodiscard]] Outage after_hold(const Outage& before, Instant now, Duration hold);

/// Thousandths of the probability that the offering is still out: it halves with each median of the expected outage.
[[nodiscard]] std::int64_t still_out_milli(const Outage& outage, Instant now, const MemoryOptions& options);
[[nodiscard]] bool is_forgotten(const Outage& outage, Instant now, const MemoryOptions& options);

}  // namespace qm::autoscaler
