#include "rows.hpp"

#include "event_rows.hpp"
#include "instances/consolidation_rows.hpp"
#include "instances/headroom_rows.hpp"
#include "instances/lifecycle_rows.hpp"
#include "instances/node_pods_rows.hpp"
#include "instances/scale_down_rows.hpp"
#include "launch/provisioning_rows.hpp"
#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"
#include "replicas/replica_rows.hpp"
#include "state/autoscaler_state.pb.h"
#include "stored.hpp"

#include <charconv>

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;

namespace {

std::int64_t us_or_zero(const std::optional<Instant>& t) { return t ? micros(*t) : 0; }
std::optional<Instant> instant_or_none(std::int64_t us) {
  return us == 0 ? std::nullopt : std::optional(from_micros(us));
}

// ---- keys of several parts ----
std::string joined(const std::string& a, const std::string& b) { return a + "|" + b; }
std::pair<std::string, std::string> parted(const std::string& key) {
  const auto bar = key.rfind('|');
  return {key.substr(0, bar), bar == std::string::npos ? std::string() : key.substr(bar + 1)};
}
Result<AttemptId> attempt_of(const std::string& key) {
  const auto slash = key.rfind('/');
  std::int32_t attempt = 0;
  const char* end = key.data() + key.size();
  if (slash == std::string::npos || std::from_chars(key.data() + slash + 1, end, attempt).ptr != end || attempt <= 0) {
    return fail(Code::kInternal, "the stored key \"{}\" names no attempt", key);
  }
  return AttemptId{WorkloadUid(key.substr(0, slash)), attempt};
}

// ---- one writer and one reader per row ----
st::Pool message(const Pool& p) {
  st::Pool row;
  row.set_name(p.name);
  row.set_weight(p.weight);
  for (const auto& t : p.instance_types) row.add_instance_types(t);
  for (const auto m : p.markets) row.add_markets(static_cast<int>(m));
  for (const auto& z : p.zones) row.add_zones(z);
  for (const auto& [k, v] : p.labels) (*row.mutable_labels())[k] = v;
  for (const auto& t : p.taints) *row.add_taints() = wire::to_pb(t);
  row.set_limit_gpus(p.limit_gpus);
  row.set_limit_cpu_milli(p.limit_cpu_milli);
  row.set_limit_memory_bytes(p.limit_memory_bytes);
  row.set_consolidate_empty(p.consolidate_empty);
  row.set_consolidate_after_us(p.consolidate_after.count());
  row.set_consolidate_underutilized(p.consolidate_underutilized);
  row.set_group(p.group);
  row.set_node_class(p.node_class);
  for (const auto& z : p.not_zones) row.add_not_zones(z);
  for (const auto& r : p.rules) *row.add_rules() = message(r);
  if (p.limit_nodes >= 0) row.set_limit_nodes(p.limit_nodes);
  if (p.replicas >= 0) row.set_replicas(p.replicas);
  for (const auto& [resource, limit] : p.other_limits) (*row.mutable_other_limits())[resource] = limit;
  for (const auto& [key, number] : p.min_values) (*row.mutable_min_values())[key] = number;
  row.set_not_ready(p.not_ready);
  for (const auto& b : p.budgets) {
    auto* budget = row.add_budgets();
    budget->set_nodes(b.nodes);
    budget->set_schedule(b.schedule);
    budget->set_duration_us(b.duration.count());
    for (const auto& reason : b.reasons) budget->add_reasons(reason);
  }
  if (p.expander_priority) row.set_expander_priority(*p.expander_priority);
  for (const auto& [resource, amount] : p.node_resources) (*row.mutable_node_resources())[resource] = amount;
  if (p.unready_after) row.set_unready_after_us(p.unready_after->count());
  *row.mutable_lifecycle() = message(p.lifecycle);
  row.set_manual(p.manual);
  *row.mutable_scale_down() = message(p.scale_down);
  row.set_reserved(p.reserved);
  if (p.headroom) *row.mutable_headroom() = message(*p.headroom);
  return row;
}

Pool pool_of(const st::Pool& row) {
  Pool p;
  p.name = row.name();
  p.weight = row.weight();
  p.instance_types.assign(row.instance_types().begin(), row.instance_types().end());
  for (const int m : row.markets()) p.markets.push_back(static_cast<Market>(m));
  p.zones.assign(row.zones().begin(), row.zones().end());
  p.labels = Labels(row.labels().begin(), row.labels().end());
  for (const auto& t : row.taints()) p.taints.push_back(wire::from_pb(t));
  p.limit_gpus = row.limit_gpus();
  p.limit_cpu_milli = row.limit_cpu_milli();
  p.limit_memory_bytes = row.limit_memory_bytes();
  p.consolidate_empty = row.consolidate_empty();
  p.consolidate_after = Duration(row.consolidate_after_us());
  p.consolidate_underutilized = row.consolidate_underutilized();
  p.group = row.group();
  p.node_class = row.node_class();
  p.not_zones.assign(row.not_zones().begin(), row.not_zones().end());
  for (const auto& r : row.rules()) p.rules.push_back(requirement_of(r));
  if (row.has_limit_nodes()) p.limit_nodes = row.limit_nodes();
  if (row.has_replicas()) p.replicas = row.replicas();
  p.other_limits.insert(row.other_limits().begin(), row.other_limits().end());
  p.min_values.insert(row.min_values().begin(), row.min_values().end());
  p.not_ready = row.not_ready();
  p.lifecycle = lifecycle_of(row.lifecycle());
  for (const auto& b : row.budgets())
    p.budgets.push_back({b.nodes(), b.schedule(), Duration(b.duration_us()), {b.reasons().begin(), b.reasons().end()}});
  if (row.has_expander_priority()) p.expander_priority = row.expander_priority();
  p.node_resources.insert(row.node_resources().begin(), row.node_resources().end());
  if (row.has_unready_after_us()) p.unready_after = Duration(row.unready_after_us());
  p.manual = row.manual();
  p.scale_down = group_scale_down_of(row.scale_down());
  p.reserved = row.reserved();
  if (row.has_headroom()) p.headroom = headroom_slo_of(row.headroom());
  return p;
}

std::string bytes(const Claim& c) {
  st::Claim row;
  row.set_pool(c.pool);
  row.set_type(c.type);
  row.set_zone(c.zone);
  row.set_market(static_cast<int>(c.market));
  row.set_state(static_cast<int>(c.state));
  row.set_instance(c.instance.value());
  row.set_node(c.node.value());
  row.set_requested_us(micros(c.requested));
  row.set_changed_us(micros(c.changed));
  row.set_launched_us(us_or_zero(c.launched));
  row.set_stopped_us(us_or_zero(c.stopped));
  row.set_missing_since_us(us_or_zero(c.missing_since));
  row.set_for_uid(c.for_uid.value());
  row.set_reason(c.reason);
  row.set_group(c.group);
  for (const auto& [k, v] : c.labels) (*row.mutable_labels())[k] = v;
  row.set_launch(c.launch);
  row.set_rolled_back(c.rolled_back);
  row.set_retry_at_us(us_or_zero(c.retry_at));
  row.set_interrupted(c.interrupted);
  *row.mutable_life() = message(c.life);
  row.set_owed(c.owed);
  row.set_zone_open(c.zone_open);
  row.set_reservation(c.reservation);
  row.set_counted(c.counted);
  row.set_booted(c.booted);
  return wire::encode(row);
}

Claim claim_of(const st::Claim& row) {
  Claim c;
  c.pool = row.pool();
  c.type = row.type();
  c.zone = row.zone();
  c.market = static_cast<Market>(row.market());
  c.state = static_cast<ClaimState>(row.state());
  c.instance = InstanceId(row.instance());
  c.node = NodeName(row.node());
  c.requested = from_micros(row.requested_us());
  c.changed = from_micros(row.changed_us());
  c.launched = instant_or_none(row.launched_us());
  c.stopped = instant_or_none(row.stopped_us());
  c.missing_since = instant_or_none(row.missing_since_us());
  c.for_uid = WorkloadUid(row.for_uid());
  c.reason = row.reason();
  c.group = row.group();
  c.labels = Labels(row.labels().begin(), row.labels().end());
  c.launch = row.launch();
  c.rolled_back = row.rolled_back();
  c.retry_at = instant_or_none(row.retry_at_us());
  c.interrupted = row.interrupted();
  c.life = lifecycle_of(row.life());
  // A row of an earlier release: its node was ready once.
  if (!row.has_life()) c.life.initialized = c.state == ClaimState::kReady || c.state == ClaimState::kDraining;
  c.owed = row.owed();
  c.zone_open = row.zone_open();
  c.reservation = row.reservation();
  c.counted = row.counted();
  c.booted = row.booted();
  return c;
}

std::string bytes(const Pool& p) { return wire::encode(message(p)); }
std::string bytes(const NodeRow& n) {
  st::Node row;
  row.set_ready(n.ready);
  row.set_cordoned(n.cordoned);
  row.set_broken(n.broken);
  row.set_pods(n.pods);
  row.set_empty_since_us(us_or_zero(n.empty_since));
  row.set_instance(n.instance.value());
  row.set_drain_requested(n.drain_requested);
  row.set_drain_reason(n.drain_reason);
  row.set_taken_at_us(us_or_zero(n.taken_at));
  row.set_known(n.known);
  row.set_since_us(micros(n.since));
  row.set_drain_confirmed(n.drain_confirmed);
  row.set_notice_kind(reason_of(n.notice));
  row.set_risk_since_us(us_or_zero(n.risk_since));
  return wire::encode(row);
}
std::string bytes(const AttemptRow& a) {
  st::Attempt row;
  for (const auto& node : a.nodes) row.add_nodes(node.value());
  row.set_since_us(micros(a.since));
  return wire::encode(row);
}
std::string bytes(const WorkloadRow& w) {
  st::Workload row;
  row.set_attempt(w.attempt);
  row.set_checkpoints(w.checkpoints);
  row.set_ns(w.ns);
  row.set_kind(w.kind);
  row.set_name(w.name);
  row.set_type(w.type);
  row.set_expected_us(w.expected.count());
  *row.mutable_checkpoint() = wire::to_pb(w.checkpoint);
  return wire::encode(row);
}
std::string bytes(const OwnerRow& o) {
  st::Owner row;
  row.set_ours(o.ours);
  row.set_owner(o.owner);
  return wire::encode(row);
}
st::Demand message(const DemandUpdated::Item& d) {
  st::Demand row;
  row.set_attempt(d.id.attempt);
  for (const auto& set : d.pod_sets) *row.add_pod_sets() = wire::to_pb(set);
  row.set_priority(d.priority);
  row.set_since_us(micros(d.since));
  row.set_ns(d.ns);
  row.set_runs(d.runs);
  row.mutable_room()->Assign(d.room.begin(), d.room.end());
  row.set_room_zone(d.room_zone);
  row.set_type(d.type);
  return row;
}
std::string bytes(const DemandUpdated::Item& d) { return wire::encode(message(d)); }
DemandUpdated::Item demand_of(const std::string& uid, const st::Demand& m) {
  DemandUpdated::Item item{
      {WorkloadUid(uid), m.attempt()}, {}, m.priority(), from_micros(m.since_us()), m.ns(), m.runs(), m.type()};
  for (const auto& set : m.pod_sets()) item.pod_sets.push_back(wire::from_pb(set));
  item.room.assign(m.room().begin(), m.room().end());
  item.room_zone = m.room_zone();
  return item;
}
std::string bytes(const Plan& p) {
  st::Plan row;
  for (const auto& claim : p.claims) row.add_claims(claim.value());
  row.set_ready_by_us(micros(p.ready_by));
  row.set_promised_attempt(p.promised_attempt);
  row.set_fruitless(p.fruitless);
  row.set_not_before_us(micros(p.not_before));
  for (const auto& place : p.places) {
    auto* to = row.add_places();
    to->set_claim(place.claim.value());
    to->set_set(place.set);
    to->set_pods(place.pods);
  }
  row.set_refusals(p.refusals);
  row.set_refusal(p.refusal);
  return wire::encode(row);
}
std::string bytes(const checkpoint::Hazard& h) {
  st::Hazard row;
  row.set_interruptions(h.interruptions);
  row.set_exposure_us(h.exposure.count());
  return wire::encode(row);
}
std::string bytes(const SaveRow& s) {
  st::Save row;
  row.set_node(s.node.value());
  row.set_reason(s.reason);
  row.set_until_us(micros(s.until));
  return wire::encode(row);
}
std::string bytes(const PodSet& set) { return wire::encode(wire::to_pb(set)); }
std::string bytes(const PriceRow& p) {
  st::Price row;
  row.set_nano_usd_hour(p.rate.per_hour.nano());
  row.set_from_us(micros(p.from));
  return wire::encode(row);
}
std::string bytes(const Outage& o) {
  st::Blocked row;
  row.set_until_us(micros(o.until));
  row.set_since_us(us_or_zero(o.since));
  row.set_last_us(micros(o.last));
  row.set_out_us(o.out_us);
  row.set_ends_milli(o.ends_milli);
  row.set_decayed_us(micros(o.decayed));
  return wire::encode(row);
}
std::string bytes(std::int64_t n) {
  st::Number row;
  row.set_value(n);
  return wire::encode(row);
}

template <class Key, class Row, class KeyText>
void append(const Table<Key, Row>& table, const char* kind, KeyText text, std::vector<store::StateRow>& out) {
  table.changed([&](const Key& key, const Row* row) {
    out.push_back({kind, text(key), row == nullptr ? std::nullopt : std::optional(bytes(*row))});
  });
}

constexpr auto kValue = [](const auto& id) { return id.value(); };
constexpr auto kText = [](const std::string& s) { return s; };

}  // namespace

