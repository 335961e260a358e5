// ProvisioningRequests in the engine.
#include "launch/provisioning.hpp"

#include "launch/fit.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler {

std::vector<Condition> provisioning_conditions(const ProvisioningRow& row, const std::string& missing) {
  std::vector<Condition> out;
  const bool atomic = row.request.provisioning_class == ProvisioningClass::kBestEffortAtomic;
  const bool accepted = row.request.invalid.empty();
  if (accepted) out.push_back({"Accepted", "True", "Accepted", "the request is served by Quartermaster"});
  switch (row.phase) {
    case ProvisioningPhase::kAccepted:
      out.push_back({"Provisioned", "False", missing.empty() ? "CapacityIsBeingProvisioned" : "CapacityIsNotFound",
                     missing.empty() ? "its nodes are starting" : missing});
      return out;
    case ProvisioningPhase::kFailed:
      out.push_back({"Provisioned", "False", "CapacityIsNotFound", row.why});
      out.push_back({"Failed", "True", accepted ? "Expired" : "Invalid", row.why});
      return out;
    case ProvisioningPhase::kProvisioned:
    case ProvisioningPhase::kBookingExpired:
    case ProvisioningPhase::kCapacityRevoked:
      break;
  }
  out.push_back({"Provisioned", "True", atomic ? "CapacityIsProvisioned" : "CapacityIsFound",
                 "there is capacity for all of its pods"});
  if (row.phase == ProvisioningPhase::kBookingExpired)
    out.push_back({"BookingExpired", "True", "BookingExpired", "its nodes are not kept for its pods any more"});
  if (row.phase == ProvisioningPhase::kCapacityRevoked)
    out.push_back({"CapacityRevoked", "True", "CapacityRevoked", row.why});
  return out;
}

void Provisioning::enter(const WorkloadUid& uid, ProvisioningPhase phase, std::string why,
                         std::vector<ClaimName> claims) {
  ProvisioningRow& row = tables_.provisioning.edit(uid);
  row.phase = phase;
  row.since = state_.now;
  row.why = std::move(why);
  if (!claims.empty()) row.claims = std::move(claims);
  if (!tables_.demand.contains(uid)) return;
  tables_.demand.erase(uid);
  plans_.withdraw(uid);
}

bool Provisioning::is_idle(const Claim& c) const {
  const NodeRow* node = facts_.node_of(c);
  return c.state == ClaimState::kReady && node != nullptr && node->ready && !node->cordoned && node->pods == 0 &&
         !facts_.doomed(c);
}

std::optional<std::vector<ClaimName>> Provisioning::launched_for(const WorkloadUid& uid) const {
  const Plan* plan = tables_.plans.find(uid);
  if (plan == nullptr || plan->promised_attempt == 0 || plan->claims.empty()) return std::nullopt;
  const bool ready = std::ranges::all_of(plan->claims, [&](const ClaimName& name) {
    const Claim* c = tables_.claims.find(name);
    return c != nullptr && is_idle(*c);
  });
  return ready ? std::optional(plan->claims) : std::nullopt;
}

// Idle nodes that are not kept for others, all in one zone.
std::optional<std::vector<ClaimName>> Provisioning::idle_for(const ProvisioningRequest& request) const {
  const auto kept = facts_.planned();
  std::map<std::string, CapacityByClaim> zones;
  for (const auto& [name, c] : tables_.claims) {
    const bool free = is_idle(c) && !kept.contains(name) && tables_.pools.contains(c.pool);
    if (free && facts_.type(c.type) != nullptr) zones[c.zone].emplace(name, nodes_.empty(nodes_.side_of(c)));
  }
  for (auto& [zone, capacity] : zones) {
    const Fit fit(tables_, nodes_, request.pod_sets, std::move(capacity));
    if (!fit.whole() || fit.places.empty()) continue;
    std::set<ClaimName> used;
    for (const auto& place : fit.places) used.insert(place.claim);
    return std::vector<ClaimName>(used.begin(), used.end());
  }
  return std::nullopt;
}

bool Provisioning::has_room(const ProvisioningRequest& request) const {
  if (request.room.size() != request.pod_sets.size()) return false;
  for (std::size_t i = 0; i < request.room.size(); ++i) {
    if (request.room[i] < request.pod_sets[i].count) return false;
  }
  return true;
}

