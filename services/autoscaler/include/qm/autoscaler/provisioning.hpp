#pragma once
#include "qm/autoscaler/disrupt/conditions.hpp"
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The provisioning classes of Cluster Autoscaler that are served.
enum class ProvisioningClass {
  kCheckCapacity,     ///< only existing capacity is booked
  kBestEffortAtomic,  ///< what is missing is launched, all or none
};

/// A ProvisioningRequest: capacity for pods that do not exist yet, as one gang.
struct ProvisioningRequest {
  WorkloadUid uid;
  std::string ns, name;
  ProvisioningClass provisioning_class = ProvisioningClass::kBestEffortAtomic;
  std::vector<PodSet> pod_sets;
  Instant created{};
  std::optional<Duration> valid_for;  ///< from its creation: without capacity it fails then; none = never
  std::string invalid;                ///< why it can never be served, with the field and the remedy; empty = it can
  /// By pod set: pods that fit running nodes, as in DemandUpdated::Item; empty = not known.
  std::vector<std::int32_t> room;
  friend auto operator<=>(const ProvisioningRequest&, const ProvisioningRequest&) = default;
};

/// All ProvisioningRequests whose state is not final, always complete.
struct ProvisioningApplied {
  std::vector<ProvisioningRequest> requests;
};

enum class ProvisioningPhase {
  kAccepted,         ///< without capacity so far
  kProvisioned,      ///< its capacity is booked: its nodes are not terminated for kBookedFor
  kFailed,           ///< no capacity came, and none is sought any more
  kBookingExpired,   ///< its pods had the time to start; the nodes are ordinary ones now
  kCapacityRevoked,  ///< a booked node was lost
};

/// The time that booked capacity is kept for the pods.
///
/// Source   Cluster Autoscaler, processors of ProvisioningRequests: 10 minutes after Provisioned.
inline constexpr Duration kBookedFor = std::chrono::minutes(10);

struct ProvisioningRow {
  ProvisioningRequest request;
  ProvisioningPhase phase = ProvisioningPhase::kAccepted;
  Instant since{};                ///< of the phase
  std::vector<ClaimName> claims;  ///< booked; empty if pods fit nodes of others
  std::string why;                ///< of kFailed and kCapacityRevoked
  friend auto operator<=>(const ProvisioningRow&, const ProvisioningRow&) = default;
};

/// The conditions of its status. `missing`: why no capacity comes now, empty = it is being launched.
///
/// Source   autoscaling.x-k8s.io/v1: Accepted, Provisioned, Failed, BookingExpired, CapacityRevoked.
[[nodiscard]] std::vector<Condition> provisioning_conditions(const ProvisioningRow& row, const std::string& missing);

}  // namespace qm::autoscaler
