#include "qm/base/digest.hpp"

#include "tables.hpp"

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
  void add(Market m) { digest_.add(static_cast<std::int64_t>(m)); }
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
  void add(const std::optional<std::int64_t>& n) { all(n.has_value() ? 1 : 0, n.value_or(0)); }
  void add(const std::optional<std::int32_t>& n) { all(n.has_value() ? 1 : 0, n.value_or(0)); }
  void add(const Requirement& r) { all(r.key, r.complement, r.values, r.gte, r.lte, r.min_values); }
  template <class Number>
  void add(const std::map<std::string, Number>& amounts) {
    digest_.add(static_cast<std::int64_t>(amounts.size()));
    for (const auto& [name, amount] : amounts) all(name, amount);
  }
  void add(const Budget& b) { all(b.nodes, b.schedule, b.duration, b.reasons); }
  void add(const Taint& t) { all(t.key, t.value, t.effect); }
  void add(const Labels& labels) {
    digest_.add(static_cast<std::int64_t>(labels.size()));
    for (const auto& [key, value] : labels) all(key, value);
  }
  void add(const Pool& p) {
    all(p.name, p.weight, p.instance_types, p.markets, p.zones, p.labels, p.taints, p.limit_gpus, p.limit_cpu_milli,
        p.limit_memory_bytes, p.consolidate_empty, p.consolidate_after, p.group, p.node_class, p.not_zones, p.rules,
        p.limit_nodes, p.replicas, p.other_limits, p.min_values, p.budgets, p.not_ready, p.expander_priority,
        p.node_resources, p.unready_after, p.manual);
  }
  void add(const Claim& c) {
    all(c.pool, c.type, c.zone, c.market, static_cast<int>(c.state), c.instance, c.node, c.requested, c.changed,
        c.launched, c.stopped, c.missing_since, c.for_uid, c.reason, c.group, c.labels, c.owed);
  }
  void add(const NodeRow& n) {
    all(n.known, n.since, n.ready, n.cordoned, n.broken, n.pods, n.empty_since, n.instance, n.drain_requested,
        n.drain_confirmed, n.drain_reason, n.taken_at);
  }
  void add(const AttemptRow& a) { add(a.nodes); }
  void add(const WorkloadRow& w) { all(w.attempt, w.checkpoints, w.ns, w.kind, w.name, w.type, w.expected); }
  void add(const ScalingGroup::Member& m) { all(m.instance, m.lifecycle, m.scale_in_protected); }
  void add(const ScalingGroup::Hook& h) { all(h.name, h.launching, h.heartbeat); }
  void add(const ScalingGroup& g) { all(g.min, g.max, g.desired, g.warm, g.failed_at, g.failure, g.members, g.hooks); }
  void add(const HookWait& w) { all(w.launching, w.since, w.answered, w.continued); }
  void add(const OwnerRow& o) { all(o.ours, o.owner); }
  void add(const PodSet& set) {
    const PodShape& s = set.shape;
    all(set.name, set.count, set.min_count, s.cpu_milli, s.memory_bytes, s.gpu.whole, s.gpu.milli, s.gpu.mig_profile,
        s.gpu.mig_count, s.gpu.models, s.node_selector, set.rules);
    for (const auto& t : s.tolerations) all(t.key, t.op, t.value, t.effect);
    for (const auto& [resource, amount] : s.extended) all(resource, amount);
  }
  void add(const DemandUpdated::Item& d) { all(d.id, d.pod_sets, d.priority, d.since, d.ns, d.runs, d.type); }
  void add(const Plan::Place& p) { all(p.claim, p.set, p.pods); }
  void add(const Plan& p) { all(p.claims, p.ready_by, p.promised_attempt, p.fruitless, p.not_before, p.places); }
  void add(const Order::Ack& a) { all(a.node, a.step, a.uri, a.ok); }
  void add(const Order& o) {
    all(o.id, o.taken, o.nodes, o.ordered, o.deadline, o.acks, o.outcome, o.step, o.uri, o.reason, o.ns, o.kind);
  }
  void add(const SaveRow& s) { all(s.node, s.reason, s.until); }
  void add(const PriceRow& p) { all(p.rate.per_hour.nano(), p.from); }
  void add(const Offering& o) { all(o.type, o.zone, o.market, o.group); }

  Digest digest_;
};

}  // namespace

std::uint64_t digest_of(const Tables& tables) {
  Folder folder;
  for_each_table(tables, [&](const auto& table) { folder.add(table); });
  return folder.value();
}

}  // namespace qm::autoscaler