std::string pools_bytes(const std::vector<Pool>& pools) {
  st::Pools all;
  for (const auto& p : pools) *all.add_pools() = message(p);
  return wire::encode(all);
}

Result<std::vector<Pool>> pools_from_bytes(const std::string& text) {
  QM_ASSIGN(const auto all, parsed<st::Pools>(text, "list of pools"));
  std::vector<Pool> pools;
  for (const auto& row : all.pools()) pools.push_back(pool_of(row));
  return pools;
}

std::string daemon_sets_bytes(const std::vector<PodSet>& sets) {
  st::DaemonSets all;
  for (const auto& set : sets) *all.add_sets() = wire::to_pb(set);
  return wire::encode(all);
}

Result<std::vector<PodSet>> daemon_sets_from_bytes(const std::string& text) {
  QM_ASSIGN(const auto all, parsed<st::DaemonSets>(text, "list of DaemonSets"));
  std::vector<PodSet> sets;
  for (const auto& set : all.sets()) sets.push_back(wire::from_pb(set));
  return sets;
}

std::string node_details_bytes(const NodeDetailsUpdated& update) {
  st::NodeDetails m = message(update.details);
  m.set_node(update.node.value());
  m.set_gone(update.gone);
  return wire::encode(m);
}

Result<NodeDetailsUpdated> node_details_from_bytes(const std::string& text) {
  QM_ASSIGN(const auto m, parsed<st::NodeDetails>(text, "node's details"));
  return NodeDetailsUpdated{NodeName(m.node()), m.gone(), details_of(m)};
}

