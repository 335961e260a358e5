// Nodes of capacity blocks that end.
#include "instances/reservation_ends.hpp"

namespace qm::autoscaler {

void ReservationEnds::note_ends() {
  for (const auto& [name, c] : tables_.claims) {
    const ReservedCapacity* row = c.reservation.empty() ? nullptr : tables_.reservations.find(c.reservation);
    const auto last = row == nullptr ? std::nullopt : last_use(row->reservation);
    if (last && *last <= state_.now && c.state != ClaimState::kGone && facts_.node_of(c) != nullptr)
      claims_.note(c.node, NoticeKind::kReservationEnd, *row->reservation.end - kReclaimLead);
  }
}

std::optional<Instant> ReservationEnds::next() const {
  std::optional<Instant> next;
  const auto consider = [&](Instant t) {
    if (t > state_.now && (!next || t < *next)) next = t;
  };
  for (const auto& [id, row] : tables_.reservations) {
    consider(row.reservation.start);
    if (const auto last = last_use(row.reservation)) consider(*last);
  }
  return next;
}

}  // namespace qm::autoscaler
