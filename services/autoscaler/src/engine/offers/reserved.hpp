#pragma once
#include "qm/autoscaler/gang_launch/reservations.hpp"
#include "state.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Capacity reservations as offerings of pools: paid already, so their price is 0, up to their number of instances and
/// within their window. Claims use exactly the instances that were free when they were launched.
///
/// Cost     claims and reservations, for each request.
class ReservedOfferings {
 public:
  explicit ReservedOfferings(const State& state) : state_(state), tables_(state.tables) {}

  /// The zones in which the pool's class has reservations of the type.
  [[nodiscard]] std::set<std::string> zones(const Pool& pool, const std::string& type) const;
  /// The offering for `nodes` instances now, all of one reservation; none if no reservation is free for so long.
  /// `expected`: how long they are used; 0 = unknown.
  [[nodiscard]] std::optional<Offering> offering(const Pool& pool, const std::string& type, const std::string& zone,
                                                 std::int64_t nodes, Duration expected) const;
  /// Whether any instance of a reservation is free for a pool.
  [[nodiscard]] bool any_free() const;

 private:
  [[nodiscard]] std::vector<Reservation> calendar(const Pool& pool) const;
  [[nodiscard]] std::vector<Booking> bookings() const;

  const State& state_;
  const Tables& tables_;
};

}  // namespace qm::autoscaler