std::string overlays_bytes(const std::vector<Overlay>& overlays) {
  st::Overlays all;
  for (const auto& overlay : overlays) *all.add_overlays() = message(overlay);
  return wire::encode(all);
}

Result<OverlaysApplied> overlays_from_bytes(const std::string& text) {
  QM_ASSIGN(const auto all, parsed<st::Overlays>(text, "list of NodeOverlays"));
  OverlaysApplied out;
  for (const auto& row : all.overlays()) out.overlays.push_back(overlay_of(row));
  return out;
}

std::string demand_bytes(const std::vector<DemandUpdated::Item>& items) {
  st::Demands all;
  for (const auto& item : items) {
    auto* row = all.add_items();
    *row = message(item);
    row->set_uid(item.id.uid.value());
  }
  return wire::encode(all);
}

std::string groups_bytes(const std::map<std::string, ScalingGroup>& groups) {
  st::ScalingGroups all;
  for (const auto& [name, group] : groups) (*all.mutable_groups())[name] = message(group);
  return wire::encode(all);
}

Result<GroupsListed> groups_from_bytes(const std::string& text) {
  QM_ASSIGN(const auto all, parsed<st::ScalingGroups>(text, "list of Auto Scaling groups"));
  GroupsListed out;
  for (const auto& [name, row] : all.groups()) out.groups.emplace(name, scaling_group_of(row));
  return out;
}

