// Applies observations and evaluates once per batch. The evaluation is in nodes.cpp, reconcile.cpp and
// decide.cpp.
#include "qm/placement/engine.hpp"

#include "qm/base/assert.hpp"
#include "qm/placement/ownership.hpp"

#include <algorithm>

namespace qm::placement {

namespace {
constexpr int kMaxPasses = 8;  // of placements in a step, when held capacity is released
}

Engine::Engine(Options options) : options_(options) { rebuild(); }

const Meta& Engine::meta() const {
  static const Meta none;
  const Meta* row = tables_.meta.find(0);
  return row == nullptr ? none : *row;
}

Output Engine::step(std::span<const Command> batch, Instant now) {
  QM_ASSERT(now >= last_now_, "time went back from {} to {}", micros(last_now_), micros(now));
  undo_now_ = last_now_;
  last_now_ = now;
  scratch_ = {};
  scratch_.now = now;
  for (const Command& command : batch) {
    std::visit([this](const auto& c) { apply(c); }, command);
    ++scratch_.command;
  }
  evaluate();
  return std::move(scratch_.out);
}

void Engine::undo() {
  tables_.each([](auto& table) { table.rollback(); });
  last_now_ = undo_now_;
  rebuild();
}

void Engine::commit() {
  tables_.each([](auto& table) { table.commit(); });
  undo_now_ = last_now_;
}

// ---- commands: store the observation, mark what it affects ----

void Engine::apply(const WatchStarted&) {
  Meta next = meta();
  next.nodes_synced = next.pods_synced = false;
  if (next != meta()) tables_.meta.insert(0, next);
}

void Engine::apply(const NodeUpdated& seen) {
  const Node* old = tables_.nodes.find(seen.node);
  if (old != nullptr && old->facts == seen.facts) return;
  scratch_.capacity_added = scratch_.capacity_added || old == nullptr || old->facts.labels != seen.facts.labels ||
                            old->facts.taints != seen.facts.taints || old->facts.model != seen.facts.model;
  const bool fresh = old == nullptr;
  Node& node = tables_.nodes.edit(seen.node);
  // Our uncordon removes our annotation together with the cordon; kubectl does not. A cordon without the
  // annotation is by another client.
  const bool by_us = !node.facts.cordoned_by.empty() && seen.facts.cordoned_by.empty();
  if (node.facts.unschedulable && !seen.facts.unschedulable && !by_us) scratch_.uncordoned.insert(seen.node);
  node.facts = seen.facts;
  if (fresh) node.cordon_sent = !seen.facts.cordoned_by.empty();  // ordered before this row existed
  if (const NodeReport* report = tables_.report.find(seen.node); fresh && report != nullptr)
    send(MarkNode{seen.node, *report});
  scratch_.nodes.insert(seen.node);
  scratch_.node_changed.insert(seen.node);
}

void Engine::apply(const NodeDeleted& gone) { remove_node(gone.node); }

void Engine::apply(const NodesSynced& synced) {
  std::vector<NodeName> gone;
  for (const auto& [name, node] : tables_.nodes) {
    if (!synced.nodes.contains(name)) gone.push_back(name);
  }
  for (const NodeName& name : gone) remove_node(name);
  if (meta().nodes_synced) return;
  tables_.meta.edit(0).nodes_synced = true;
  scratch_.capacity_added = true;
}

void Engine::apply(const PodUpdated& seen) {
  const PodFacts& facts = seen.pod;
  const Pod* old = tables_.pods.find(facts.uid);
  if (old != nullptr && old->facts == facts) return;
  const bool fresh = old == nullptr;
  Pod next = old != nullptr ? *old : Pod{};
  next.facts = facts;
  if (old != nullptr) {
    index_pod(*old, false);
    if (!old->facts.node.empty()) scratch_.nodes.insert(old->facts.node);
    reconcile_for(old->facts);
  }
  index_pod(tables_.pods.insert(facts.uid, std::move(next)), true);
  if (!facts.node.empty()) scratch_.nodes.insert(facts.node);
  for (const WorkloadUid& uid : reconcile_for(facts)) {
    if (fresh && facts.attempt < tables_.workloads.find(uid)->attempt) ++scratch_.out.notes.stale;
  }
  scratch_.named.insert(facts.uid);
}

void Engine::apply(const PodDeleted& gone) { remove_pod(gone.uid); }

void Engine::remove_pod(const std::string& uid) {
  const Pod* old = tables_.pods.find(uid);
  if (old == nullptr) return;
  const PodFacts facts = old->facts;
  index_pod(*old, false);
  tables_.pods.erase(uid);
  if (!facts.node.empty()) scratch_.nodes.insert(facts.node);
  reconcile_for(facts);
}

void Engine::apply(const PodsSynced& synced) {
  std::vector<std::string> gone;
  for (const auto& [uid, pod] : tables_.pods) {
    if (!synced.uids.contains(uid)) gone.push_back(uid);
  }
  for (const std::string& uid : gone) remove_pod(uid);
  if (meta().pods_synced) return;
  tables_.meta.edit(0).pods_synced = true;
  scratch_.capacity_added = true;
}

void Engine::apply(const WorkloadUpdated& update) {
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
  index_workload(uid);
  if (const auto naming = index_.naming.find(uid); old == nullptr && naming != index_.naming.end()) {
    for (const std::string& pod_uid : std::set(naming->second)) {
      reconcile_for(tables_.pods.find(pod_uid)->facts);
      scratch_.named.insert(pod_uid);
    }
  }
  wake_repartitions(uid);
  on_answer(update);

  const AttemptId id{uid, update.attempt};
  scratch_.attempts.insert(id);
  for (const AttemptId& other : attempts_of(uid)) scratch_.attempts.insert(other);
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
void Engine::answer_outdated(const AttemptId& newest) {
  const Workload& workload = *tables_.workloads.find(newest.uid);
  const bool asks = workload.phase == WorkloadPhase::kQuotaReserved || workload.phase == WorkloadPhase::kAdmitted;
  if (tables_.assignments.contains(newest)) {
    scratch_.changed.insert(newest);
  } else if (!asks) {  // otherwise this step creates an assignment
    Assignment released = assignment_for(workload.spec);
    released.state = AssignmentState::kReleased;
    released.decided = released.ended = scratch_.now;
    store(newest, std::move(released));
  }
}

void Engine::apply(const HealthUpdated& update) {
  const NodeCordonCauses* old = tables_.cordon_causes.find(update.node);
  NodeCordonCauses next = old == nullptr ? NodeCordonCauses{} : *old;
  scratch_.health_before.try_emplace(update.node, next.health);
  next.health = update.mark;
  if (!update.mark) next.overridden.reset();
  if (old != nullptr ? *old == next : next == NodeCordonCauses{}) return;
  if (next == NodeCordonCauses{}) {
    tables_.cordon_causes.erase(update.node);
  } else {
    tables_.cordon_causes.insert(update.node, next);
  }
  scratch_.nodes.insert(update.node);
}

void Engine::apply(const DrainUpdated& update) {
  const NodeCordonCauses* old = tables_.cordon_causes.find(update.node);
  NodeCordonCauses next = old == nullptr ? NodeCordonCauses{} : *old;
  next.drain = update.mark;
  // Requested again, by an autoscaler whose database lost the first request: it waits for a later state of
  // the node.
  if (old != nullptr && *old == next && update.mark) scratch_.node_changed.insert(update.node);
  if (old != nullptr ? *old == next : next == NodeCordonCauses{}) return;
  if (next == NodeCordonCauses{}) {
    tables_.cordon_causes.erase(update.node);
  } else {
    tables_.cordon_causes.insert(update.node, next);
  }
  scratch_.nodes.insert(update.node);
}

void Engine::apply(const DevicesObserved& update) {
  const Observation* old = tables_.observations.find(update.node);
  if (old != nullptr && (*old == update.seen || update.seen.at < old->at)) return;
  tables_.observations.insert(update.node, update.seen);
  scratch_.nodes.insert(update.node);
  scratch_.observed.insert(update.node);
}

void Engine::apply(const BindFinished& ended) {
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
    request_eviction(ended.attempt, next,
                     {"BindFailed", fmt::format("pod {} cannot be bound: {}", member.pod, ended.error->message),
                      scratch_.now, member.node, false});
  }
  store(ended.attempt, std::move(next));
}

void Engine::apply(const IntentFailed&) { ++scratch_.out.notes.intents_failed; }

// ---- the evaluation ----

void Engine::evaluate() {
  const auto settle_all = [this] {
    while (!scratch_.attempts.empty()) {
      const AttemptId id = *scratch_.attempts.begin();
      scratch_.attempts.erase(scratch_.attempts.begin());
      reconcile(id);
    }
  };
  for (const std::string& pod : scratch_.named) report_foreign(pod);
  for (const auto& [name, due] : index_.not_ready) {
    if (due <= scratch_.now) scratch_.nodes.insert(name);
  }
  for (const auto& [due, id] : index_.timed) {
    if (due > scratch_.now) break;
    scratch_.attempts.insert(id);
  }
  for (const NodeName& name : index_.with_layout_timer) {
    if (tables_.repartitions.find(name)->wake <= scratch_.now) scratch_.nodes.insert(name);
  }
  std::set<NodeName> seen;
  const auto evaluate_nodes = [this, &seen] {
    const auto names = std::exchange(scratch_.nodes, {});
    for (const NodeName& name : names) evaluate_node(name);
    seen.insert(names.begin(), names.end());
  };
  evaluate_nodes();
  settle_all();
  evaluate_nodes();
  recheck_proposals(seen);
  // A placement may release capacity in the same step: that of ranks that have succeeded.
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    scratch_.freed = false;
    decide_pending();
    if (pass == 0) advance_proposals();
    for (int again = 0; again < kMaxPasses && std::exchange(scratch_.holds_released, false); ++again) decide_pending();
    settle_all();
    evaluate_nodes();
    if (!scratch_.freed) break;
  }
  repartition();
  evaluate_nodes();
  propose();
  run_defrag();
  seen.insert(scratch_.nodes.begin(), scratch_.nodes.end());
  for (const NodeName& name : scratch_.nodes) refresh_capacity(name);
  offer_to_pending();
  for (const NodeName& name : seen) publish_status(name);

