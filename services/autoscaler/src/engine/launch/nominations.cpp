// Which pods kube-scheduler should bind to which of the launched nodes.
#include "launch/nominations.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace qm::autoscaler {
namespace {

/// The node on which the pods of the place may start now; empty = none.
NodeName open_node(const Claim* claim, const Facts& facts) {
  if (claim == nullptr || claim->state != ClaimState::kReady || !claim->life.initialized) return {};
  if (!claim->life.disruption.empty() || facts.doomed(*claim)) return {};
  const NodeRow* node = facts.node_of(*claim);
  return node != nullptr && node->ready && !node->cordoned && !node->drain_requested ? claim->node : NodeName();
}

bool is_held(const NodeDetails& details) {
  return std::ranges::any_of(details.taints, [](const Taint& taint) { return taint.key == kNominatingTaint; });
}

}  // namespace

std::vector<Nomination> nominations_of(const Tables& tables, const Facts& facts) {
  std::vector<std::pair<const DemandUpdated::Item*, Nomination>> found;
  for (const auto& [uid, plan] : tables.plans) {
    if (plan.promised_attempt == 0) continue;
    const DemandUpdated::Item* item = tables.demand.find(uid);
    const bool uniform = item != nullptr && item->pod_sets.size() == 1 &&
                         std::ranges::all_of(plan.places, [](const Plan::Place& place) { return place.set == 0; });
    if (!uniform) continue;
    for (const auto& place : plan.places) {
      const NodeName node = open_node(tables.claims.find(place.claim), facts);
      if (!node.empty() && place.pods > 0) found.push_back({item, {uid, node, place.pods}});
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& one) {
    return std::tuple(-one.first->priority, one.first->runs, one.first->since, one.first->id);
  });
  std::vector<Nomination> out;
  for (auto& [item, nomination] : found) out.push_back(std::move(nomination));
  return out;
}

std::set<NodeName> held_nodes_of(const Tables& tables, const Facts& facts) {
  std::set<NodeName> starting;
  for (const auto& [name, claim] : tables.claims) {
    const bool ours = !claim.pool.empty() && claim.state != ClaimState::kGone && claim.state != ClaimState::kFailed;
    if (ours && !claim.node.empty() && !claim.life.initialized && facts.details_of(claim) != nullptr)
      starting.insert(claim.node);
  }
  std::set<NodeName> out;
  for (const auto& [name, details] : tables.node_details) {
    if (!is_held(details) || starting.contains(name)) continue;
    const NodeRow* node = tables.nodes.find(name);
    if (node != nullptr && node->known && node->is_up()) out.insert(name);
  }
  return out;
}

}  // namespace qm::autoscaler
