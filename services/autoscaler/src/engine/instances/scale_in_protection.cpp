#include "instances/scale_in_protection.hpp"

#include "instances/groups.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler {

// A gang, a pod that may not be disrupted, or one that Cluster Autoscaler may not evict.
bool ScaleInProtection::holds_work(const Claim& c) const {
  if (c.state != ClaimState::kReady || facts_.node_of(c) == nullptr || facts_.doomed(c)) return false;
  const bool gang = std::ranges::any_of(tables_.attempts, [&](const auto& attempt) {
    return std::ranges::find(attempt.second.nodes, c.node) != attempt.second.nodes.end();
  });
  if (gang) return true;
  const NodeDetails* details = facts_.details_of(c);
  if (details != nullptr && annotation_hold(details->holding, state_.now)) return true;
  const NodePods* pods = tables_.node_pods.find(c.node);
  return pods != nullptr && std::ranges::any_of(pods->pods, [](const NodePod& pod) {
           return pod.safe_to_evict == false && !pod.terminating;
         });
}

void ScaleInProtection::update() {
  auto& ours = tables_.scale_down.protected_by_us;
  if (!options_.scale_in_protection && ours.size() == 0) return;
  std::map<std::pair<std::string, bool>, std::vector<InstanceId>> requests;
  std::set<InstanceId> exist;
  for (const auto& [name, c] : tables_.claims) {
    const ScalingGroup* group = c.group.empty() ? nullptr : tables_.scaling_groups.find(c.group);
    const auto* member = group == nullptr || c.instance.empty() ? nullptr : group->member(c.instance);
    if (member == nullptr || is_leaving(tables_, c) || c.state == ClaimState::kGone) continue;
    exist.insert(c.instance);
    const Instant* since = ours.find(c.instance);
    const bool wanted = options_.scale_in_protection && holds_work(c);
    const bool lost = since != nullptr && !member->scale_in_protected && *since + options_.settle <= state_.now;
    if (wanted && (since == nullptr ? !member->scale_in_protected : lost)) {
      ours.insert(c.instance, state_.now);
      requests[{c.group, true}].push_back(c.instance);
    } else if (!wanted && since != nullptr) {
      ours.erase(c.instance);
      requests[{c.group, false}].push_back(c.instance);
    }
  }
  std::vector<InstanceId> over;
  for (const auto& [instance, since] : ours) {
    if (!exist.contains(instance)) over.push_back(instance);
  }
  for (const auto& instance : over) ours.erase(instance);
  for (auto& [request, instances] : requests) {
    std::ranges::sort(instances);
    state_.out.protections.push_back(
        {request.first, std::move(instances), request.second, tables_.counters.edit("protection") += 1});
  }
}

}  // namespace qm::autoscaler
