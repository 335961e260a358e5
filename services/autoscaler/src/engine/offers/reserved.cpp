// Reservations and claims to the calendar of the gang launch library.
#include "offers/reserved.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

bool allows(const Pool& pool, const std::string& zone) {
  const auto lists = [&](const std::vector<std::string>& zones) {
    return std::ranges::find(zones, zone) != zones.end();
  };
  return pool.zones.empty() ? !lists(pool.not_zones) : lists(pool.zones);
}

/// Whether the instance of the claim is in use, or may come.
bool takes_part(const Claim& c) {
  return !c.reservation.empty() && c.state != ClaimState::kGone &&
         (c.state != ClaimState::kFailed || !c.instance.empty());
}

}  // namespace

std::vector<Reservation> ReservedOfferings::calendar(const Pool& pool) const {
  std::vector<Reservation> out;
  if (!pool.reserved || !pool.group.empty()) return out;
  const std::string node_class = pool.node_class.empty() ? "default" : pool.node_class;
  for (const auto& [id, row] : tables_.reservations) {
    if (!std::ranges::binary_search(row.classes, node_class) || !allows(pool, row.reservation.zone)) continue;
    out.push_back(row.reservation);
    out.back().count -= row.others;
  }
  return out;
}

std::vector<Booking> ReservedOfferings::bookings() const {
  std::vector<Booking> out;
  for (const auto& [name, c] : tables_.claims) {
    if (takes_part(c)) out.push_back({c.reservation, 1, Instant{}, std::nullopt});
  }
  return out;
}

std::set<std::string> ReservedOfferings::zones(const Pool& pool, const std::string& type) const {
  std::set<std::string> out;
  if (tables_.reservations.size() == 0) return out;
  for (const Reservation& one : calendar(pool)) {
    if (one.type == type) out.insert(one.zone);
  }
  return out;
}

std::optional<Offering> ReservedOfferings::offering(const Pool& pool, const std::string& type, const std::string& zone,
                                                    std::int64_t nodes, Duration expected) const {
  const auto all = calendar(pool);
  ReservationRequest request{type, zone, nodes, state_.now, std::nullopt};
  if (expected > Duration{0}) request.duration = expected;
  const auto found = reservation_for(all, bookings(), request);
  if (!found) return std::nullopt;
  return Offering{type, zone, Market::kOnDemand, {}, (*found)->id};
}

bool ReservedOfferings::any_free() const {
  if (tables_.reservations.size() == 0) return false;
  const auto used = bookings();
  return std::ranges::any_of(tables_.pools, [&](const auto& entry) {
    const auto all = calendar(entry.second);
    return std::ranges::any_of(all, [&](const Reservation& one) {
      const auto end = last_use(one);
      return one.start <= state_.now && (!end || state_.now < *end) && free_in(one, used, state_.now, end) > 0;
    });
  });
}

}  // namespace qm::autoscaler
