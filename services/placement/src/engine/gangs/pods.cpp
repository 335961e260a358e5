// Ownership of pods. Annotations and owner references are input of the pod's author. They are verified
// against the namespace and kind of the workload before the pod counts for it.
#include "engine/gangs/pods.hpp"

#include "qm/placement/ownership.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

PodOwnership owned_by(const Tables& tables, const PodFacts& pod, const WorkloadUid& uid, const Workload& workload) {
  const auto found = qm::ownership_of({pod.ns, pod.uid, pod.owner.value(), pod.controller.value(), pod.controller_kind},
                                      {uid.value(), workload.spec.ns.value(), workload.spec.kind});
  if (found != PodOwnership::kOwned || pod.controller == uid || pod.controller.empty()) return found;
  return tables.workloads.contains(pod.controller) ? PodOwnership::kOtherController : found;
}

}  // namespace

PodOwnership ownership_of(const Tables& tables, const PodFacts& pod, const WorkloadUid& uid) {
  const Workload* workload = tables.workloads.find(uid);
  return workload == nullptr ? PodOwnership::kUnrelated : owned_by(tables, pod, uid, *workload);
}

std::vector<WorkloadUid> named_by(const PodFacts& pod) {
  std::vector<WorkloadUid> out;
  if (!pod.owner.empty()) out.push_back(pod.owner);
  if (!pod.controller.empty() && pod.controller != pod.owner) out.push_back(pod.controller);
  return out;
}

PodOwnership refusal_of(const Tables& tables, const PodFacts& pod) {
  const PodOwnership named = ownership_of(tables, pod, pod.owner);
  return named == PodOwnership::kUnrelated ? ownership_of(tables, pod, pod.controller) : named;
}

bool Pods::is_pod_of(const PodFacts& pod, const WorkloadUid& uid) const {
  return pod.ours && ownership_of(tables_, pod, uid) == PodOwnership::kOwned;
}

std::vector<const Pod*> Pods::pods_of(const WorkloadUid& uid) const {
  std::vector<const Pod*> out;
  const Workload* workload = tables_.workloads.find(uid);
  const auto named = index_.naming.find(uid);
  if (workload == nullptr || named == index_.naming.end()) return out;
  for (const std::string& pod_uid : named->second) {
    const Pod* pod = tables_.pods.find(pod_uid);
    if (owned_by(tables_, pod->facts, uid, *workload) == PodOwnership::kOwned) out.push_back(pod);
  }
  return out;
}

std::vector<const Pod*> Pods::pods_of(const AttemptId& id) const {
  auto out = pods_of(id.uid);
  std::erase_if(out, [&](const Pod* pod) { return pod->facts.attempt != id.attempt; });
  return out;
}

std::vector<AttemptId> Pods::attempts_of(const WorkloadUid& uid) const {
  std::vector<AttemptId> out;
  const auto& rows = tables_.assignments.rows();
  for (auto it = rows.lower_bound({uid, 0}); it != rows.end() && it->first.uid == uid; ++it) out.push_back(it->first);
  return out;
}

std::vector<const Pod*> Pods::non_member_pods(const NodeName& name) const {
  std::vector<const Pod*> out;
  const auto pods = index_.pods.find(name);
  if (pods == index_.pods.end()) return out;
  std::set<std::string> ours;
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      ours.insert(tables_.assignments.find(id)->members[position].pod_uid);
    }
  }
  for (const std::string& uid : pods->second) {
    if (!ours.contains(uid)) out.push_back(tables_.pods.find(uid));
  }
  return out;
}

}  // namespace qm::placement