Result<DemandUpdated> demand_from_bytes(const std::string& text) {
  QM_ASSIGN(const auto all, parsed<st::Demands>(text, "list of demand"));
  DemandUpdated update;
  for (const auto& row : all.items()) update.items.push_back(demand_of(row.uid(), row));
  return update;
}

void append_changes(const Tables& t, std::vector<store::StateRow>& out) {
  append(t.pools, "pool", kText, out);
  append(t.claims, "claim", kValue, out);
  append(t.nodes, "node", kValue, out);
  append(
      t.attempts, "attempt", [](const AttemptId& id) { return id.to_string(); }, out);
  append(t.workloads, "workload", kValue, out);
  append(t.demand, "demand", kValue, out);
  append(t.plans, "plan", kValue, out);
  append(t.orders, "order", kText, out);
  append(
      t.saves, "save", [](const AttemptId& id) { return id.to_string(); }, out);
  append(
      t.spot_prices, "price", [](const auto& key) { return joined(key.first, key.second); }, out);
  append(
      t.blocked, "blocked",
      [](const Offering& o) {
        const auto market = o.reservation.empty() ? std::string(name_of(o.market)) : "reserved=" + o.reservation;
        return joined(joined(o.group, joined(o.type, o.zone)), market);
      },
      out);
  append(t.counters, "counter", kText, out);
  append(t.group_sizes, "group", kText, out);
  append(t.daemon_sets, "daemonset", kText, out);
  append(t.owners, "owner", kText, out);
  append(t.unclaimed, "unclaimed", kValue, out);
  append(t.checkpoints, "checkpoint", kValue, out);
  append(
      t.schedules, "schedule", [](const AttemptId& id) { return id.to_string(); }, out);
  append(
      t.hazards, "hazard", [](const auto& key) { return joined(key.first, key.second); }, out);
  append(
      t.instance_notices, "notice", [](const auto& key) { return joined(key.first.value(), reason_of(key.second)); },
      out);
  append(t.node_details, "node_details", kValue, out);
  append(
      t.launch_faults, "launch_fault", [](const auto& key) { return joined(key.first, key.second); }, out);
  append(t.drift_back_offs, "drift_back_off", kText, out);
  append(t.buffers, "buffer", kText, out);
  append(t.overlays, "overlay", kText, out);
  append(t.reservations, "reservation", kText, out);
  append(t.provisioning, "provisioning", kValue, out);
  append_changes(t.replicas, out);
  append(t.scaling_groups, "scaling_group", kText, out);
  append(t.hook_waits, "hook_wait", kValue, out);
  append_changes(t.scale_down, out);
  append_changes(t.headroom, out);
  append(t.node_pods, "node_pods", kValue, out);
  append(t.consolidations, "consolidation", kText, out);
  append(t.consolidation_checks, "consolidation_check", kText, out);
}

