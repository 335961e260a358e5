#pragma once
#include "facts.hpp"
#include "launch/new_nodes.hpp"
#include "launch/plans.hpp"
#include "offers/offers.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// ProvisioningRequests as demand: what they lack is launched as a gang, and their nodes are booked for a while.
///
///   kAccepted -- all nodes are ready, or there are idle ones --> kProvisioned -- kBookedFor --> kBookingExpired
///   kAccepted -- not valid any more --> kFailed      kProvisioned -- a node is lost --> kCapacityRevoked
class Provisioning {
 public:
  Provisioning(State& state, const Facts& facts, const NewNodes& nodes, const Offers& offers, Plans& plans)
      : state_(state), tables_(state.tables), facts_(facts), nodes_(nodes), offers_(offers), plans_(plans) {}

  /// Before the demand is covered: enters phases, and adds the open requests to the demand.
  void review();
  [[nodiscard]] std::optional<Instant> next() const;
  /// The conditions of each request, by uid.
  [[nodiscard]] std::map<WorkloadUid, std::vector<Condition>> conditions() const;

 private:
  void enter(const WorkloadUid& uid, ProvisioningPhase phase, std::string why = {}, std::vector<ClaimName> claims = {});
  void review_open(const WorkloadUid& uid);
  void review_booked(const WorkloadUid& uid);
  [[nodiscard]] bool is_idle(const Claim& claim) const;
  [[nodiscard]] bool has_room(const ProvisioningRequest& request) const;
  [[nodiscard]] std::optional<std::vector<ClaimName>> launched_for(const WorkloadUid& uid) const;
  [[nodiscard]] std::optional<std::vector<ClaimName>> idle_for(const ProvisioningRequest& request) const;
  [[nodiscard]] std::string missing(const ProvisioningRow& row) const;

  State& state_;
  Tables& tables_;
  const Facts& facts_;
  const NewNodes& nodes_;
  const Offers& offers_;
  Plans& plans_;
};

}  // namespace qm::autoscaler
