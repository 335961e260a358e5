// Rows and their derived state: indexes, free capacity, marks.
#include "engine/rows.hpp"

#include "qm/base/assert.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/placement/ownership.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

template <class Key, class Value>
void put(std::map<Key, std::set<Value>>& index, const Key& key, const Value& value, bool add) {
  if (add) {
    index[key].insert(value);
  } else if (auto it = index.find(key); it != index.end()) {
    it->second.erase(value);
    if (it->second.empty()) index.erase(it);
  }
}

template <class Key>
void put(std::set<Key>& index, const Key& key, bool add) {
  if (add) {
    index.insert(key);
  } else {
    index.erase(key);
  }
}

/// Whether the rules of some pods depend on other pods.
bool has_inter_pod_rules(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets, [](const PodSet& set) {
    const auto like = set.rules.empty() ? std::nullopt : rules::template_of(set.rules);
    return like && (!like->rules.affinity.empty() || !like->rules.anti_affinity.empty() || !like->rules.spread.empty());
  });
}

/// Whether the row has a timer: a reservation that may expire, or an ended row that will be deleted.
bool is_timed(const Assignment& row) { return row.holds() ? row.expires != Instant{} : row.ended != Instant{}; }

}  // namespace

void Rows::index_assignment(const AttemptId& id, const Assignment* row, bool add) {
  for (std::size_t i = 0; row->holds() && i < row->members.size(); ++i) {
    if (row->members[i].live()) put(index_.members, row->members[i].node, MemberRef(id, i), add);
  }
  if (is_timed(*row))
    put(index_.timed, std::pair(row->holds() ? row->expires : row->ended + options_.keep_ended, id), add);
}

void Rows::index_pod(const Pod& pod, bool add) {
  if (!pod.facts.node.empty() && !pod.facts.terminal()) put(index_.pods, pod.facts.node, pod.facts.uid, add);
  if (!pod.facts.ours) return;
  for (const WorkloadUid& uid : named_by(pod.facts)) {
    put(index_.naming, uid, pod.facts.uid, add);
    if (!pod.facts.node.empty() || pod.facts.rules.empty()) continue;
    auto& pods_with_rules = index_.pods_with_rules[uid];
    pods_with_rules += add ? 1 : -1;
    if (pods_with_rules == 0) index_.pods_with_rules.erase(uid);
  }
}

void Rows::index_workload(const WorkloadUid& uid) {
  const Workload* workload = tables_.workloads.find(uid);
  bool wants = false, grows = false;
  if (workload != nullptr) {
    const AttemptId id{uid, workload->attempt};
    const Assignment* row = tables_.assignments.find(id);
    const bool may = workload->phase == WorkloadPhase::kQuotaReserved || workload->phase == WorkloadPhase::kAdmitted;
    wants = may && (row == nullptr || row->state == AssignmentState::kShort);
    grows = may && row != nullptr && row->holds() && !row->eviction && is_elastic(row->pod_sets) &&
            attempts_.has_missing(id, *row);
  }
  put(index_.without_placement, uid, wants);
  put(index_.below_size, uid, grows);
  const bool lacks_nodes = grows && !workload->unplaced.by_set.empty();
  if (index_.unplaced.contains(uid) != lacks_nodes) scratch_.demand = true;
  put(index_.unplaced, uid, lacks_nodes);
  put(index_.affinity_waiters, uid, wants && has_inter_pod_rules(workload->spec.pod_sets));
  put(index_.short_of, uid, workload != nullptr && workload->short_since != Instant{});
  const bool waits =
      workload != nullptr && workload->short_since != Instant{} && workload->phase == WorkloadPhase::kPending;
  put(index_.pending_with_rules, uid, waits && has_inter_pod_rules(workload->spec.pod_sets));
  put(index_.requeueable, uid, workload != nullptr && workload->fits_since != Instant{});
  if (const auto kept = index_.kept_for.find(uid); kept != index_.kept_for.end() && !attempts_.awaits_nodes(uid))
    scratch_.nodes.insert(kept->second.begin(), kept->second.end());
}

