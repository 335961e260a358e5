// Which pods kube-scheduler should bind to which of the launched nodes.
#include "launch/nominations.hpp"

#include <algorithm>
#include <tuple>

namespace qm::autoscaler {
namespace {

/// Whether the node of the claim has registered and stays. Once it was initialized, it must also be ready.
bool is_open(const Claim& claim, const Facts& facts) {
  if (claim.state != ClaimState::kLaunched && claim.state != ClaimState::kReady) return false;
  if (!claim.life.disruption.empty() || facts.doomed(claim)) return false;
  const NodeRow* node = facts.node_of(claim);
  if (node == nullptr || node->cordoned || node->drain_requested) return false;
  return node->ready || !claim.life.initialized;
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
      const Claim* claim = tables.claims.find(place.claim);
      if (claim == nullptr || place.pods == 0 || !is_open(*claim, facts)) continue;
      found.push_back({item, {uid, claim->node, place.pods, claim->life.initialized}});
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& one) {
    return std::tuple(-one.first->priority, one.first->runs, one.first->since, one.first->id);
  });
  std::vector<Nomination> out;
  for (auto& [item, nomination] : found) out.push_back(std::move(nomination));
  return out;
}

}  // namespace qm::autoscaler
