#pragma once
#include "offers.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler::pack {

using ZoneSet = std::uint64_t;  ///< one bit for each of Offers::zones
inline constexpr std::size_t kMostZones = 64;

/// What the choice of zones must know of a pod.
struct ZonedPod {
  const Pod* pod = nullptr;
  std::uint32_t labels = 0;  ///< equal for pods of one namespace with equal labels
  std::uint32_t shape = 0;   ///< equal for pods with equal requests and node constraints
};
struct ZonedShape {
  ZoneSet homes = 0;          ///< zones with an offer that could hold the pod alone
  ZoneSet admitted = 0;       ///< zones that the pod's own conditions on the zone allow
  std::vector<double> price;  ///< of the cheapest such offer, by zone
};

struct ZoneChoice {
  static constexpr std::int32_t kAnyZone = -1, kNoZone = -2;
  std::int32_t zone = kAnyZone;
  std::string reason;  ///< of kNoZone
};

/// Fixes the zone of each pod whose zone concerns a spread, affinity or anti-affinity constraint.
///
/// The pods are placed in their order, so that each constraint holds at that moment; other pods keep every zone open.
/// Among the zones that are allowed, the pod takes the cheapest, then the one that keeps the spread groups and the
/// requests level.
/// Cost     linear in pods, times the number of groups that select a pod, times the number of zones.
[[nodiscard]] std::vector<ZoneChoice> choose_zones(const std::vector<ZonedPod>& pods,
                                                   const std::vector<ZonedShape>& shapes, std::size_t zones);

/// The zones that the pod's node selector and required terms allow, judged by their conditions on the zone alone.
[[nodiscard]] ZoneSet admitted_zones(const Pod& pod, const std::vector<std::string>& zones);

}  // namespace qm::autoscaler::pack
