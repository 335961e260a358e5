// Queries about single rows.
#include "facts.hpp"

#include <algorithm>

namespace qm::autoscaler {

const InstanceType* Facts::type(const std::string& name) const {
  auto it = state_.catalog.find(name);
  return it == state_.catalog.end() ? nullptr : &it->second;
}

const OwnerRow* Facts::other_owner(const DemandUpdated::Item& item) const {
  std::string ns = item.ns;
  if (const WorkloadRow* known = tables_.workloads.find(item.id.uid); ns.empty() && known != nullptr) ns = known->ns;
  const OwnerRow* row = ns.empty() ? nullptr : tables_.owners.find(ns);
  if (row == nullptr) row = tables_.owners.find("");
  return row == nullptr || row->ours ? nullptr : row;
}

bool Facts::scales_somewhere() const {
  if (tables_.owners.find("") == nullptr) return true;
  for (const auto& [ns, row] : tables_.owners) {
    if (row.ours) return true;
  }
  return false;
}

const NodeRow* Facts::node_of(const Claim& claim) const {
  const NodeRow* node = claim.node.empty() ? nullptr : tables_.nodes.find(claim.node);
  if (node == nullptr || !node->known) return nullptr;
  return node->instance.empty() || node->instance == claim.instance ? node : nullptr;
}

const NodeDetails* Facts::details_of(const Claim& claim) const {
  const NodeDetails* details = claim.node.empty() ? nullptr : tables_.node_details.find(claim.node);
  if (details == nullptr) return nullptr;
  return details->instance.empty() || details->instance == claim.instance ? details : nullptr;
}

std::optional<Condition> Facts::start_gap(const Claim& claim) const {
  const NodeRow* node = node_of(claim);
  const NodeDetails* details = details_of(claim);
  const Pool* pool = tables_.pools.find(claim.pool);
  NodeStart start{node != nullptr, node != nullptr && node->is_up(), {}, {}};
  if (!state_.options.node_details) return initialization_gap(start, {});
  if (details == nullptr) return initialization_gap({}, {});
  start.taints = details->taints;
  start.allocatable = details->allocatable;
  return initialization_gap(
      start, {pool == nullptr ? std::vector<Taint>{} : pool->lifecycle.startup_taints, claim.life.resources});
}

const LaunchFault* Facts::fault(const std::string& type, const Pool& pool) const {
  if (!pool.group.empty()) return nullptr;  // its launch template determines the image
  const auto& rows = tables_.launch_faults.rows();
  const LaunchFault* worst = nullptr;
  for (auto it = rows.lower_bound({type, ""}); it != rows.end() && it->first.first == type; ++it) {
    const auto& images = pool.lifecycle.images;
    const bool same = it->first.second.empty() || images.empty() ||
                      std::find(images.begin(), images.end(), it->first.second) != images.end();
    if (same && it->second.until > state_.now && (worst == nullptr || it->second.count > worst->count))
      worst = &it->second;
  }
  return worst;
}

bool Facts::doomed(const Claim& c) const {
  const NodeRow* node = tables_.nodes.find(c.node);
  return node != nullptr && (node->instance.empty() || node->instance == c.instance) &&
         (node->taken_at || node->broken);
}

std::string Facts::title_of(const AttemptId& id) const {
  if (const ProvisioningRow* booked = tables_.provisioning.find(id.uid))
    return fmt::format("ProvisioningRequest {}/{}", booked->request.ns, booked->request.name);
  const WorkloadRow* row = tables_.workloads.find(id.uid);
  return row == nullptr || row->name.empty() ? id.to_string() : row->ns + "/" + row->name;
}

std::string Facts::subject_of(const DemandUpdated::Item& item) const {
  if (!item.runs) return title_of(item.id) + " is pending";
  std::int64_t pods = 0;
  for (const PodSet& set : item.pod_sets) pods += set.count;
  return fmt::format("{} runs without {} of its pods", title_of(item.id), pods);
}

std::string Facts::namespace_of(const WorkloadUid& uid) const {
  if (const WorkloadRow* row = tables_.workloads.find(uid); row != nullptr && !row->ns.empty()) return row->ns;
  const auto* item = tables_.demand.find(uid);
  return item == nullptr ? std::string() : item->ns;
}

std::map<std::pair<std::string, std::string>, checkpoint::Hazard> Facts::hazards(Instant now) const {
  auto out = tables_.hazards.rows();
  for (const auto& [name, claim] : tables_.claims) {
    if (claim.market != Market::kSpot || !claim.launched) continue;
    checkpoint::Hazard& hazard = out[{claim.type, claim.zone}];
    hazard.interruptions += claim.interrupted ? 1 : 0;
    hazard.exposure += std::max(claim.stopped.value_or(now) - *claim.launched, Duration{0});
  }
  return out;
}

std::map<std::string, Usage> Facts::usage(const std::set<ClaimName>& without) const {
  std::map<std::string, Usage> out;
  for (const auto& [name, c] : tables_.claims) {
    if (without.contains(name) || c.pool.empty() || c.state == ClaimState::kGone || c.state == ClaimState::kFailed) continue;
    if (const InstanceType* t = type(c.type)) out[c.pool].add(*t, 1);
  }
  return out;
}

std::set<ClaimName> Facts::planned() const {
  std::set<ClaimName> out;
  for (const auto& [uid, plan] : tables_.plans) {
    if (plan.promised_attempt > 0 && tables_.demand.contains(uid)) out.insert(plan.claims.begin(), plan.claims.end());
  }
  for (const auto& [uid, row] : tables_.provisioning) {
    if (row.phase == ProvisioningPhase::kProvisioned) out.insert(row.claims.begin(), row.claims.end());
  }
  return out;
}

Allowance Facts::budget(const Pool& pool, std::int64_t nodes) const {
  return allowed_disruptions(pool.budgets, DisruptionReason::kEmpty, nodes, state_.now, next_in_utc);
}

const Pool* Facts::pool_of_group(const std::string& group) const {
  if (group.empty()) return nullptr;
  for (const auto& [name, pool] : tables_.pools) {
    if (pool.group == group) return &pool;
  }
  return nullptr;
}

std::optional<ClaimName> Facts::claim_for(const InstanceFact& fact) const {
  if (fact.stopped) return std::nullopt;
  const ClaimName* best = nullptr;
  const auto rank = [&](const ClaimName& name) {
    const Claim& c = *tables_.claims.find(name);
    return std::tuple(c.owed, c.type != fact.type || c.market != fact.market, c.requested, name);
  };
  for (const auto& [name, c] : tables_.claims) {
    const bool open = c.state == ClaimState::kRequested || c.owed;
    if (c.group != fact.group || !open || !c.instance.empty()) continue;
    if (best == nullptr || rank(name) < rank(*best)) best = &name;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

}  // namespace qm::autoscaler
