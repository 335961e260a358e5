// Observations: stored as received, with marks of what they affect. Nothing is decided here.
#include "engine/observations.hpp"

#include "qm/placement/nearness.hpp"
#include "qm/placement/ownership.hpp"

#include <algorithm>
#include <array>

namespace qm::placement {
namespace {

constexpr const char* kAttachLimits = "limits/";

// Only these labels and annotations of an agent's report are written to the Node object: an agent must not be able
// to set its node's pool, zone or taints.
constexpr std::array<std::string_view, 4> kLabels{
    "gpu.nvidia.com/nvlink-enabled", "gpu.nvidia.com/nvlink-gpus-per-island", kFabricSeenLabel, kRailsSeenLabel};
constexpr std::array<std::string_view, 3> kAnnotations{"quartermaster.dev/numa", "quartermaster.dev/pcie-switches",
                                                       "quartermaster.dev/findings"};

NodeReport allowed(const NodeReport& published_at) {
  NodeReport out;
  for (const auto& [key, value] : published_at.labels) {
    if (key.starts_with(kCachePrefix) || std::ranges::count(kLabels, key) > 0) out.labels.emplace(key, value);
  }
  for (const auto& [key, value] : published_at.annotations) {
    if (std::ranges::count(kAnnotations, key) > 0) out.annotations.emplace(key, value);
  }
  if (std::ranges::count(published_at.owned_prefixes, kCachePrefix) > 0) out.owned_prefixes.emplace_back(kCachePrefix);
  return out;
}

template <class Kind>
const Kind* storage_row(const Tables& tables, const std::string& key) {
  const Storage* row = tables.storage.find(key);
  return row == nullptr ? nullptr : std::get_if<Kind>(row);
}

}  // namespace

// ---- nodes and pods ----

void Observations::apply(const WatchStarted&) {
  Meta next = state_.meta();
  next.nodes_synced = next.pods_synced = false;
  if (next != state_.meta()) tables_.meta.insert(0, next);
}

void Observations::apply(const NodeUpdated& seen) {
  const Node* old = tables_.nodes.find(seen.node);
  if (old != nullptr && old->facts == seen.facts) return;
  scratch_.capacity_added = scratch_.capacity_added || old == nullptr || old->facts.labels != seen.facts.labels ||
                            old->facts.taints != seen.facts.taints || old->facts.model != seen.facts.model;
  const bool fresh = old == nullptr;
  if (!fresh) rows_.index_kept(seen.node, *old, false);
  Node& node = tables_.nodes.edit(seen.node);
  // Our uncordon removes our annotation together with the cordon; kubectl does not. A cordon without the
  // annotation is by another client.
  const bool by_us = !node.facts.cordoned_by.empty() && seen.facts.cordoned_by.empty();
  if (node.facts.unschedulable && !seen.facts.unschedulable && !by_us) scratch_.uncordoned.insert(seen.node);
  const bool planned = node.facts.launched_for != seen.facts.launched_for && node.kept_since == Instant{};
  node.facts = seen.facts;
  if (planned) node.kept = !seen.facts.launched_for.empty() && state_.options.launch_hold > Duration{0};
  rows_.index_kept(seen.node, node, true);
  if (fresh) node.cordon_sent = !seen.facts.cordoned_by.empty();  // ordered before this row existed
  if (const NodeReport* report = tables_.report.find(seen.node); fresh && report != nullptr)
    state_.send(MarkNode{seen.node, *report});
  scratch_.nodes.insert(seen.node);
  scratch_.node_changed.insert(seen.node);
}

void Observations::apply(const NodeDeleted& gone) { nodes_.remove_node(gone.node); }

void Observations::apply(const NodesSynced& synced) {
  std::vector<NodeName> gone;
  for (const auto& [name, node] : tables_.nodes) {
    if (!synced.nodes.contains(name)) gone.push_back(name);
  }
  for (const NodeName& name : gone) nodes_.remove_node(name);
  if (state_.meta().nodes_synced) return;
  tables_.meta.edit(0).nodes_synced = true;
  scratch_.capacity_added = true;
}

void Observations::apply(const PodUpdated& seen) {
  const PodFacts& facts = seen.pod;
  const Pod* old = tables_.pods.find(facts.uid);
  if (old != nullptr && old->facts == facts) return;
  const bool fresh = old == nullptr;
  Pod next = old != nullptr ? *old : Pod{};
  next.facts = facts;
  if (old != nullptr) {
    rows_.index_pod(*old, false);
    if (!old->facts.node.empty()) scratch_.nodes.insert(old->facts.node);
    reconcile_for(old->facts);
  }
  rows_.index_pod(tables_.pods.insert(facts.uid, std::move(next)), true);
  if (!facts.node.empty()) scratch_.nodes.insert(facts.node);
  for (const WorkloadUid& uid : reconcile_for(facts)) {
    if (fresh && facts.attempt < tables_.workloads.find(uid)->attempt) ++scratch_.out.notes.stale;
  }
  scratch_.named.insert(facts.uid);
}

void Observations::apply(const PodDeleted& gone) { remove_pod(gone.uid); }

void Observations::remove_pod(const std::string& uid) {
  const Pod* old = tables_.pods.find(uid);
  if (old == nullptr) return;
  const PodFacts facts = old->facts;
  rows_.index_pod(*old, false);
  tables_.pods.erase(uid);
  if (!facts.node.empty()) scratch_.nodes.insert(facts.node);
  reconcile_for(facts);
}

void Observations::apply(const PodsSynced& synced) {
  std::vector<std::string> gone;
  for (const auto& [uid, pod] : tables_.pods) {
    if (!synced.uids.contains(uid)) gone.push_back(uid);
  }
  for (const std::string& uid : gone) remove_pod(uid);
  if (state_.meta().pods_synced) return;
  tables_.meta.edit(0).pods_synced = true;
  scratch_.capacity_added = true;
}

/// Marks the attempt of the workload that owns the pod for reconciliation, and returns the workload; empty if
/// none owns it.
std::vector<WorkloadUid> Observations::reconcile_for(const PodFacts& pod) {
  auto out = named_by(pod);
  std::erase_if(out, [&](const WorkloadUid& uid) { return !pods_.is_pod_of(pod, uid); });
  for (const WorkloadUid& uid : out) scratch_.attempts.insert({uid, pod.attempt});
  return out;
}

/// Once per pod: counts it, and if it is pending, writes the reason to its condition.
void Observations::report_foreign(const std::string& pod_uid) {
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
  if (!facts.node.empty() || pods_.is_pod_of(facts, facts.controller)) return;
  const std::string source = by_annotation ? "annotation quartermaster.dev/workload" : "owner reference";
  state_.send(RefusePod{
      facts.ns, facts.name, facts.uid,
      fmt::format("{} names workload {}, and the pod is not one of its pods ({}): remove the annotation, or let the "
                  "controller of the workload create the pod",
                  source, uid, name_of(why))});
}

// ---- workloads ----

void Observations::apply(const WorkloadUpdated& update) {
  const WorkloadUid& uid = update.spec.uid;
  const Workload* old = tables_.workloads.find(uid);
  if (update.attempt == 0) {
    if (old == nullptr) return;
    WorkloadUpdated last = update;
    last.spec = old->spec;
    last.attempt = old->attempt;
    last.quota_facts = old->quota_facts;
    return apply(last);
  }
  if (old != nullptr && update.attempt < old->attempt) {
    ++scratch_.out.notes.stale;
    return answer_outdated({uid, old->attempt});
  }
  Workload next{update.spec,         update.attempt,        update.phase, update.quota_reserved,
                update.order_reason, update.order_deadline, {},           {},
                update.quota_facts};
  if (old != nullptr) next.short_since = old->short_since, next.done = old->done;
  if (old != nullptr && old->attempt == update.attempt) next.unplaced = old->unplaced;
  if (old != nullptr && old->fits_since != Instant{}) {
    const bool stays = update.phase == WorkloadPhase::kPending && update.attempt == old->attempt;
    if (stays) next.fits_since = old->fits_since;
    scratch_.requeue = scratch_.requeue || !stays || update.no_free_capacity;  // admission may have lost the list
  }
  // The event of the end of a workload that was not admitted contains only its uid.
  if (old != nullptr && next.spec.ns.empty()) next.spec.ns = old->spec.ns, next.spec.kind = old->spec.kind;
  const bool may_wait = update.phase == WorkloadPhase::kPending || update.phase == WorkloadPhase::kQuotaReserved;
  if (next.short_since != Instant{}) {
    if (!may_wait) next.short_since = {};
    // The list names the newest attempt, so a later attempt changes it too.
    scratch_.demand = scratch_.demand || !may_wait || old->attempt != update.attempt;
  }
  // In back-off because it had no nodes, so it is compared with the free capacity, whatever the state of its
  // former attempt here.
  if (update.no_free_capacity && next.fits_since == Instant{} && (old == nullptr || old->attempt <= update.attempt)) {
    if (next.short_since == Instant{}) next.short_since = scratch_.now, scratch_.demand = true;
    scratch_.backoff_retries.insert(uid);
  }
  if (old != nullptr) index_.preference.count(old->spec.pod_sets, -1);
  index_.preference.count(tables_.workloads.insert(uid, std::move(next)).spec.pod_sets, 1);
  rows_.index_workload(uid);
  if (const auto naming = index_.naming.find(uid); old == nullptr && naming != index_.naming.end()) {
    for (const std::string& pod_uid : std::set(naming->second)) {
      reconcile_for(tables_.pods.find(pod_uid)->facts);
      scratch_.named.insert(pod_uid);
    }
  }
  repartitions_.wake(uid);
  proposals_.on_answer(update);

  const AttemptId id{uid, update.attempt};
  scratch_.attempts.insert(id);
  for (const AttemptId& other : pods_.attempts_of(uid)) scratch_.attempts.insert(other);
  if (index_.without_placement.contains(uid)) scratch_.requested.insert(uid);
  // Published again with a valid assignment: the assignment is published again.
  if (const Assignment* row = tables_.assignments.find(id)) {
    const bool asks = update.phase == WorkloadPhase::kQuotaReserved ||
                      (update.phase == WorkloadPhase::kAdmitted && !row->holds()) ||
                      (update.phase == WorkloadPhase::kEvicting && row->state == AssignmentState::kReleased);
    if (asks && row->state != AssignmentState::kShort) scratch_.changed.insert(id);
  }
}

/// Admission published an earlier attempt: its database lost the later one. The latest assignment is
/// published, so that admission continues after it.
void Observations::answer_outdated(const AttemptId& newest) {
  const Workload& workload = *tables_.workloads.find(newest.uid);
  const bool asks = workload.phase == WorkloadPhase::kQuotaReserved || workload.phase == WorkloadPhase::kAdmitted;
  if (tables_.assignments.contains(newest)) {
    scratch_.changed.insert(newest);
  } else if (!asks) {  // otherwise this step creates an assignment
    Assignment released = assignment_for(workload.spec);
    released.state = AssignmentState::kReleased;
    released.decided = released.ended = scratch_.now;
    rows_.store(newest, std::move(released));
  }
}

// ---- health, drains, devices, effects ----

NodeCordonCauses Observations::cordon_causes(const NodeName& node) const {
  const NodeCordonCauses* row = tables_.cordon_causes.find(node);
  return row == nullptr ? NodeCordonCauses{} : *row;
}

void Observations::set_cordon_causes(const NodeName& node, NodeCordonCauses causes) {
  if (causes == cordon_causes(node)) return;
  if (causes == NodeCordonCauses{}) {
    tables_.cordon_causes.erase(node);
  } else {
    tables_.cordon_causes.insert(node, std::move(causes));
  }
  scratch_.nodes.insert(node);
}

void Observations::apply(const HealthUpdated& update) {
  NodeCordonCauses next = cordon_causes(update.node);
  scratch_.health_before.try_emplace(update.node, next.health);
  next.health = update.mark;
  if (!update.mark) next.overridden.reset();
  set_cordon_causes(update.node, std::move(next));
}

void Observations::apply(const DrainUpdated& update) {
  NodeCordonCauses next = cordon_causes(update.node);
  // Requested again, by an autoscaler whose database lost the first request: it waits for a later state of
  // the node.
  if (update.mark && next.drain == update.mark) scratch_.node_changed.insert(update.node);
  next.drain = update.mark;
  set_cordon_causes(update.node, std::move(next));
}

void Observations::apply(const DevicesObserved& update) {
  const Observation* old = tables_.observations.find(update.node);
  if (old != nullptr && (*old == update.seen || update.seen.at < old->at)) return;
  tables_.observations.insert(update.node, update.seen);
  scratch_.nodes.insert(update.node);
  scratch_.observed.insert(update.node);
}

void Observations::apply(const BindFinished& ended) {
  if (!ended.error) return;  // the watch shows the pod on its node
  ++scratch_.out.notes.intents_failed;
  // Gone or replaced: the watch reports it, and the next pod of the member is bound. All other errors need a
  // new attempt.
  if (ended.error->code == Code::kNotFound || ended.error->code == Code::kFailedPrecondition) return;
  const Assignment* row = tables_.assignments.find(ended.attempt);
  if (row == nullptr || !row->holds()) return;
  Assignment next = *row;
  for (const Member& member : row->members) {
    if (member.pod_uid != ended.pod_uid || member.bound != Instant{}) continue;
    rows_.request_eviction(ended.attempt, next,
                           {"BindFailed", fmt::format("pod {} cannot be bound: {}", member.pod, ended.error->message),
                            scratch_.now, member.node, false});
  }
  rows_.store(ended.attempt, std::move(next));
}

void Observations::apply(const IntentFailed&) { ++scratch_.out.notes.intents_failed; }

void Observations::apply(const NodeReportUpdated& update) {
  const NodeReport* old = tables_.report.find(update.node);
  if (!update.report) {
    if (old != nullptr) tables_.report.erase(update.node);
    return;
  }
  NodeReport report = allowed(*update.report);
  if (old != nullptr ? *old == report : report == NodeReport{}) return;
  tables_.report.insert(update.node, report);
  // An unknown node has no object yet; the report is written when the node is added.
  if (tables_.nodes.contains(update.node)) state_.send(MarkNode{update.node, std::move(report)});
}

void Observations::apply(const OrderLayouts& asked) { orders_.order_layouts(asked); }

// ---- storage ----

/// Retries pending workloads. An object of one pod affects only that pod's workload, which is evaluated
/// again.
void Observations::retry_for(const std::string& key) {
  const auto* claim = storage_row<Claim>(tables_, key);
  if (const auto* volume = storage_row<Volume>(tables_, key))
    claim = storage_row<Claim>(tables_, "claim/" + volume->claim);
  const Pod* pod = claim == nullptr || claim->made_for.empty() ? nullptr : tables_.pods.find(claim->made_for);
  scratch_.capacity_added = scratch_.capacity_added || pod == nullptr;
  if (pod != nullptr) {
    for (const WorkloadUid& uid : reconcile_for(pod->facts))
      scratch_.capacity_added = scratch_.capacity_added || index_.without_placement.contains(uid);
  }
  if (storage_row<StorageClass>(tables_, key) == nullptr) return;
  for (const auto& [uid, pods] : index_.pods_with_rules) {
    for (const AttemptId& id : pods_.attempts_of(uid)) scratch_.attempts.insert(id);
  }
}

void Observations::apply(const StorageUpdated& seen) {
  const Storage* old = tables_.storage.find(seen.key);
  if (old != nullptr && *old == seen.what) return;
  tables_.storage.insert(seen.key, seen.what);
  retry_for(seen.key);
}

void Observations::apply(const StorageDeleted& gone) {
  if (!tables_.storage.contains(gone.key)) return;
  tables_.storage.erase(gone.key);
  if (gone.key.starts_with(kAttachLimits))
    scratch_.capacity_added = true;  // a driver without a reported limit has none
}

void Observations::apply(const StorageSynced& synced) {
  std::vector<std::string> gone;
  for (const auto& [key, what] : tables_.storage) {
    if (key.starts_with(synced.kind + "/") && !synced.keys.contains(key)) gone.push_back(key);
  }
  for (const std::string& key : gone) apply(StorageDeleted{key});
  if (state_.meta().storage_listed.contains(synced.kind)) return;
  tables_.meta.edit(0).storage_listed.insert(synced.kind);
  scratch_.capacity_added = true;
}

}  // namespace qm::placement
