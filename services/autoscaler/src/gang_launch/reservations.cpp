// The calendar of reservations: which has n instances of a type for the time of a gang.
#include "qm/autoscaler/gang_launch/reservations.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace qm::autoscaler {
namespace {

constexpr Duration kLeastUse = std::chrono::minutes(1);
constexpr Instant kNever = Instant::max();

}  // namespace

std::optional<Instant> last_use(const Reservation& reservation) {
  if (!reservation.end) return std::nullopt;
  return reservation.block ? *reservation.end - kWindDown : *reservation.end;
}

std::int64_t free_in(const Reservation& reservation, std::span<const Booking> bookings, Instant from,
                     std::optional<Instant> until) {
  const Instant end = until.value_or(kNever);
  std::map<Instant, std::int64_t> changes;  // of the booked instances
  for (const Booking& booking : bookings) {
    const Instant over = booking.until.value_or(kNever);
    if (booking.reservation != reservation.id || over <= from || booking.from >= end) continue;
    changes[std::max(booking.from, from)] += booking.count;
    if (over < end) changes[over] -= booking.count;
  }
  std::int64_t booked = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, booked += change);
  return std::max<std::int64_t>(reservation.count - most, 0);
}

Result<const Reservation*> reservation_for(std::span<const Reservation> calendar, std::span<const Booking> bookings,
                                           const ReservationRequest& request) {
  const Reservation* best = nullptr;
  std::string why = "no reservation of this type and zone is active";
  const auto rank = [&](const Reservation& r, std::int64_t free) {
    return std::tuple(r.block, r.end.value_or(kNever), free, r.id);
  };
  std::tuple<bool, Instant, std::int64_t, std::string> least;
  const Instant until = request.from + request.duration.value_or(kLeastUse);
  for (const Reservation& r : calendar) {
    if (r.type != request.type || (!request.zone.empty() && r.zone != request.zone)) continue;
    if (r.start > request.from) {
      why = fmt::format("reservation {} begins at {}", r.id, to_rfc3339(r.start));
      continue;
    }
    const auto last = last_use(r);
    if (last && *last < until) {
      why = fmt::format("reservation {} may be used until {}, {} min before its end, and {} min are needed", r.id,
                        to_rfc3339(*last), r.block ? kWindDown / std::chrono::minutes(1) : 0,
                        (until - request.from) / std::chrono::minutes(1));
      continue;
    }
    const auto free = free_in(r, bookings, request.from, request.duration ? std::optional(until) : last);
    if (free < request.count) {
      why = fmt::format("reservation {} has {} free instances, and {} are needed", r.id, free, request.count);
      continue;
    }
    if (best == nullptr || rank(r, free) < least) {
      best = &r;
      least = rank(r, free);
    }
  }
  if (best == nullptr) return fail(Code::kExhausted, "{}", why);
  return best;
}

}  // namespace qm::autoscaler