  // Publish complete states, once per key.
  auto& events = scratch_.out.events;
  for (const bool holding : {false, true}) {  // publish releases before reservations
    for (const AttemptId& id : scratch_.changed) {
      const Assignment* row = tables_.assignments.find(id);
      if (row == nullptr || row->holds() != holding) continue;
      check_assignment(id, *row);
      ++tables_.assignments.edit(id).revision;
      events.push_back(AssignmentChanged{id, *row, false});
    }
  }
  for (const AttemptId& id : scratch_.evictions) {
    const Assignment* row = tables_.assignments.find(id);
    if (row != nullptr && row->eviction) events.push_back(EvictionRequested{id, *row->eviction, false});
  }
  for (const NodeName& name : scratch_.node_changed) {
    if (const Node* node = tables_.nodes.find(name)) events.push_back(NodeChanged{name, *node, false});
  }
  if (scratch_.demand) events.push_back(DemandChanged{demand()});
  if (scratch_.requeue) events.push_back(RequeueChanged{requeue()});
  for (const NodeName& name : seen) check_node(name);
  scratch_.out.wake_at = next_timer();
}

std::optional<Instant> Engine::next_timer() const {
  static const std::set<WorkloadUid> kNoWorkloads;
  std::optional<Instant> next;
  const auto at = [&](Instant t) {
    if (!next || t < *next) next = t;
  };
  for (const auto& [name, due] : index_.not_ready) {
    if (due != Instant::max()) at(due);
  }
  for (const NodeName& name : index_.with_layout_timer) at(tables_.repartitions.find(name)->wake);
  if (synced() && meta().requeue_at != Instant{}) at(meta().requeue_at);
  for (const auto& [due, id] : index_.timed) {
    if (due <= last_now_ && !tables_.assignments.find(id)->holds()) continue;  // kept by its pods
    at(due);
    break;
  }
  for (const WorkloadUid& uid : index_.with_proposal) {
    const Proposal& row = *tables_.proposals.find(uid);
    if (row.state == ProposalState::kProposed) at(row.published_at + options_.preemption.answer);
    if (row.state == ProposalState::kRecovering) at(row.until);
    if (row.state == ProposalState::kAccepted && row.move) at(row.published_at + options_.defrag.settle);
  }
  if (options_.defrag.on && synced() && !defrag_run().is_active())
    at(std::max(defrag_run().next, last_now_ + Duration(1)));
  for (const WorkloadUid& uid : options_.preemption.on&& synced() ? index_.without_placement : kNoWorkloads) {
    const auto search = may_search_at(uid);
    if (search) at(std::max({*search, meta().searched + options_.preemption.every, last_now_ + Duration(1)}));
  }
  for (const WorkloadUid& uid : options_.mig_repartition.on&& synced() ? index_.short_of : kNoWorkloads) {
    const auto search = may_repartition_at(uid);
    if (search)
      at(std::max({*search, meta().repartition_searched + options_.mig_repartition.every, last_now_ + Duration(1)}));
  }
  return next;
}