void Provisioning::review_open(const WorkloadUid& uid) {
  const ProvisioningRequest& request = tables_.provisioning.find(uid)->request;
  if (!request.invalid.empty()) return enter(uid, ProvisioningPhase::kFailed, std::string(request.invalid));
  if (auto claims = launched_for(uid)) return enter(uid, ProvisioningPhase::kProvisioned, {}, std::move(*claims));
  const bool launching = tables_.plans.find(uid) != nullptr && tables_.plans.find(uid)->promised_attempt > 0;
  if (!launching) {
    if (auto claims = idle_for(request)) return enter(uid, ProvisioningPhase::kProvisioned, {}, std::move(*claims));
    if (has_room(request)) return enter(uid, ProvisioningPhase::kProvisioned);
  }
  if (request.valid_for && request.created + *request.valid_for <= state_.now) {
    return enter(
        uid, ProvisioningPhase::kFailed,
        fmt::format("no capacity came within {} s of its creation", *request.valid_for / std::chrono::seconds(1)));
  }
  if (request.provisioning_class == ProvisioningClass::kCheckCapacity) return;
  DemandUpdated::Item item;
  item.id = {uid, 1};
  item.pod_sets = request.pod_sets;
  item.since = request.created;
  item.ns = request.ns;
  if (const auto* known = tables_.demand.find(uid); known == nullptr || *known != item)
    tables_.demand.insert(uid, std::move(item));
}

void Provisioning::review_booked(const WorkloadUid& uid) {
  const ProvisioningRow& row = *tables_.provisioning.find(uid);
  const auto lost = std::ranges::find_if(row.claims, [&](const ClaimName& name) {
    const Claim* c = tables_.claims.find(name);
    return c == nullptr || c->state != ClaimState::kReady || facts_.doomed(*c);
  });
  if (lost != row.claims.end()) {
    return enter(uid, ProvisioningPhase::kCapacityRevoked,
                 fmt::format("the node of NodeClaim {} is lost, or will be", *lost));
  }
  if (row.since + kBookedFor <= state_.now) enter(uid, ProvisioningPhase::kBookingExpired);
}

void Provisioning::review() {
  std::vector<WorkloadUid> open, booked;
  for (const auto& [uid, row] : tables_.provisioning) {
    if (row.phase == ProvisioningPhase::kAccepted) open.push_back(uid);
    if (row.phase == ProvisioningPhase::kProvisioned) booked.push_back(uid);
  }
  for (const auto& uid : booked) review_booked(uid);
  for (const auto& uid : open) review_open(uid);
}

std::optional<Instant> Provisioning::next() const {
  std::optional<Instant> next;
  const auto consider = [&](Instant t) {
    if (t > state_.now && (!next || t < *next)) next = t;
  };
  for (const auto& [uid, row] : tables_.provisioning) {
    if (row.phase == ProvisioningPhase::kProvisioned) consider(row.since + kBookedFor);
    if (row.phase == ProvisioningPhase::kAccepted && row.request.valid_for)
      consider(row.request.created + *row.request.valid_for);
  }
  return next;
}

std::string Provisioning::missing(const ProvisioningRow& row) const {
  const Plan* plan = tables_.plans.find(row.request.uid);
  if (plan != nullptr && plan->promised_attempt > 0) return {};
  if (row.request.provisioning_class == ProvisioningClass::kCheckCapacity)
    return "no idle nodes fit all of its pods; use best-effort-atomic-scale-up to launch some";
  if (plan != nullptr && !plan->refusal.empty()) return plan->refusal;
  std::string why;
  const auto offer = offers_.cheapest(row.request.pod_sets, facts_.usage(), &why);
  if (offer || why.empty()) return "its nodes will be launched again after a pause";
  return why;
}

std::map<WorkloadUid, std::vector<Condition>> Provisioning::conditions() const {
  std::map<WorkloadUid, std::vector<Condition>> out;
  for (const auto& [uid, row] : tables_.provisioning)
    out[uid] = provisioning_conditions(row, row.phase == ProvisioningPhase::kAccepted ? missing(row) : std::string());
  return out;
}

}  // namespace qm::autoscaler
