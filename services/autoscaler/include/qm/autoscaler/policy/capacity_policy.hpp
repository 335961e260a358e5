#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// How capacity can be bought. Reserved capacity is that of a reservation, which on-demand launches use first.
enum class Capacity : std::uint8_t { kSpot, kOnDemand, kReserved };

/// The profile of a fleet.
enum class Reliability : std::uint8_t {
  kByPrice,    ///< there is no policy: the cheapest capacity that the pools allow
  kOnDemand,   ///< inference has an objective that an interruption would break: on-demand only
  kSpotFirst,  ///< inference is stateless and replicated: spot, and on-demand without spot capacity
};

/// What decides on the capacity of a workload.
struct WorkloadTraits {
  std::string type;          ///< label workload-type: "inference", "training", "fine-tuning", "batch"
  bool checkpoints = false;  ///< it can save, so an interruption costs little
  Duration expected{0};      ///< declared run time; 0 = unknown
};

/// The capacity that a workload may use, the preferred first; empty = the cheapest that the pools allow.
struct CapacityChoice {
  std::vector<Capacity> order;
  std::string reason;  ///< "inference under reliability=spot-first: spot first, on-demand fallback"
};

/// Training from this declared run time on is long: a spot interruption is then likely.
inline constexpr Duration kLongTraining = std::chrono::hours(24);

/// The row of the policy table for the workload.
///
///   workload                     condition                capacity
///   inference                    reliability=on-demand    on-demand
///   inference                    reliability=spot-first   spot first, on-demand fallback
///   training, 24 hours or more                            on-demand + reserved
///   training, fine-tuning        it can save              spot
///   training, fine-tuning        it cannot                on-demand
///   batch                                                 spot
///
/// Order    the first row that matches. Other types have none, and no row applies under kByPrice.
/// Threads  any; reads only its arguments.
[[nodiscard]] CapacityChoice capacity_for(const WorkloadTraits& workload, Reliability reliability);

/// "spot first, on-demand fallback", "on-demand + reserved", "spot".
[[nodiscard]] std::string text_of(const std::vector<Capacity>& order);

}  // namespace qm::autoscaler
