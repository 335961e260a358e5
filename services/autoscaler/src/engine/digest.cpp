#include "qm/base/digest.hpp"

#include "consolidation/digest.hpp"
#include "replicas/digest.hpp"
#include "tables.hpp"

#include <concepts>
#include <type_traits>

namespace qm::autoscaler {
namespace {

/// Adds values of all kinds to the digest, each table followed by its size.
class Folder {
 public:
  template <class... Parts>
  void all(const Parts&... parts) {
    (add(parts), ...);
  }
  [[nodiscard]] std::uint64_t value() const { return digest_.value(); }

  template <class Key, class Row>
  void add(const Table<Key, Row>& table) {
    digest_.add(static_cast<std::int64_t>(table.size()));
    for (const auto& [key, row] : table) all(key, row);
  }

 private:
  void add(const std::string& text) { digest_.add(text); }
  template <class Tag>
  void add(const Named<Tag>& name) {
    digest_.add(name.value());
  }
  void add(std::int64_t n) { digest_.add(n); }
  void add(Instant t) { digest_.add(micros(t)); }
  void add(Duration d) { digest_.add(static_cast<std::int64_t>(d.count())); }
  void add(const std::optional<Instant>& t) { digest_.add(t ? micros(*t) : std::int64_t{-1}); }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void add(Enum value) { digest_.add(static_cast<std::int64_t>(value)); }
  void add(const AttemptId& id) { all(id.uid, id.attempt); }
  template <class A, class B>
  void add(const std::pair<A, B>& pair) {
    all(pair.first, pair.second);
  }
  template <class T>
  void add(const std::vector<T>& list) {
    digest_.add(static_cast<std::int64_t>(list.size()));
    for (const auto& item : list) add(item);
  }
  void add(const std::optional<Duration>& d) { add(d ? std::optional(std::int64_t{d->count()}) : std::nullopt); }
  template <std::integral Number>
  void add(const std::optional<Number>& n) {
    all(n.has_value() ? 1 : 0, n.value_or(0));
  }
  void add(const Requirement& r) { all(r.key, r.complement, r.values, r.gte, r.lte, r.min_values); }
  template <class Value>
  void add(const std::map<std::string, Value>& values) {
    digest_.add(static_cast<std::int64_t>(values.size()));
    for (const auto& [name, value] : values) all(name, value);
  }
  void add(const Budget& b) { all(b.nodes, b.schedule, b.duration, b.reasons); }
  void add(const Taint& t) { all(t.key, t.value, t.effect); }
  void add(const Pool& p) {
    all(p.name, p.weight, p.instance_types, p.markets, p.zones, p.labels, p.taints, p.limit_gpus, p.limit_cpu_milli,
        p.limit_memory_bytes, p.consolidate_empty, p.consolidate_after, p.group, p.node_class, p.not_zones, p.rules,
        p.limit_nodes, p.replicas, p.other_limits, p.min_values, p.budgets, p.not_ready, p.expander_priority,
        p.node_resources, p.unready_after, p.manual, p.scale_down.utilization_milli, p.scale_down.gpu_utilization_milli,
        number_of(p.scale_down.ignore_daemon_sets), p.reserved, p.consolidate_underutilized,
        p.headroom.has_value() ? 1 : 0, p.headroom.value_or(HeadroomSlo{}).wait,
        p.headroom.value_or(HeadroomSlo{}).quantile_ppm);
    const PoolLifecycle& l = p.lifecycle;
    all(l.startup_taints, l.annotations, l.expire_after, l.termination_grace, l.template_hash, l.images, l.subnets,
        l.security_groups);
  }
  void add(const Claim& c) {
    all(c.pool, c.type, c.zone, c.market, static_cast<int>(c.state), c.instance, c.node, c.requested, c.changed,
        c.launched, c.stopped, c.missing_since, c.for_uid, c.reason, c.group, c.labels, c.launch, c.rolled_back,
        c.retry_at, c.interrupted ? 1 : 0, c.owed, c.zone_open, c.reservation, c.counted ? 1 : 0, c.booted ? 1 : 0);
    const ClaimLifecycle& l = c.life;
    all(l.template_hash, l.expire_after, l.termination_grace, l.resources, l.image, l.subnet, l.security_groups,
        l.initialized ? 1 : 0, l.drift, l.drift_message, l.drifted_since, l.disruption, l.deadline, l.replaces,
        l.replaced_by, l.consolidated, l.not_consolidated_before);
  }
  void add(const NodeRow& n) {
    all(n.known, n.since, n.ready, n.cordoned, n.broken, n.pods, n.empty_since, n.instance, n.drain_requested,
        n.drain_confirmed, n.drain_reason, n.taken_at, n.notice, n.risk_since);
  }
  void add(const AttemptRow& a) { all(a.nodes, a.since); }
  void add(const CheckpointTerms& t) { all(t.interval, t.steps, t.quorum, t.expected, t.uri); }
  void add(const WorkloadRow& w) {
    all(w.attempt, w.checkpoints, w.ns, w.kind, w.name, w.type, w.expected, w.checkpoint);
  }
  void add(const HoldingPod& p) { all(p.name, p.do_not_disrupt, p.started, p.blocked_by); }
  void add(const NodeDetails& d) {
    all(d.instance, d.taints, d.capacity, d.allocatable, d.do_not_disrupt ? 1 : 0, d.serves ? 1 : 0, d.unhealthy,
        d.repair_at, d.holding);
  }
  void add(const NodePods& n) {
    all(n.labels, n.taints, n.allocatable, n.scale_down_disabled ? 1 : 0, n.pods, n.changed);
  }
  void add(const NodePod& p) {
    const GpuShape& gpu = p.gpu;
    all(p.name, static_cast<int>(p.kind), p.rules, gpu.whole, gpu.milli, gpu.mig_profile, gpu.mig_count, gpu.models,
        p.controller, p.started, p.stays ? 1 : 0, p.local_volume, p.system ? 1 : 0, p.budget, p.budget_allows,
        p.blocked_by, number_of(p.safe_to_evict), p.terminating ? 1 : 0);
  }
  static int number_of(const std::optional<bool>& value) { return value ? 1 + (*value ? 1 : 0) : 0; }
  void add(const LaunchFault& f) { all(f.count, f.reason, f.until); }
  void add(const DriftBackOff& b) { all(b.failures, b.until, b.reason); }
  void add(const Buffer& b) { all(b.name, b.pods, b.explanation); }
  void add(const Overlay& o) {
    const PriceAdjustment adjustment = o.adjustment.value_or(PriceAdjustment{});
    all(o.name, o.weight, o.price ? o.price->nano() : -1, o.adjustment ? 1 : 0, adjustment.percent ? 1 : 0,
        adjustment.amount, o.capacity);
    for (const auto& [key, requirement] : o.requirements.by_key()) add(requirement);
  }
  void add(const HeadroomDay& d) {
    for (const HeadroomChange& c : d.changes) all(c.at, c.type, c.nodes);
  }
  void add(const HeadroomRow& h) {
    all(h.slo.wait, h.slo.quantile_ppm, h.since, h.planned, h.target_ppm, h.recent.arrivals, h.recent.covered,
        h.total.arrivals, h.total.covered, h.boots);
    for (const auto& [type, levels] : h.levels) {
      add(type);
      for (const std::int64_t level : levels) add(level);
    }
  }
  void add(const ScalingGroup& g) {
    all(g.min, g.max, g.desired, g.warm, g.failed_at, g.failure, static_cast<std::int64_t>(g.members.size()));
    for (const auto& m : g.members) all(m.instance, m.lifecycle, m.scale_in_protected);
    add(static_cast<std::int64_t>(g.hooks.size()));
    for (const auto& h : g.hooks) all(h.name, h.launching, h.heartbeat);
  }
  void add(const HookWait& w) { all(w.launching, w.since, w.answered, w.continued); }
  void add(const OwnerRow& o) { all(o.ours, o.owner); }
  void add(const PodSet& set) {
    const PodShape& s = set.shape;
    all(set.name, set.count, set.min_count, s.cpu_milli, s.memory_bytes, s.gpu.whole, s.gpu.milli, s.gpu.mig_profile,
        s.gpu.mig_count, s.gpu.models, s.node_selector, set.rules);
    for (const auto& t : s.tolerations) all(t.key, t.op, t.value, t.effect);
    for (const auto& [resource, amount] : s.extended) all(resource, amount);
  }
  void add(const DemandUpdated::Item& d) {
    all(d.id, d.pod_sets, d.priority, d.since, d.ns, d.runs, d.type, d.room, d.room_zone);
  }
  void add(const Plan::Place& p) { all(p.claim, p.set, p.pods); }
  void add(const Plan& p) {
    all(p.claims, p.ready_by, p.promised_attempt, p.fruitless, p.not_before, p.places, p.refusals, p.refusal);
  }
  void add(const StepSave& s) { all(s.step, s.epoch, s.ranks, s.uri, s.bytes, s.took); }
  void add(const checkpoint::Fence& f) { all(f.attempt, f.number); }
  void add(const checkpoint::Answer& a) { all(a.node, a.fence, a.ranks, a.saves, a.refusal); }
  void add(const checkpoint::GangSave& s) { all(s.fence, s.quorum, s.nodes, s.deadline, s.answers); }
  void add(const CheckpointRow& c) { all(c.fence, c.saved, c.at); }
  void add(const ScheduleRow& s) { all(s.last, s.interval); }
  void add(const checkpoint::Hazard& h) { all(h.interruptions, h.exposure); }
  void add(const InstanceNoticeRow& n) { all(n.at, n.seen); }
  void add(const Order& o) {
    all(o.id, o.taken, o.save, o.ordered, o.outcome, o.why, o.saved, o.reason, o.ns, o.kind, o.evicts ? 1 : 0);
  }
  void add(const SaveRow& s) { all(s.node, s.reason, s.until); }
  void add(const PriceRow& p) { all(p.rate.per_hour.nano(), p.from); }
  void add(const Outage& o) { all(o.since, o.last, o.until, o.out_us, o.ends_milli, o.decayed); }
  template <class T>
  requires requires(const T& value, Digest& digest) { fold(value, digest); }
  void add(const T& value) { fold(value, digest_); }
  void add(const Offering& o) { all(o.type, o.zone, o.market, o.group, o.reservation); }
  void add(const ProvisioningRow& p) {
    const ProvisioningRequest& r = p.request;
    all(r.uid, r.ns, r.name, static_cast<int>(r.provisioning_class), r.pod_sets, r.created, r.valid_for, r.invalid,
        r.room, static_cast<int>(p.phase), p.since, p.claims, p.why);
  }
  void add(const ReservedCapacity& r) {
    const Reservation& one = r.reservation;
    all(one.id, one.type, one.zone, one.block, one.start, one.end, one.count, r.others, r.classes);
  }

  Digest digest_;
};

}  // namespace

std::uint64_t digest_of(const Tables& tables) {
  Folder folder;
  for_each_table(tables, [&](const auto& table) { folder.add(table); });
  return folder.value();
}

}  // namespace qm::autoscaler