void Rows::index_repartition(const NodeName& name, const Repartition& row, bool add) {
  if (!row.reserved_for || !row.reserved_for->waits) return;
  const auto& [uid, places, waits] = *row.reserved_for;
  if (!add) return index_.reservations.erase(HoldSource::kRepartition, uid, name);
  const Instant until = row.order && row.order->phase == relayout::Phase::kDone
                            ? row.order->since + options_.mig_repartition.held
                            : Instant::max();
  index_.reservations.put(HoldSource::kRepartition, uid, name, {{uid, places, {}, false, until}});
}

void Rows::index_kept(const NodeName& name, const Node& row, bool add) {
  if (!row.kept) return;
  if (add) {
    index_.kept.emplace(name, row.kept_since == Instant{} ? Instant::max() : row.kept_since + options_.launch_hold);
  } else {
    index_.kept.erase(name);
  }
  for (const WorkloadUid& uid : row.facts.launched_for) put(index_.kept_for, uid, name, add);
}

void Rows::index_proposal(const WorkloadUid& uid, const Proposal& row, bool add) {
  if (!row.is_active()) return;
  put(index_.with_proposal, uid, add);
  if (add) {
    put_reservations(index_.reservations, uid, row);
  } else {
    index_.reservations.erase(HoldSource::kProposal, uid);
  }
}

void Rows::put_proposal(const WorkloadUid& uid, Proposal next) {
  std::set<NodeName> nodes;
  if (const Proposal* old = tables_.proposals.find(uid)) {
    if (old->is_active()) nodes = old->nodes();
    index_proposal(uid, *old, false);
  }
  const Proposal& row = tables_.proposals.insert(uid, std::move(next));
  index_proposal(uid, row, true);
  if (row.is_active()) nodes.merge(row.nodes());
  for (const NodeName& name : nodes) refresh_capacity(name);
}

void Rows::put_defrag(DefragRun next) {
  auto nodes = index_.reservations.nodes(HoldSource::kDefragmentation);
  put_reservations(index_.reservations, tables_.defrag_run.insert(0, std::move(next)));
  const auto& now = index_.reservations.nodes(HoldSource::kDefragmentation);
  nodes.insert(now.begin(), now.end());
  for (const NodeName& name : nodes) refresh_capacity(name);
}

void Rows::refresh_capacity(const NodeName& name) {
  book_.book_node(name);
  index_.not_ready.erase(name);
  if (const Node* node = tables_.nodes.find(name); node != nullptr && !node->facts.ready)
    index_.not_ready.emplace(name, capacities_.next_loss(name));
  if (!tables_.nodes.contains(name)) {
    index_.free_capacity.erase(name);
    index_.lists.touch(name);
    index_.preference.drop(name);
    return;
  }
  NodeCapacity next = capacities_.capacity_of(name);
  const NodeCapacity& capacity = index_.free_capacity[name];
  const bool more =
      next.usable &&
      (!capacity.usable || next.cpu_milli > capacity.cpu_milli || next.memory_bytes > capacity.memory_bytes ||
       next.gpu_milli() > capacity.gpu_milli() || next.idle_gpus() > capacity.idle_gpus() ||
       next.pods > capacity.pods || next.extended != capacity.extended || next.zones != capacity.zones ||
       next.types != capacity.types || (capacity.gpu_pods && !next.gpu_pods) || (capacity.alone && !next.alone));
  if (tables_.nodes.find(name)->kept) {  // not usable for others, so that it counts as no more capacity
    const auto& holders = tables_.nodes.find(name)->facts.launched_for;
    scratch_.reservation_waiters.insert(holders.begin(), holders.end());
    scratch_.backoff_retries.insert(holders.begin(), holders.end());
  }
  scratch_.capacity_added = scratch_.capacity_added || more;
  scratch_.freed = scratch_.freed || more;
  set_capacity(name, std::move(next));
}

void Rows::set_capacity(const NodeName& name, NodeCapacity capacity) {
  index_.preference.keep(name, *capacity.facts);
  index_.free_capacity[name] = std::move(capacity);
  index_.lists.touch(name);
}

void Rows::reserve_places(const AttemptId& id, std::span<const Member> members) {
  for (const Member& member : members) {
    book_.book_node(member.node);
    index_.lists.touch(member.node);
    // Zones of pods without devices may differ when all pods are counted again in order.
    if (NodeCapacity& capacity = index_.free_capacity.at(member.node);
        !capacity.zones.empty() || is_spare(*capacity.facts))
      capacity = capacities_.capacity_of(member.node);
  }
  scratch_.attempts.insert(id);
}