void Engine::send(Effect what) {
  Meta& meta = tables_.meta.edit(0);
  scratch_.out.intents.push_back({meta.next_intent++, std::move(what)});
}

/// False while a preemption or a MIG repartition for the short workload is in progress.
bool Engine::requests_nodes(const WorkloadUid& uid) const {
  const Proposal* proposal = tables_.proposals.find(uid);
  const bool preempts = proposal != nullptr && proposal->state == ProposalState::kAccepted;
  return !preempts && !index_.repartitioned_for.contains(uid);
}

std::size_t Engine::demand_size() const {
  const auto pending = std::ranges::count_if(index_.short_of, [this](const auto& uid) { return requests_nodes(uid); });
  return static_cast<std::size_t>(pending) + index_.unplaced.size();
}

std::vector<DemandItem> Engine::demand() const {
  std::vector<DemandItem> items;
  for (const WorkloadUid& uid : index_.short_of) {
    if (!requests_nodes(uid)) continue;
    const Workload& workload = *tables_.workloads.find(uid);
    items.push_back({{uid, workload.attempt},
                     missing_of(uid),
                     workload.spec.priority,
                     workload.short_since,
                     workload.spec.checkpoints});
  }
  for (const WorkloadUid& uid : index_.unplaced) {
    const Workload& workload = *tables_.workloads.find(uid);
    items.push_back({{uid, workload.attempt},
                     unplaced_pods(uid),
                     workload.spec.priority,
                     workload.unplaced.since,
                     workload.spec.checkpoints,
                     true});
  }
  return items;
}

std::vector<RequeueItem> Engine::requeue() const {
  std::vector<std::tuple<std::int64_t, Instant, AttemptId>> order;
  for (const WorkloadUid& uid : index_.requeueable) {
    const Workload& workload = *tables_.workloads.find(uid);
    order.emplace_back(-std::int64_t{workload.spec.priority}, workload.fits_since, AttemptId{uid, workload.attempt});
  }
  std::ranges::sort(order);
  std::vector<RequeueItem> items;
  for (auto& [priority, since, id] : order) items.push_back({std::move(id), since});
  return items;
}

}  // namespace qm::placement
