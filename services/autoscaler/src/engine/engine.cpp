// The facts and the frame of a step: apply the facts, then decide from the tables alone, so that the order in
// which facts of different origin arrive does not matter.
#include "qm/autoscaler/engine.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"

#include <algorithm>

namespace qm::autoscaler {

std::string_view name_of(ClaimState state) {
  constexpr std::string_view names[] = {"Requested", "Launched", "Ready", "Draining", "Terminating", "Gone", "Failed"};
  return names[static_cast<int>(state)];
}

namespace {
/// Writes the row if it differs; returns whether it did. A batch without changes writes nothing.
template <class Key, class Row>
bool put(Table<Key, Row>& table, const Key& key, const Row& row) {
  if (const Row* known = table.find(key); known != nullptr && *known == row) return false;
  table.insert(key, row);
  return true;
}
}  // namespace

Engine::Engine(std::vector<InstanceType> catalog, Options options) : options_(options) {
  for (auto& type : catalog) catalog_.emplace(type.name, std::move(type));
}

const InstanceType* Engine::type(const std::string& name) const {
  auto it = catalog_.find(name);
  return it == catalog_.end() ? nullptr : &it->second;
}

Output Engine::step(std::span<const Command> batch, Instant now) {
  QM_ASSERT(now >= now_, "time went back from {} to {}", micros(now_), micros(now));
  now_ = now;
  out_ = {};
  changed_claims_.clear();
  more_replicas_ = false;
  for (const auto& command : batch) std::visit([this](const auto& c) { apply(c); }, command);
  join_nodes();
  time_out();
  answer_notices();
  answer_saves();
  close_orders();
  end_drained();
  keep_replicas();
  cover_demand();
  retire_empty();
  size_groups();
  for (const auto& name : changed_claims_) {
    if (const Claim* row = tables_.claims.find(name)) out_.instances.push_back({name, *row, false});
  }
  check_laws();
  out_.wake_at = next_timer();
  return std::move(out_);
}

namespace {
// Calls fn on every table: the only list of them.
template <class T, class Fn>
void each(T& t, Fn&& fn) {
  fn(t.pools), fn(t.claims), fn(t.nodes), fn(t.attempts), fn(t.workloads), fn(t.demand), fn(t.plans), fn(t.orders),
      fn(t.saves), fn(t.spot_prices), fn(t.blocked), fn(t.counters), fn(t.group_sizes), fn(t.owners);
}
}  // namespace

void Engine::undo() {
  each(tables_, [](auto& table) { table.rollback(); });
}
void Engine::commit() {
  each(tables_, [](auto& table) { table.commit(); });
}

void Engine::apply(const PoolsApplied& c) {
  std::set<std::string> names;
  for (const auto& pool : c.pools) names.insert(pool.name);
  std::vector<std::string> over;
  for (const auto& [name, pool] : tables_.pools) {
    if (!names.contains(name)) over.push_back(name);
  }
  for (const auto& name : over) tables_.pools.erase(name);
  for (const auto& pool : c.pools) put(tables_.pools, pool.name, pool);
}

void Engine::apply(const DemandUpdated& c) {
  std::map<WorkloadUid, const DemandUpdated::Item*> wanted;
  for (const auto& item : c.items) wanted[item.id.uid] = &item;
  std::vector<WorkloadUid> over;
  for (const auto& [uid, item] : tables_.demand) {
    if (!wanted.contains(uid)) over.push_back(uid);
  }
  // Its instances start anyway; they are empty ones unless another gang needs them.
  for (const auto& uid : over) tables_.demand.erase(uid);
  for (const auto& [uid, item] : wanted) put(tables_.demand, uid, *item);
}

void Engine::apply(const InstancesListed& c) {
  std::map<InstanceId, ClaimName> by_instance;
  for (const auto& [name, claim] : tables_.claims) {
    if (!claim.instance.empty()) by_instance.emplace(claim.instance, name);
  }
  std::set<InstanceId> seen;
  for (const auto& fact : c.instances) {
    seen.insert(fact.id);
    adopt(fact, by_instance);
  }
  for (const auto& [id, name] : by_instance) {
    const Claim& claim = *tables_.claims.find(name);
    if (!seen.contains(id) && !claim.missing_since && claim.state != ClaimState::kGone) {
      tables_.claims.edit(name).missing_since = now_;
    }
  }
}

// An instance has its claim's name as a tag, so a launch whose response was lost is found again here. An instance
// without a claim is stored under its own id.
void Engine::adopt(const InstanceFact& fact, std::map<InstanceId, ClaimName>& by_instance) {
  const ClaimName own_name(fact.id.value());
  ClaimName name = own_name;
  const Pool* grouped = pool_of_group(fact.group);
  if (const auto it = by_instance.find(fact.id); it != by_instance.end()) {
    name = it->second;
  } else if (const Claim* tagged = tables_.claims.find(fact.claim); tagged != nullptr && tagged->instance.empty()) {
    name = fact.claim;
  } else if (tagged == nullptr && !fact.claim.empty() && !fact.pool.empty()) {
    name = fact.claim;
  } else if (grouped != nullptr) {
    name = claim_for(fact).value_or(own_name);
  }
  const Claim* known = tables_.claims.find(name);
  if (known == nullptr && fact.stopped && *fact.stopped + options_.gone_memory <= now_) return;  // already removed
  Claim row;
  if (known != nullptr) {
    row = *known;
  } else {
    row.pool = grouped != nullptr ? grouped->name : fact.pool;
    row.requested = fact.launched;
    row.changed = now_;
    row.reason = row.pool.empty() ? "found in the cloud" : "found in the cloud: no claim matches it";
  }
  if (row.pool.empty() && grouped != nullptr) row.pool = grouped->name;  // the pool has named its group since then
  row.group = fact.group;
  row.type = fact.type;
  row.zone = fact.zone;
  row.market = fact.market;
  row.instance = fact.id;
  row.node = fact.node;
  row.launched = fact.launched;
  row.missing_since.reset();
  ClaimState next = row.state;
  if (fact.stopped) {
    next = ClaimState::kGone;
  } else if (next == ClaimState::kRequested || next == ClaimState::kFailed || next == ClaimState::kGone) {
    next = ClaimState::kLaunched;  // it started, possibly after the claim was given up
  }
  row.stopped = fact.stopped;
  if (next != row.state) row.changed = now_;
  row.state = next;
  by_instance[fact.id] = name;
  if (put(tables_.claims, name, row)) mark_changed(name);
}

void Engine::apply(const SpotPricesUpdated& c) {
  for (const auto& quote : c.quotes) {
    const auto key = std::pair(quote.type, quote.zone);
    const PriceRow* known = tables_.spot_prices.find(key);
    if (known != nullptr && known->from >= quote.from) continue;
    if (known != nullptr && known->rate == quote.rate) continue;  // the price is unchanged
    tables_.spot_prices.insert(key, {quote.rate, quote.from});
    out_.prices.push_back({quote.type, quote.zone, {quote.rate, quote.from}});
  }
}

// The row of a node for writing, also of a node that placement has not published yet.
NodeRow& Engine::mark(const NodeName& node) {
  const bool fresh = !tables_.nodes.contains(node);
  NodeRow& row = tables_.nodes.edit(node);
  if (fresh) row.since = now_;
  return row;
}

void Engine::forget_node(const NodeName& name) {
  const NodeRow* node = tables_.nodes.find(name);
  if (node == nullptr) return;
  if (node->drain_requested) end_drain(name);
  tables_.nodes.erase(name);
}

void Engine::apply(const NodeUpdated& c) {
  if (c.gone) return forget_node(c.node);
  const NodeRow* known = tables_.nodes.find(c.node);
  NodeRow row = known != nullptr ? *known : NodeRow{};
  if (known == nullptr) row.since = now_;
  row.known = true;
  row.ready = c.ready;
  row.cordoned = c.cordoned;
  row.drain_confirmed = row.drain_requested && c.cordoned;
  row.pods = c.pods;
  row.empty_since = c.empty_since;
  row.instance = c.instance;
  put(tables_.nodes, c.node, row);
}

void Engine::apply(const AssignmentUpdated& c) {
  if (c.live) {
    put(tables_.attempts, c.id, AttemptRow{c.nodes});
  } else if (tables_.attempts.contains(c.id)) {
    tables_.attempts.erase(c.id);
  }
}

void Engine::apply(const WorkloadUpdated& c) {
  if (!c.ended) {
    put(tables_.workloads, c.uid, WorkloadRow{c.attempt, c.checkpoints, c.ns, c.kind, c.name});
  } else if (tables_.workloads.contains(c.uid)) {
    tables_.workloads.erase(c.uid);
  }
}

void Engine::apply(const SpotNoticeUpdated& c) {
  const NodeRow* known = tables_.nodes.find(c.node);
  const bool taken = known != nullptr && known->taken_at.has_value();
  if (!c.over) {
    if (!taken) mark(c.node).taken_at = c.at;  // the first notice counts
    return;
  }
  if (!taken) return;
  if (!known->known && !known->broken) return forget_node(c.node);  // only the notice had named it
  NodeRow& node = tables_.nodes.edit(c.node);
  node.taken_at.reset();
  if (node.drain_requested && node.drain_reason == kSpotInterruption) end_drain(c.node);
}

void Engine::apply(const AckUpdated& c) {
  const Order* order = tables_.orders.find(c.order);
  if (order == nullptr || !order->outcome.empty()) return;  // late: the order is already complete
  if (std::none_of(order->nodes.begin(), order->nodes.end(), [&](const NodeName& n) { return n == c.node; })) return;
  auto& acks = tables_.orders.edit(c.order).acks;
  if (std::any_of(acks.begin(), acks.end(), [&](const Order::Ack& a) { return a.node == c.node; })) return;
  acks.push_back({c.node, c.step, c.uri, c.ok});
}

void Engine::apply(const HealthUpdated& c) {
  const NodeRow* known = tables_.nodes.find(c.node);
  if (known == nullptr ? c.broken : known->broken != c.broken) mark(c.node).broken = c.broken;
}

void Engine::apply(const LaunchEnded& c) {
  const Claim* known = tables_.claims.find(c.claim);
  if (known == nullptr || !known->instance.empty()) return;  // found in the cloud before the response arrived
  if (!c.instance.empty()) {
    std::vector<ClaimName> same;
    for (const auto& [name, claim] : tables_.claims) {
      if (claim.instance == c.instance) same.push_back(name);
    }
    if (!same.empty())
      return enter(c.claim, ClaimState::kFailed, fmt::format("{} belongs to {}", c.instance, same.front()));
    enter(c.claim, ClaimState::kLaunched, known->reason);
    tables_.claims.edit(c.claim).instance = c.instance;
    return;
  }
  if (known->state != ClaimState::kRequested) return;
  give_up(c.claim, c.error);  // whatever the cloud's reason: an immediate retry would get the same response
}

void Engine::apply(const TerminateEnded& c) {
  const Claim* known = tables_.claims.find(c.claim);
  if (known == nullptr || known->state != ClaimState::kTerminating || c.error.empty()) return;
  if (c.busy && node_of(*known) != nullptr) {
    // The node itself will be published when it is seen without its cordon.
    NodeRow& node = tables_.nodes.edit(known->node);
    node.pods = std::max(node.pods, 1);
    node.empty_since.reset();
    return keep(c.claim, c.error);
  }
  tables_.claims.edit(c.claim).reason = "terminate refused: " + c.error;  // it is retried after a while
  mark_changed(c.claim);
}

void Engine::apply(const OwnersUpdated& c) {
  std::map<std::string, OwnerRow> rows;
  for (const auto& item : c.owners) rows[item.ns] = {item.ours, item.owner};
  std::vector<std::string> over;
  for (const auto& [ns, row] : tables_.owners) {
    if (!rows.contains(ns)) over.push_back(ns);
  }
  for (const auto& ns : over) tables_.owners.erase(ns);
  for (const auto& [ns, row] : rows) put(tables_.owners, ns, row);
}

void Engine::apply(const SaveRequested& c) {
  if (!c.over) {
    put(tables_.saves, c.id, SaveRow{c.node, c.reason, c.until});
  } else if (tables_.saves.contains(c.id)) {
    tables_.saves.erase(c.id);
  }
}

// The owner of the instances for this workload, if that is not this autoscaler.
const OwnerRow* Engine::other_owner(const DemandUpdated::Item& item) const {
  std::string ns = item.ns;
  if (const WorkloadRow* known = tables_.workloads.find(item.id.uid); ns.empty() && known != nullptr) ns = known->ns;
  const OwnerRow* row = ns.empty() ? nullptr : tables_.owners.find(ns);
  if (row == nullptr) row = tables_.owners.find("");
  return row == nullptr || row->ours ? nullptr : row;
}

bool Engine::scales_somewhere() const {
  if (tables_.owners.find("") == nullptr) return true;
  for (const auto& [ns, row] : tables_.owners) {
    if (row.ours) return true;
  }
  return false;
}

std::optional<Instant> Engine::next_timer() const {
  std::optional<Instant> next;
  const auto consider = [&](Instant t) {
    if (t > now_ && (!next || t < *next)) next = t;
  };
  for (const auto& [name, c] : tables_.claims) {
    if (c.missing_since) consider(*c.missing_since + options_.missing);
    switch (c.state) {
      case ClaimState::kRequested:
      case ClaimState::kLaunched:
        if (!c.pool.empty()) consider(c.changed + options_.registration);
        break;
      case ClaimState::kReady: {
        const Pool* pool = tables_.pools.find(c.pool);
        const NodeRow* node = pool == nullptr ? nullptr : node_of(c);
        if (node != nullptr && node->empty_since) consider(*node->empty_since + pool->consolidate_after);
        break;
      }
      case ClaimState::kDraining:
        consider(c.changed + options_.settle);
        break;
      case ClaimState::kTerminating:
        consider(c.changed + options_.registration);
        break;
      case ClaimState::kFailed:
        consider(c.changed + options_.failed_memory);
        break;
      case ClaimState::kGone:
        consider(c.changed + options_.gone_memory);
        break;
    }
  }
  for (const auto& [uid, plan] : tables_.plans) {
    consider(plan.ready_by);
    consider(plan.not_before);
    for (const auto& name : plan.claims) {
      const Claim* c = tables_.claims.find(name);
      if (c != nullptr && c->state == ClaimState::kReady) consider(c->changed + options_.settle);
    }
  }
  for (const auto& [name, node] : tables_.nodes) {
    if (!node.known) consider(std::max(node.since + options_.registration, node.taken_at.value_or(Instant{})));
    if (node.taken_at) consider(*node.taken_at - options_.spot_margin);
  }
  for (const auto& [id, order] : tables_.orders) {
    if (order.outcome.empty()) consider(order.deadline);
  }
  for (const auto& [id, save] : tables_.saves) consider(save.until);
  for (const auto& [offering, until] : tables_.blocked) consider(until);
  if (more_replicas_) consider(now_ + std::chrono::seconds(1));
  return next;
}

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
  void add(const std::optional<std::int64_t>& n) { all(n.has_value() ? 1 : 0, n.value_or(0)); }
  void add(const LabelRule& r) { all(r.key, r.listed, r.values, r.at_least, r.at_most, r.required, r.absent); }
  void add(const Taint& t) { all(t.key, t.value, t.effect); }
  void add(const Labels& labels) {
    digest_.add(static_cast<std::int64_t>(labels.size()));
    for (const auto& [key, value] : labels) all(key, value);
  }
  void add(const Pool& p) {
    all(p.name, p.weight, p.instance_types, p.markets, p.zones, p.labels, p.taints, p.limit_gpus, p.limit_cpu_milli,
        p.limit_memory_bytes, p.consolidate_empty, p.consolidate_after, p.group, p.node_class, p.not_zones, p.rules,
        p.limit_nodes, p.replicas);
  }
  void add(const Claim& c) {
    all(c.pool, c.type, c.zone, c.market, static_cast<int>(c.state), c.instance, c.node, c.requested, c.changed,
        c.launched, c.stopped, c.missing_since, c.for_uid, c.reason, c.group, c.labels);
  }
  void add(const NodeRow& n) {
    all(n.known, n.since, n.ready, n.cordoned, n.broken, n.pods, n.empty_since, n.instance, n.drain_requested,
        n.drain_confirmed, n.drain_reason, n.taken_at);
  }
  void add(const AttemptRow& a) { add(a.nodes); }
  void add(const WorkloadRow& w) { all(w.attempt, w.checkpoints, w.ns, w.kind, w.name); }
  void add(const OwnerRow& o) { all(o.ours, o.owner); }
  void add(const PodSet& set) {
    const PodShape& s = set.shape;
    all(set.name, set.count, set.min_count, s.cpu_milli, s.memory_bytes, s.gpu.whole, s.gpu.milli, s.gpu.mig_profile,
        s.gpu.mig_count, s.gpu.models, s.node_selector);
    for (const auto& t : s.tolerations) all(t.key, t.op, t.value, t.effect);
    for (const auto& [resource, amount] : s.extended) all(resource, amount);
  }
  void add(const DemandUpdated::Item& d) { all(d.id, d.pod_sets, d.priority, d.since, d.ns, d.runs); }
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

std::uint64_t Engine::digest() const {
  Folder folder;
  each(tables_, [&](const auto& table) { folder.add(table); });
  return folder.value();
}

}  // namespace qm::autoscaler
