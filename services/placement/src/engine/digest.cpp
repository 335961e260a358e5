// Digest of the rows: equal histories give equal digests.
#include "engine/digest.hpp"

#include "qm/base/digest.hpp"

namespace qm::placement {
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
        static_cast<int>(f.numa.policy), f.numa.zones, f.switches, f.launched_for);
  }
  void add(const Node& n) {
    all(n.facts, static_cast<int>(n.state), n.since, n.reason, n.pods, n.empty_since, n.not_ready_since, n.cordon_sent,
        n.kept_since, n.kept);
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
        s.expected_runtime.count(), s.labels, s.checkpoints, s.checkpoint.interval.count(), s.checkpoint.steps,
        s.checkpoint.quorum, s.checkpoint.expected.count(), s.checkpoint.uri);
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

std::uint64_t digest_of(const Tables& tables) {
  Folder folder;
  folder.add(tables.nodes.rows());
  folder.add(tables.cordon_causes.rows());
  folder.add(tables.observations.rows());
  folder.add(tables.pods.rows());
  folder.add(tables.storage.rows());
  folder.add(tables.report.rows());
  folder.add(tables.workloads.rows());
  folder.add(tables.assignments.rows());
  folder.add(tables.repartitions.rows());
  folder.add(tables.layouts.rows());
  folder.add(static_cast<std::int64_t>(tables.meta.size()));
  for (const auto& [key, row] : tables.meta) folder.add(row);
  folder.add(static_cast<std::int64_t>(tables.mix.size()));
  for (const auto& [key, row] : tables.mix) folder.add(row);
  folder.add(tables.proposals.rows());
  folder.add(static_cast<std::int64_t>(tables.defrag_run.size()));
  for (const auto& [key, row] : tables.defrag_run) folder.add(row);
  return folder.value();
}

}  // namespace qm::placement