Status restore(Tables& t, const store::StateRow& row) {
  const std::string& value = *row.value;
  if (row.kind == "pool") {
    QM_ASSIGN(const auto m, parsed<st::Pool>(value, "pool"));
    t.pools.restore(row.key, pool_of(m));
  } else if (row.kind == "claim") {
    QM_ASSIGN(const auto m, parsed<st::Claim>(value, "claim"));
    t.claims.restore(ClaimName(row.key), claim_of(m));
  } else if (row.kind == "unclaimed") {
    QM_ASSIGN(const auto m, parsed<st::Claim>(value, "unclaimed instance"));
    t.unclaimed.restore(InstanceId(row.key), claim_of(m));
  } else if (row.kind == "node") {
    QM_ASSIGN(const auto m, parsed<st::Node>(value, "node"));
    t.nodes.restore(NodeName(row.key),
                    {m.known(), from_micros(m.since_us()), m.ready(), m.cordoned(), m.broken(), m.pods(),
                     instant_or_none(m.empty_since_us()), InstanceId(m.instance()), m.drain_requested(),
                     m.drain_confirmed(), m.drain_reason(), instant_or_none(m.taken_at_us()),
                     notice_kind(m.notice_kind()), instant_or_none(m.risk_since_us())});
  } else if (row.kind == "attempt") {
    QM_ASSIGN(const auto m, parsed<st::Attempt>(value, "attempt"));
    QM_ASSIGN(const AttemptId id, attempt_of(row.key));
    AttemptRow a;
    for (const auto& n : m.nodes()) a.nodes.emplace_back(n);
    a.since = from_micros(m.since_us());
    t.attempts.restore(id, std::move(a));
  } else if (row.kind == "workload") {
    QM_ASSIGN(const auto m, parsed<st::Workload>(value, "workload"));
    t.workloads.restore(WorkloadUid(row.key), {m.attempt(), m.checkpoints(), m.ns(), m.kind(), m.name(),
                                               wire::from_pb(m.checkpoint()), m.type(), Duration(m.expected_us())});
  } else if (row.kind == "demand") {
    QM_ASSIGN(const auto m, parsed<st::Demand>(value, "demand"));
    t.demand.restore(WorkloadUid(row.key), demand_of(row.key, m));
  } else if (row.kind == "plan") {
    QM_ASSIGN(const auto m, parsed<st::Plan>(value, "plan"));
    Plan p{{},
           from_micros(m.ready_by_us()),
           m.promised_attempt(),
           m.fruitless(),
           from_micros(m.not_before_us()),
           {},
           m.refusals(),
           m.refusal()};
    for (const auto& c : m.claims()) p.claims.emplace_back(c);
    for (const auto& place : m.places()) p.places.push_back({ClaimName(place.claim()), place.set(), place.pods()});
    t.plans.restore(WorkloadUid(row.key), std::move(p));
  } else if (row.kind == "order") {
    QM_ASSIGN(const auto m, parsed<st::Order>(value, "order"));
    t.orders.restore(row.key, order_of(m));
  } else if (row.kind == "save") {
    QM_ASSIGN(const auto m, parsed<st::Save>(value, "save"));
    QM_ASSIGN(const AttemptId id, attempt_of(row.key));
    t.saves.restore(id, {NodeName(m.node()), m.reason(), from_micros(m.until_us())});
  } else if (row.kind == "price") {
    QM_ASSIGN(const auto m, parsed<st::Price>(value, "price"));
    t.spot_prices.restore(parted(row.key), {HourlyRate{Money::nano(m.nano_usd_hour())}, from_micros(m.from_us())});
  } else if (row.kind == "blocked") {
    QM_ASSIGN(const auto m, parsed<st::Blocked>(value, "blocked offering"));
    const auto [offer, market] = parted(row.key);
    const auto [where, zone] = parted(offer);
    const auto [group, type] = parted(where);
    const std::string reservation = market.starts_with("reserved=") ? market.substr(9) : std::string();
    t.blocked.restore({type, zone, market == "spot" ? Market::kSpot : Market::kOnDemand, group, reservation},
                      {instant_or_none(m.since_us()), from_micros(m.last_us()), from_micros(m.until_us()), m.out_us(),
                       m.ends_milli(), from_micros(m.decayed_us())});
  } else if (row.kind == "counter") {
    QM_ASSIGN(const auto m, parsed<st::Number>(value, "counter"));
    t.counters.restore(row.key, m.value());
  } else if (row.kind == "scaling_group") {
    QM_ASSIGN(const auto m, parsed<st::ScalingGroup>(value, "Auto Scaling group"));
    t.scaling_groups.restore(row.key, scaling_group_of(m));
  } else if (row.kind == "hook_wait") {
    QM_ASSIGN(const auto m, parsed<st::HookWait>(value, "wait at a lifecycle hook"));
    t.hook_waits.restore(InstanceId(row.key),
                         {m.launching(), from_micros(m.since_us()), from_micros(m.answered_us()), m.continued()});
  } else if (row.kind == "group") {
    QM_ASSIGN(const auto m, parsed<st::Number>(value, "group size"));
    t.group_sizes.restore(row.key, m.value());
  } else if (row.kind == "daemonset") {
    QM_ASSIGN(const auto m, parsed<quartermaster::v1::PodSet>(value, "DaemonSet"));
    t.daemon_sets.restore(row.key, wire::from_pb(m));
  } else if (row.kind == "owner") {
    QM_ASSIGN(const auto m, parsed<st::Owner>(value, "owner"));
    t.owners.restore(row.key, {m.ours(), m.owner()});
  } else if (row.kind == "checkpoint") {
    QM_ASSIGN(const auto m, parsed<st::Checkpoint>(value, "checkpoint"));
    t.checkpoints.restore(WorkloadUid(row.key),
                          {{m.attempt(), m.number()}, wire::from_pb(m.saved()), from_micros(m.at_us())});
  } else if (row.kind == "schedule") {
    QM_ASSIGN(const auto m, parsed<st::Schedule>(value, "schedule"));
    QM_ASSIGN(const AttemptId id, attempt_of(row.key));
    t.schedules.restore(id, {from_micros(m.last_us()), Duration(m.interval_us())});
  } else if (row.kind == "hazard") {
    QM_ASSIGN(const auto m, parsed<st::Hazard>(value, "hazard"));
    t.hazards.restore(parted(row.key), {m.interruptions(), Duration(m.exposure_us())});
  } else if (row.kind == "notice") {
    QM_ASSIGN(const auto m, parsed<st::InstanceNotice>(value, "notice"));
    const auto [instance, reason] = parted(row.key);
    t.instance_notices.restore({InstanceId(instance), notice_kind(reason)},
                               {from_micros(m.at_us()), from_micros(m.seen_us())});
  } else if (row.kind == "node_details") {
    QM_ASSIGN(const auto m, parsed<st::NodeDetails>(value, "node's details"));
    t.node_details.restore(NodeName(row.key), details_of(m));
  } else if (row.kind == "node_pods") {
    QM_ASSIGN(const auto m, parsed<st::NodePods>(value, "list of the pods of a node"));
    t.node_pods.restore(NodeName(row.key), node_pods_of(m));
  } else if (row.kind == "launch_fault") {
    QM_ASSIGN(const auto m, parsed<st::LaunchFault>(value, "launch fault"));
    t.launch_faults.restore(parted(row.key), {m.count(), m.reason(), from_micros(m.until_us())});
  } else if (row.kind == "buffer") {
    QM_ASSIGN(const auto m, parsed<st::Buffer>(value, "CapacityBuffer"));
    t.buffers.restore(row.key, buffer_of(m));
  } else if (row.kind == "overlay") {
    QM_ASSIGN(const auto m, parsed<st::Overlay>(value, "NodeOverlay"));
    t.overlays.restore(row.key, overlay_of(m));
  } else if (row.kind == "provisioning") {
    QM_ASSIGN(const auto m, parsed<st::ProvisioningRequest>(value, "ProvisioningRequest"));
    t.provisioning.restore(WorkloadUid(row.key), provisioning_row_of(m));
  } else if (row.kind == "reservation") {
    QM_ASSIGN(const auto m, parsed<st::ReservedCapacity>(value, "capacity reservation"));
    t.reservations.restore(row.key, reserved_capacity_of(row.key, m));
  } else if (row.kind == "drift_back_off") {
    QM_ASSIGN(const auto m, parsed<st::DriftBackOff>(value, "back-off of drift"));
    t.drift_back_offs.restore(row.key, {m.failures(), from_micros(m.until_us()), m.reason()});
  } else {
    QM_ASSIGN(bool known, restore(t.replicas, row));
    if (!known) {
      QM_ASSIGN(known, restore(t.scale_down, row));
    }
    if (!known) {
      QM_ASSIGN(known, restore_consolidation(t, row));
    }
    if (!known) {
      QM_ASSIGN(known, restore(t.headroom, row));
    }
    if (!known) return fail(Code::kInternal, "the state has a row of unknown kind \"{}\"", row.kind);
  }
  return {};
}

}  // namespace qm::autoscaler
