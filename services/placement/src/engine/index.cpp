// Derived indexes, laws and digest.
#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/placement/engine.hpp"
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

void Engine::index_assignment(const AttemptId& id, const Assignment* row, bool add) {
  for (std::size_t i = 0; row->holds() && i < row->members.size(); ++i) {
    if (row->members[i].live()) put(index_.members, row->members[i].node, MemberRef(id, i), add);
  }
  if (is_timed(*row))
    put(index_.timed, std::pair(row->holds() ? row->expires : row->ended + options_.keep_ended, id), add);
}

void Engine::index_pod(const Pod& pod, bool add) {
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

void Engine::index_workload(const WorkloadUid& uid) {
  const Workload* workload = tables_.workloads.find(uid);
  bool wants = false, grows = false;
  if (workload != nullptr) {
    const AttemptId id{uid, workload->attempt};
    const Assignment* row = tables_.assignments.find(id);
    const bool may = workload->phase == WorkloadPhase::kQuotaReserved || workload->phase == WorkloadPhase::kAdmitted;
    wants = may && (row == nullptr || row->state == AssignmentState::kShort);
    grows =
        may && row != nullptr && row->holds() && !row->eviction && is_elastic(row->pod_sets) && has_missing(id, *row);
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
}

void Engine::index_repartitioned_for(const WorkloadUid& uid, const NodeName& name, bool add) {
  put(index_.repartitioned_for, uid, name, add);
}

Engine::Index Engine::build_index() const {
  Engine fresh(options_);  // uses the functions that maintain the index, over all rows
  fresh.tables_ = tables_;
  for (const auto& [id, row] : tables_.assignments) fresh.index_assignment(id, &row, true);
  for (const auto& [uid, pod] : tables_.pods) fresh.index_pod(pod, true);
  for (const auto& [uid, row] : tables_.proposals) fresh.index_proposal(uid, row, true);
  fresh.index_.defrag_nodes = held_nodes(defrag_run());
  for (const auto& [uid, workload] : tables_.workloads) {
    fresh.index_workload(uid);
    fresh.index_.preference.count(workload.spec.pod_sets, 1);
  }
  for (const auto& [name, node] : tables_.nodes) {
    if (!node.facts.ready) fresh.index_.not_ready.emplace(name, fresh.next_loss(name));
    fresh.index_.preference.keep(name, node.facts);
  }
  for (const auto& [name, repartition] : tables_.repartitions) {
    put(fresh.index_.with_layout_timer, name, repartition.wake != Instant{});
    if (repartition.reserved_for && repartition.reserved_for->waits)
      fresh.index_repartitioned_for(repartition.reserved_for->uid, name, true);
  }
  return std::move(fresh.index_);
}

void Engine::rebuild() {
  index_ = Index();
  index_.preference = Preference(options_.policy);
  index_.book->keep(std::string(kHostname));
  for (const std::string& label : options_.topology) index_.book->keep(label);
  for (const auto& [id, row] : tables_.assignments) index_assignment(id, &row, true);
  for (const auto& [uid, pod] : tables_.pods) index_pod(pod, true);
  for (const auto& [uid, row] : tables_.proposals) index_proposal(uid, row, true);
  index_.defrag_nodes = held_nodes(defrag_run());
  for (const auto& [uid, workload] : tables_.workloads) {
    index_workload(uid);
    index_.preference.count(workload.spec.pod_sets, 1);
  }
  for (const auto& [name, repartition] : tables_.repartitions) {
    put(index_.with_layout_timer, name, repartition.wake != Instant{});
    if (repartition.reserved_for && repartition.reserved_for->waits)
      index_repartitioned_for(repartition.reserved_for->uid, name, true);
  }
  for (const auto& [name, node] : tables_.nodes) {
    if (!node.facts.ready) index_.not_ready.emplace(name, next_loss(name));
    set_capacity(name, capacity_of(name));
    book_node(name);
  }
  if (const DemandMix* mix = tables_.mix.find(0)) index_.preference.weigh(*mix);
}

// ---- laws ----

void Engine::check_node(const NodeName& name) const {
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return;
  std::map<std::int32_t, std::int64_t> used;
  for (const auto& [id, position] : on_node->second) {
    for (const DeviceRef& device : tables_.assignments.find(id)->members[position].devices) {
      QM_ASSERT(device.node == name, "attempt {} has a device of {} on {}", id.to_string(), device.node, name);
      used[device.index] += device.milli;
    }
  }
  for (const auto& [device, milli] : used) {
    QM_ASSERT(milli <= 1000, "GPU {} of node {} is planned to {} milli", device, name, milli);
  }
  QM_ASSERT(tables_.nodes.contains(name), "node {} is gone and has live members", name);
}

void Engine::check_assignment(const AttemptId& id, const Assignment& row) const {
  if (!row.holds()) {
    QM_ASSERT(std::ranges::none_of(row.members, [](const Member& m) { return m.live(); }),
              "attempt {} is {} and has live members", id.to_string(), name_of(row.state));
    return;
  }
  QM_ASSERT(row.eviction || ending_of(id) != Ending::kNone || has_minimum(id, row),
            "attempt {} runs with fewer than its minimum", id.to_string());
  std::set<std::pair<std::int32_t, std::int32_t>> ranks;
  for (const Member& member : row.members) {
    const auto& set = row.pod_sets.at(static_cast<std::size_t>(member.set));
    QM_ASSERT(member.index >= 0 && member.index < set.count, "attempt {} has rank {} of {}", id.to_string(),
              member.index, set.count);
    QM_ASSERT(member.lost || ranks.emplace(member.set, member.index).second, "attempt {} has rank {} twice",
              id.to_string(), member.index);
    QM_ASSERT(!member.lost || !member.live(), "attempt {} rank {} is lost and live", id.to_string(), member.index);
    QM_ASSERT(!member.node.empty(), "attempt {} rank {} has no node", id.to_string(), member.index);
    const GpuShape& gpu = row.pod_sets[static_cast<std::size_t>(member.set)].shape.gpu;
    std::int64_t milli = 0;
    for (const DeviceRef& device : member.devices) milli += device.milli;
    QM_ASSERT(milli == gpu.whole * 1000 + gpu.milli, "attempt {} rank {} has {} milli", id.to_string(), member.index,
              milli);
    const bool in_progress = is_elastic(row.pod_sets) && !member.pod_uid.empty();
    QM_ASSERT(row.state != AssignmentState::kBound || member.bound != Instant{} || in_progress,
              "attempt {} is bound without all its pods", id.to_string());
  }
}

void Engine::audit() const {
  QM_ASSERT(index_ == build_index(), "the derived indexes differ from the tables");
  QM_ASSERT(demand_size() == demand().size(), "{} items of demand are counted, and there are {}", demand_size(),
            demand().size());
  for (const auto& [id, row] : tables_.assignments) check_assignment(id, row);
  for (const auto& [name, members] : index_.members) check_node(name);
  // On a copy, since a request updates the lists; and not while hardware shapes are not in the scored mix.
  if (!index_.preference.has_drifted()) Shortlists(index_.lists).audit(index_.free_capacity, index_.preference);
  QM_ASSERT(index_.free_capacity.size() == tables_.nodes.size(), "{} capacities for {} nodes",
            index_.free_capacity.size(), tables_.nodes.size());
  for (const auto& [name, node_capacity] : index_.free_capacity) {
    const auto booked = index_.booked.find(name);
    const auto claims = index_.claims.find(name);
    QM_ASSERT((claims == index_.claims.end() ? std::set<ClaimUse>() : claims->second) == claims_on(name),
              "the claims of node {} differ from those of its pods", name);
    QM_ASSERT(booked != index_.booked.end() && booked->second == booked_pods_on(name),
              "the rule book has other pods on node {} than its rows", name);
    const NodeCapacity now = capacity_of(name);
    QM_ASSERT(node_capacity.facts == &tables_.nodes.find(name)->facts,
              "the free capacity of node {} refers to deleted facts", name);
    QM_ASSERT(node_capacity.number == index_.book->index_of(name) && node_capacity.slices == now.slices,
              "the free capacity of node {} has another number or other GPUs than its node", name);
    QM_ASSERT(now.usable == node_capacity.usable && now.cpu_milli == node_capacity.cpu_milli &&
                  now.memory_bytes == node_capacity.memory_bytes && now.free_milli == node_capacity.free_milli &&
                  now.extended == node_capacity.extended && now.pods == node_capacity.pods &&
                  now.instances == node_capacity.instances && now.zones == node_capacity.zones &&
                  now.types == node_capacity.types && now.gpu_pods == node_capacity.gpu_pods &&
                  now.alone == node_capacity.alone,
              "the cached capacity of node {} differs from its rows", name);
  }
}

// ---- digest ----

namespace {

class Folder {
 public:
  void add(std::string_view text) { digest_.add(static_cast<std::int64_t>(text.size())).add(text); }
  void add(const std::string& text) { add(std::string_view(text)); }
  void add(std::int64_t value) { digest_.add(value); }
  void add(Instant t) { add(micros(t)); }
  template <class Tag>
  void add(const Named<Tag>& id) {
    add(id.value());
  }
  template <class A, class B>
  void add(const std::map<A, B>& map) {
    add(static_cast<std::int64_t>(map.size()));
    for (const auto& [key, value] : map) add(key), add(value);
  }
  template <class T>
  void add(const std::vector<T>& items) {
    add(static_cast<std::int64_t>(items.size()));
    for (const auto& item : items) add(item);
  }
  template <class T>
  void add(const std::optional<T>& item) {
    add(static_cast<std::int64_t>(item.has_value()));
    if (item) add(*item);
  }
  void add(const AttemptId& id) { all(id.uid, id.attempt); }
  void add(const Taint& t) { all(t.key, t.value, t.effect); }
  void add(const Toleration& t) { all(t.key, t.op, t.value, t.effect); }
  void add(const DeviceRef& d) { all(d.node, d.index, d.uuid, d.milli, d.mig_profile); }
  void add(const GpuShape& g) { all(g.whole, g.milli, g.mig_profile, g.mig_count, g.models); }
  void add(const PodShape& s) { all(s.cpu_milli, s.memory_bytes, s.gpu, s.node_selector, s.tolerations, s.extended); }
  void add(const PodSetTopology& t) { all(t.required, t.preferred, t.slice, t.slice_size, t.group, t.exclusive); }
  void add(const PodSet& s) { all(s.name, s.count, s.min_count, s.shape, s.topology, s.rules); }
  void add(const NumaZone& z) { all(z.cpu_milli, z.memory_bytes, z.gpus); }
  void add(const NodeFacts& f) {
    all(f.provider_id, f.instance_type, f.zone, f.capacity_type, f.model, f.labels, f.taints, f.cpu_milli,
        f.memory_bytes, f.gpus, f.gpus_installed, f.extended, f.pods, f.ready, f.unschedulable, f.cordoned_by,
        static_cast<int>(f.numa.policy), f.numa.zones, f.switches);
  }
  void add(const Node& n) {
    all(n.facts, static_cast<int>(n.state), n.since, n.reason, n.pods, n.empty_since, n.not_ready_since, n.cordon_sent);
  }
  void add(const HealthVerdict& m) { all(m.cordon, m.gpu, m.xid, m.reason, m.gpus); }
  void add(const GpuVerdict& m) { all(m.cordon, m.reason, m.at); }
  void add(const DrainRequest& m) { all(m.reason, m.deadline); }
  void add(const NodeCordonCauses& m) { all(m.health, m.drain, m.overridden); }
  void add(const Observation& o) { all(o.at, o.pods); }
  void add(const Pod& p) {
    const PodFacts& f = p.facts;
    all(f.ns, f.name, f.owner, f.attempt, f.pod_set, f.index, f.node, static_cast<int>(f.phase), f.deleting, f.ours,
        f.daemon, f.shape, p.delete_sent, f.rules, f.workload_type, f.controller, f.controller_kind, p.plan.node,
        p.plan.gpus, p.foreign, f.not_ready_s, f.unreachable_s);
  }
  void add(const Workload& w) {
    const WorkloadSpec& s = w.spec;
    all(s.ns, s.name, s.kind, s.queue, s.priority, s.priority_class, s.team, s.pod_sets, s.submitted,
        s.expected_runtime.count(), s.labels, s.checkpoints);
    all(w.attempt, static_cast<int>(w.phase), w.quota_reserved, w.order_reason, w.order_deadline, w.short_since);
    add(static_cast<std::int64_t>(w.done.size()));
    for (const auto& [set, index] : w.done) all(set, index);
    const QuotaFacts& q = w.quota_facts;
    all(q.queue, q.quota_tree, q.own_queue, q.in_tree, q.admitted, q.saved, q.min_runtime_until, q.ended_pods,
        q.queue_position, w.fits_since, w.unplaced.by_set, w.unplaced.since);
  }
  void add(const Member& m) {
    all(m.set, m.index, m.node, m.devices, m.pod, m.pod_uid, m.bind_sent, m.bound, m.released, m.lost);
  }
  void add(const EvictionRequest& e) { all(e.reason, e.message, e.deadline, e.node, e.pods_lost, e.save_until); }
  void add(const Assignment& a) {
    all(a.ns, a.workload, a.team, a.labels, a.pod_sets, static_cast<int>(a.state), a.members, a.short_reason, a.decided,
        a.expires, a.ended, a.confirmed, a.eviction, a.revision, a.rules);
  }
  void add(const Claim& c) { all(c.volume, c.storage_class, c.selected_node, c.one_node, c.made_for); }
  void add(const Volume& v) { all(v.reach, v.driver, v.handle, v.claim); }
  void add(const StorageClass& c) { all(c.waits, c.makes, c.reach, c.driver, c.by_default, c.made); }
  void add(const AttachLimits& l) { add(l.volumes); }
  void add(const Storage& s) {
    add(static_cast<std::int64_t>(s.index()));
    std::visit([this](const auto& what) { add(what); }, s);
  }
  void add(const relayout::Order& o) { all(o.node, o.layout, o.capacity, o.from, o.until); }
  void add(const relayout::Row& r) {
    all(r.order, static_cast<int>(r.phase), r.since, r.previous, r.before, r.reason, r.withdrawn);
  }
  void add(const RepartitionHold& w) { all(w.uid, w.places, w.waits); }
  void add(const Repartition& c) {
    all(c.order, c.by_default, c.written_label, c.asked, c.wake, c.differs_since, c.mismatch, c.reserved_for);
  }
  void add(const mig::Part& p) { all(p.devices, p.enabled, p.instances); }
  void add(const NodeReport& s) { all(s.labels, s.annotations, s.owned_prefixes); }
  void add(const Meta& m) {
    all(m.nodes_synced, m.pods_synced, m.next_intent, m.layout.layout, m.layout.override_label, m.next_proposal,
        m.searched, m.repartition_searched, m.repartition, m.requeue_at, m.requeue_round);
    for (const auto& kind : m.storage_listed) add(kind);
  }
  void add(const PodSize& p) { all(p.cpu_milli, p.devices, p.device_milli, p.models); }
  void add(const NodeShape& m) { all(m.model, m.cpu_milli, m.memory_bytes, m.gpus); }
  void add(const DemandMix& m) { all(m.pods, m.machines); }
  void add(const Proposal::Victim& v) { all(v.id, v.gpu_ms, v.to); }
  void add(const HeldCapacity& p) { all(p.set, p.index, p.node, p.devices); }
  void add(const Proposal& p) {
    all(static_cast<int>(p.state), p.number, p.attempt, p.victims, p.places, p.micro_usd, p.lost_micro_usd, p.made,
        p.published_at, p.publish_count, p.refused, p.refusals, p.next, p.last, p.until, p.move, p.repartitions);
  }
  void add(const DefragStep::Move& m) { all(m.id, m.places, m.gpu_ms, m.lost_micro_usd); }
  void add(const DefragStep& w) { all(w.nodes, w.gpus, w.moves); }
  void add(const DefragRun& t) {
    all(t.steps, t.made, t.nodes, t.gpus, t.moves, t.gpu_ms, t.lost_micro_usd, t.reclaimed, t.next, t.hour, t.asked,
        t.refused, t.last);
  }
  [[nodiscard]] std::uint64_t value() const { return digest_.value(); }

 private:
  template <class... T>
  void all(const T&... values) {
    (add_one(values), ...);
  }
  template <class T>
  void add_one(const T& value) {
    if constexpr (std::is_integral_v<T>) {
      add(static_cast<std::int64_t>(value));
    } else {
      add(value);
    }
  }
  Digest digest_;
};

}  // namespace

std::uint64_t Engine::digest() const {
  Folder folder;
  folder.add(tables_.nodes.rows());
  folder.add(tables_.cordon_causes.rows());
  folder.add(tables_.observations.rows());
  folder.add(tables_.pods.rows());
  folder.add(tables_.storage.rows());
  folder.add(tables_.report.rows());
  folder.add(tables_.workloads.rows());
  folder.add(tables_.assignments.rows());
  folder.add(tables_.repartitions.rows());
  folder.add(tables_.layouts.rows());
  folder.add(static_cast<std::int64_t>(tables_.meta.size()));
  for (const auto& [key, row] : tables_.meta) folder.add(row);
  folder.add(static_cast<std::int64_t>(tables_.mix.size()));
  for (const auto& [key, row] : tables_.mix) folder.add(row);
  folder.add(tables_.proposals.rows());
  folder.add(static_cast<std::int64_t>(tables_.defrag_run.size()));
  for (const auto& [key, row] : tables_.defrag_run) folder.add(row);
  return folder.value();
}

}  // namespace qm::placement
