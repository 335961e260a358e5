// Learned decay of refusals.
//
//   rate of ends ~ Gamma(w, w * prior)      w = prior_weight
//   after k ends and the time T spent out:  expected outage = (w * prior + T) / (w + k)
//   T and k halve with each half-life, so that old outages lose their weight
#include "qm/autoscaler/gang_launch/capacity_memory.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kMilli = 1000;
constexpr std::int64_t kMostHalvings = 62;

Outage decayed(Outage row, Instant now, const MemoryOptions& options) {
  if (row.decayed == Instant{}) row.decayed = now;
  const std::int64_t halvings = std::max<std::int64_t>((now - row.decayed) / options.half_life, 0);
  row.decayed += halvings * options.half_life;
  row.out_us >>= std::min(halvings, kMostHalvings);
  row.ends_milli >>= std::min(halvings, kMostHalvings);
  return row;
}

std::int64_t count(Duration d) { return std::chrono::duration_cast<std::chrono::microseconds>(d).count(); }

}  // namespace

Duration expected_outage(const Outage& outage, const MemoryOptions& options) {
  const std::int64_t time = options.prior_weight * count(options.prior) + outage.out_us;
  const std::int64_t ends = options.prior_weight * kMilli + outage.ends_milli;
  return std::chrono::microseconds(time / ends * kMilli + time % ends * kMilli / ends);
}

Outage after_refusal(const Outage& before, Instant now, const MemoryOptions& options) {
  Outage row = decayed(before, now, options);
  if (row.since) {
    row.out_us += std::max<std::int64_t>(count(now - row.last), 0);
  } else {
    row.since = now;
  }
  row.last = now;
  row.until = std::max(row.until, now + std::clamp(expected_outage(row, options), options.least, options.most));
  return row;
}

Outage after_launch(const Outage& before, Instant now, const MemoryOptions& options) {
  Outage row = before;
  row.until = std::min(row.until, now);
  if (!row.since) return row;
  // It ended at an unknown time since the last refusal; a long time without a request says little about the outage.
  const Duration unknown = std::min<Duration>(now - row.last, 2 * expected_outage(row, options));
  row = decayed(row, now, options);
  row.out_us += std::max<std::int64_t>(count(unknown) / 2, 0);
  row.ends_milli += kMilli;
  row.since.reset();
  return row;
}

Outage after_hold(const Outage& before, Instant now, Duration hold) {
  Outage row = before;
  row.until = std::max(row.until, now + hold);
  return row;
}

std::int64_t still_out_milli(const Outage& outage, Instant now, const MemoryOptions& options) {
  if (!outage.since || now < outage.last) return outage.since ? kMilli : 0;
  const std::int64_t median = std::max<std::int64_t>(count(expected_outage(outage, options)) * 693 / 1000, 1);
  const std::int64_t passed = count(now - outage.last);
  const std::int64_t halvings = passed / median;
  if (halvings >= 10) return 0;
  const std::int64_t from = kMilli >> halvings;
  return from - from * (passed % median) / median / 2;  // straight between the halvings
}

bool is_forgotten(const Outage& outage, Instant now, const MemoryOptions& options) {
  return outage.until <= now && outage.last + options.forgotten <= now;
}

}  // namespace qm::autoscaler
