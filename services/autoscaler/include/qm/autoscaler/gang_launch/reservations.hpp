#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A capacity reservation of an account, or a capacity block, which begins and ends at fixed times.
struct Reservation {
  std::string id, type, zone;
  bool block = false;
  Instant start{};
  std::optional<Instant> end;  ///< none = until it is canceled
  std::int64_t count = 0;      ///< instances; of those that are in use, the bookings take their part
  friend auto operator<=>(const Reservation&, const Reservation&) = default;
};

/// Instances of a reservation that a gang uses or will use.
struct Booking {
  std::string reservation;
  std::int64_t count = 0;
  Instant from{};
  std::optional<Instant> until;  ///< none = unknown, so to the end
};

struct ReservationRequest {
  std::string type;
  std::string zone;  ///< empty = any
  std::int64_t count = 1;
  Instant from{};
  std::optional<Duration> duration;  ///< of the gang, if known
};

/// EC2 takes the instances of a block back from this time before its end.
inline constexpr Duration kReclaimLead = std::chrono::minutes(30);
/// Nodes are drained 10 min earlier, so that
/// checkpoints are saved; nothing may run on the block after that.
inline constexpr Duration kWindDown = std::chrono::minutes(40);
/// The last instant at which instances of the reservation may run; none = no end.
[[nodiscard]] std::optional<Instant> last_use(const Reservation& reservation);

/// The instances that are free during all of [from, until).
[[nodiscard]] std::int64_t free_in(const Reservation& reservation, std::span<const Booking> bookings, Instant from,
                                   std::optional<Instant> until);

/// The reservation for all instances of the request: its price is paid, so it comes before other capacity.
///
/// Order    other reservations before blocks, which are paid in advance for a fixed time; then the one that
///          ends first, so that a longer one stays free; then the one with the fewest free instances; then the id.
/// Fails    kExhausted: none is free for so long. The message has the best one, with its end or its free instances.
///          A gang whose duration is known is refused if it cannot finish; without a duration one minute is enough.
/// Cost     O(r * b log b) for r reservations and b bookings.
[[nodiscard]] Result<const Reservation*> reservation_for(std::span<const Reservation> calendar,
                                                         std::span<const Booking> bookings,
                                                         const ReservationRequest& request);

}  // namespace qm::autoscaler
