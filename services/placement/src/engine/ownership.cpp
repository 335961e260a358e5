// Ownership of pods. Annotations and owner references are input of the pod's author. They are verified
// against the namespace and kind of the workload before the pod counts for it.
#include "qm/placement/ownership.hpp"

#include "qm/placement/engine.hpp"

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

bool Engine::is_pod_of(const PodFacts& pod, const WorkloadUid& uid) const {
  return pod.ours && ownership_of(tables_, pod, uid) == PodOwnership::kOwned;
}

std::vector<const Pod*> Engine::pods_of(const WorkloadUid& uid) const {
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

std::vector<const Pod*> Engine::pods_of(const AttemptId& id) const {
  auto out = pods_of(id.uid);
  std::erase_if(out, [&](const Pod* pod) { return pod->facts.attempt != id.attempt; });
  return out;
}

/// Marks the attempt of the workload that owns the pod for reconciliation, and returns the workload; empty if
/// none owns it.
std::vector<WorkloadUid> Engine::reconcile_for(const PodFacts& pod) {
  auto out = named_by(pod);
  std::erase_if(out, [&](const WorkloadUid& uid) { return !is_pod_of(pod, uid); });
  for (const WorkloadUid& uid : out) scratch_.attempts.insert({uid, pod.attempt});
  return out;
}

/// Once per pod: counts it, and if it is pending, writes the reason to its condition.
void Engine::report_foreign(const std::string& pod_uid) {
  const Pod* pod = tables_.pods.find(pod_uid);
  if (pod == nullptr) return;
  const PodFacts& facts = pod->facts;
  if (!facts.ours || pod->foreign || facts.terminal()) return;
  const PodOwnership why = refusal_of(tables_, facts);
  if (why == PodOwnership::kOwned || why == PodOwnership::kUnrelated) return;
  tables_.pods.edit(pod_uid).foreign = true;
  const bool by_annotation = ownership_of(tables_, facts, facts.owner) == why;
  const WorkloadUid& uid = by_annotation ? facts.owner : facts.controller;
  scratch_.out.notes.foreign.push_back({facts.key(), uid, why});
  if (!facts.node.empty() || is_pod_of(facts, facts.controller)) return;
  const std::string source = by_annotation ? "annotation quartermaster.dev/workload" : "owner reference";
  send(RefusePod{
      facts.ns, facts.name, facts.uid,
      fmt::format("{} names workload {}, and the pod is not one of its pods ({}): remove the annotation, or let the "
                  "controller of the workload create the pod",
                  source, uid, name_of(why))});
}

}  // namespace qm::placement