void Rows::set_short(const WorkloadUid& uid, bool is_short) {
  const Workload& workload = *tables_.workloads.find(uid);
  if ((workload.short_since != Instant{}) == is_short) return;
  tables_.workloads.edit(uid).short_since = is_short ? scratch_.now : Instant{};
  index_workload(uid);
  scratch_.demand = true;
}

void Rows::refresh_scores() {
  if (index_.preference.has_drifted()) tables_.mix.insert(0, index_.preference.known());
  if (const DemandMix* mix = tables_.mix.find(0)) index_.preference.weigh(*mix);
}

void Rows::store(const AttemptId& id, Assignment next) {
  const Assignment* old = tables_.assignments.find(id);
  if (old != nullptr && *old == next) return;
  for (const Assignment* row : {old, static_cast<const Assignment*>(&next)}) {
    if (row == nullptr) continue;
    for (const Member& member : row->members) scratch_.nodes.insert(member.node);
  }
  if (old != nullptr) index_assignment(id, old, false);
  const Assignment& row = tables_.assignments.insert(id, std::move(next));
  index_assignment(id, &row, true);
  index_workload(id.uid);
  scratch_.changed.insert(id);
}

void Rows::forget(const AttemptId& id) {
  Assignment last = *tables_.assignments.find(id);
  ++last.revision;
  QM_ASSERT(!last.holds(), "attempt {} is forgotten while it holds devices", id.to_string());
  index_assignment(id, &last, false);
  tables_.assignments.erase(id);
  scratch_.changed.erase(id);
  scratch_.evictions.erase(id);
  if (last.eviction) scratch_.out.events.push_back(EvictionRequested{id, *last.eviction, true});
  scratch_.out.events.push_back(AssignmentChanged{id, std::move(last), true});
}

void Rows::request_eviction(const AttemptId& id, Assignment& next, EvictionRequest ask) {
  const bool saving = next.eviction && next.eviction->save_until != Instant{};
  const bool stronger =
      next.eviction && ((ask.pods_lost && !next.eviction->pods_lost) || (saving && ask.save_until == Instant{}));
  if (next.eviction && !stronger) return;
  if (attempts_.ending_of(id) != Ending::kNone) return;  // its eviction is in progress
  next.eviction = std::move(ask);
  scratch_.evictions.insert(id);
}

void Rows::store_repartition(const NodeName& name, Repartition next) {
  const Repartition* old = tables_.repartitions.find(name);
  if (next.wake != Instant{}) {
    index_.with_layout_timer.insert(name);
  } else {
    index_.with_layout_timer.erase(name);
  }
  if (old != nullptr) index_repartition(name, *old, false);
  index_repartition(name, next, true);
  if (next == Repartition{}) {
    if (old != nullptr) tables_.repartitions.erase(name);
  } else if (old == nullptr || *old != next) {
    tables_.repartitions.insert(name, std::move(next));
  }
}

void Rows::index_rows() {
  for (const auto& [id, row] : tables_.assignments) index_assignment(id, &row, true);
  for (const auto& [uid, pod] : tables_.pods) index_pod(pod, true);
  for (const auto& [uid, row] : tables_.proposals) index_proposal(uid, row, true);
  put_reservations(index_.reservations, state_.defrag_run());
  for (const auto& [uid, workload] : tables_.workloads) {
    index_workload(uid);
    index_.preference.count(workload.spec.pod_sets, 1);
  }
  for (const auto& [name, repartition] : tables_.repartitions) {
    put(index_.with_layout_timer, name, repartition.wake != Instant{});
    index_repartition(name, repartition, true);
  }
  for (const auto& [name, node] : tables_.nodes) {
    if (!node.facts.ready) index_.not_ready.emplace(name, capacities_.next_loss(name));
    index_kept(name, node, true);
    index_.preference.keep(name, node.facts);
  }
}

void Rows::rebuild() {
  index_ = Index();
  index_.preference = Preference(options_.policy);
  index_.book->keep(std::string(kHostname));
  for (const std::string& label : options_.topology) index_.book->keep(label);
  index_rows();
  for (const auto& [name, node] : tables_.nodes) {
    set_capacity(name, capacities_.capacity_of(name));
    book_.book_node(name);
  }
  if (const DemandMix* mix = tables_.mix.find(0)) index_.preference.weigh(*mix);
}

}  // namespace qm::placement
