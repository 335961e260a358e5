#include "instances/headroom_rows.hpp"
#include "instances/node_pods_rows.hpp"
#include "instances/scale_down_rows.hpp"
#include "json_values.hpp"
#include "launch/launch_codec.hpp"
#include "launch/provisioning_rows.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/log.hpp"
#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"
#include "qm/wire/parse.hpp"
#include "quartermaster/v1/events.pb.h"
#include "replicas/replica_rows.hpp"
#include "rows.hpp"

#include <algorithm>
#include <array>

namespace qm::autoscaler {
namespace pb = quartermaster::v1;

namespace {

/// Pending workloads that /debug/state explains: each costs a search over the offerings.
constexpr std::size_t kExplained = 20;

std::optional<Instant> some_instant(std::int64_t us) { return us == 0 ? std::nullopt : std::optional(from_micros(us)); }

template <class Message>
Result<Message> read(const service::Input& in) {
  return wire::parse<Message>(in.bytes, "the payload of " + in.name);
}

/// "aws:///us-east-1a/i-0abc" -> i-0abc
InstanceId instance_of(const std::string& provider_id) {
  const auto slash = provider_id.rfind('/');
  return InstanceId(slash == std::string::npos ? std::string() : provider_id.substr(slash + 1));
}

std::string label_of(const pb::WorkloadSpec& spec, const std::string& key) {
  const auto it = spec.labels().find(key);
  return it == spec.labels().end() ? std::string() : it->second;
}

/// The kind of a notice by its word on the wire; nullopt = unknown.
std::optional<NoticeKind> notice_of(const std::string& word) {
  if (word.empty()) return NoticeKind::kSpot;
  if (word == "rebalance") return NoticeKind::kRebalance;
  if (word == "maintenance") return NoticeKind::kMaintenance;
  return word == "lifecycle" ? std::optional(NoticeKind::kLifecycle) : std::nullopt;
}

/// An agent of an earlier release reports the lowest step of its ranks alone.
checkpoint::Answer answer_of(const pb::CheckpointAck& ack) {
  checkpoint::Answer out{NodeName(ack.node()), {ack.attempt(), ack.number()}, ack.ranks(), {}, {}};
  if (!ack.ok()) out.refusal = ack.message().empty() ? "a rank did not save" : ack.message();
  for (const auto& save : ack.saves()) out.saves.push_back(wire::from_pb(save));
  if (ack.ok() && ack.saves_size() == 0) {
    out.ranks = std::max(ack.ranks(), 1);
    out.saves.push_back({ack.step(), 0, out.ranks, ack.uri(), 0, Duration{0}});
  }
  return out;
}

std::vector<Command> placement(const pb::PlacementEvent& event, bool tombstone) {
  if (event.has_demand()) {
    DemandUpdated update;
    for (const auto& i : event.demand().items()) {
      DemandUpdated::Item item{{WorkloadUid(i.uid()), i.attempt()}, {}, i.priority(),
                               from_micros(i.since_us()),           {}, i.runs()};
      for (const auto& set : i.pod_sets()) item.pod_sets.push_back(wire::from_pb(set));
      for (int set = 0; set < std::min(i.rules_size(), i.pod_sets_size()); ++set)
        item.pod_sets[static_cast<std::size_t>(set)].rules = i.rules(set);
      item.room.assign(i.room().begin(), i.room().end());
      item.room_zone = i.room_zone();
      update.items.push_back(std::move(item));
    }
    return {update};
  }
  if (event.has_assignment()) {
    const auto& a = event.assignment();
    AssignmentUpdated update{
        {WorkloadUid(a.uid()), a.attempt()}, a.state() == pb::RESERVED || a.state() == pb::BOUND, {}};
    for (const auto& m : a.members()) {
      if (m.released_us() == 0) update.nodes.emplace_back(m.node());
    }
    std::sort(update.nodes.begin(), update.nodes.end());
    update.nodes.erase(std::unique(update.nodes.begin(), update.nodes.end()), update.nodes.end());
    return {update};
  }
  if (event.has_eviction()) {
    const auto& e = event.eviction();
    const Instant until = from_micros(e.save_until_us());
    return {SaveRequested{
        {WorkloadUid(e.uid()), e.attempt()}, NodeName(e.node()), e.reason(), until, tombstone || until == Instant{}}};
  }
  return {};
}

Result<std::vector<Command>> bus(const service::Input& in) {
  if (in.name == "qm.placement") {
    QM_ASSIGN(const auto event, read<pb::PlacementEvent>(in));
    return placement(event, in.tombstone);
  }
  if (in.name == "qm.node") {
    QM_ASSIGN(const auto e, read<pb::NodeEvent>(in));
    const bool alive = e.state() == pb::NODE_READY || e.state() == pb::NODE_CORDONED;
    return std::vector<Command>{NodeUpdated{NodeName(e.node()), alive, e.state() == pb::NODE_CORDONED,
                                            e.state() == pb::NODE_GONE || in.tombstone, e.pods(),
                                            some_instant(e.empty_since_us()), instance_of(e.provider_id())}};
  }
  if (in.name == "qm.workload") {
    QM_ASSIGN(const auto e, read<pb::WorkloadEvent>(in));
    return std::vector<Command>{
        WorkloadUpdated{WorkloadUid(e.spec().uid()), e.attempt(), e.spec().checkpoints(),
                        e.phase() == pb::FINISHED || e.phase() == pb::CANCELLED || in.tombstone, e.spec().namespace_(),
                        e.spec().kind(), e.spec().name(), wire::from_pb(e.spec().checkpoint()),
                        label_of(e.spec(), "workload-type"), Duration(e.spec().expected_runtime_us())}};
  }
  if (in.name == "qm.spot") {
    QM_ASSIGN(const auto e, read<pb::SpotEvent>(in));
    if (e.has_notice()) {
      const auto& n = e.notice();
      const auto kind = notice_of(n.kind());
      if (!kind) return std::vector<Command>{};  // of a newer agent
      return std::vector<Command>{SpotNoticeUpdated{NodeName(n.node()), from_micros(n.at_us()), in.tombstone, *kind}};
    }
    if (e.has_ack() && !in.tombstone) return std::vector<Command>{AckUpdated{e.ack().order_id(), answer_of(e.ack())}};
    return std::vector<Command>{};
  }
  if (in.name == "qm.gpu") {
    QM_ASSIGN(const auto e, read<pb::GpuEvent>(in));
    if (!e.has_health()) return std::vector<Command>{};
    return std::vector<Command>{
        HealthUpdated{NodeName(e.health().node()), e.health().action() == pb::HEALTH_CORDON && !in.tombstone}};
  }
  return fail(Code::kInvalid, "no topic of ours: {}", in.name);
}

Result<std::vector<Command>> look(const service::Input& in) {
  if (in.name == "pools") {
    QM_ASSIGN(auto pools, pools_from_bytes(in.bytes));
    return std::vector<Command>{PoolsApplied{std::move(pools)}};
  }
  if (in.name == "groups") {
    QM_ASSIGN(auto groups, groups_from_bytes(in.bytes));
    return std::vector<Command>{std::move(groups)};
  }
  if (in.name == "daemonsets") {
    QM_ASSIGN(auto sets, daemon_sets_from_bytes(in.bytes));
    return std::vector<Command>{DaemonSetsUpdated{std::move(sets)}};
  }
  if (in.name == "buffers") {
    QM_ASSIGN(auto update, buffers_from_bytes(in.bytes));
    return std::vector<Command>{std::move(update)};
  }
  if (in.name == "overlays") {
    QM_ASSIGN(auto update, overlays_from_bytes(in.bytes));
    return std::vector<Command>{std::move(update)};
  }
  if (in.name == "provisioning") {
    QM_ASSIGN(auto update, provisioning_from_bytes(in.bytes));
    return std::vector<Command>{std::move(update)};
  }
  if (in.name == "node.details") {
    QM_ASSIGN(auto update, node_details_from_bytes(in.bytes));
    return std::vector<Command>{std::move(update)};
  }
  if (in.name == "node.pods") {
    QM_ASSIGN(auto update, node_pods_from_bytes(in.bytes));
    return std::vector<Command>{std::move(update)};
  }
  if (in.name == "pods.waiting") {
    QM_ASSIGN(auto update, demand_from_bytes(in.bytes));
    return std::vector<Command>{std::move(update)};
  }
  if (in.name == "replicas.scaler") {
    QM_ASSIGN(auto update, scaler_from_bytes(in.bytes));
    return std::vector<Command>{std::move(update)};
  }
  if (in.name == "replicas.scalers") {
    QM_ASSIGN(auto list, scalers_from_bytes(in.bytes));
    return std::vector<Command>{std::move(list)};
  }
  if (in.name == "replicas.sample") {
    QM_ASSIGN(auto sample, sample_from_bytes(in.bytes));
    return std::vector<Command>{std::move(sample)};
  }
  QM_ASSIGN(const Json seen, Json::parse(in.bytes));
  if (in.name == "node") {
    return std::vector<Command>{
        NodeUpdated{NodeName(seen["node"].string()), seen["ready"].boolean(), seen["cordoned"].boolean(),
                    seen["gone"].boolean(), static_cast<std::int32_t>(seen["pods"].integer()),
                    some_instant(seen["empty_since_us"].integer()), InstanceId(seen["instance"].string())}};
  }
  if (in.name == "owners") {
    OwnersUpdated out;
    for (const auto& o : seen.items()) {
      out.owners.push_back({o["namespace"].string(), o["ours"].boolean(), o["owner"].string()});
    }
    return std::vector<Command>{std::move(out)};
  }
  if (in.name == "cloud_notices") {
    std::vector<Command> out;
    for (const auto& n : seen.items()) {
      const auto kind = n["kind"].integer();
      if (kind < 0 || kind > static_cast<std::int64_t>(NoticeKind::kLifecycle))
        return fail(Code::kInvalid, "a notice of kind {}", kind);
      const Instant at = from_micros(n["at_us"].integer());
      if (const auto& node = n["node"].string(); !node.empty()) {
        out.emplace_back(SpotNoticeUpdated{NodeName(node), at, n["over"].boolean(), static_cast<NoticeKind>(kind)});
      } else {
        out.emplace_back(InstanceNoticeUpdated{InstanceId(n["instance"].string()), static_cast<NoticeKind>(kind), at});
      }
    }
    return out;
  }
  if (in.name == "claim.lost") {  // like a late response: no instance
    return std::vector<Command>{LaunchEnded{ClaimName(seen["claim"].string()), {}, seen["error"].string()}};
  }
  if (in.name == "instances") {
    InstancesListed out;
    for (const auto& i : seen.items()) {
      out.instances.push_back(
          {InstanceId(i["id"].string()), ClaimName(i["claim"].string()), i["pool"].string(), i["type"].string(),
           i["zone"].string(), i["spot"].boolean() ? Market::kSpot : Market::kOnDemand, NodeName(i["node"].string()),
           from_micros(i["launched_us"].integer()), some_instant(i["stopped_us"].integer()), i["group"].string(),
           i["launch"].string(), i["image"].string(), i["subnet"].string(), texts_of(i["security_groups"])});
    }
    return std::vector<Command>{std::move(out)};
  }
  if (in.name == "reservations") return std::vector<Command>{reservations_listed(seen)};
  if (in.name == "spot_prices") {
    SpotPricesUpdated out;
    for (const auto& q : seen.items()) {
      out.quotes.push_back({q["type"].string(), q["zone"].string(), HourlyRate{Money::nano(q["nano"].integer())},
                            from_micros(q["at_us"].integer())});
    }
    return std::vector<Command>{std::move(out)};
  }
  return fail(Code::kInvalid, "not an observation: {}", in.name);
}

Result<std::vector<Command>> outcome(const service::Input& in) {
  QM_ASSIGN(const Json answer, Json::parse(in.bytes));
  if (in.name == "replicas.switch") return std::vector<Command>{};  // the scaler itself shows it
  if (in.name == "replicas.scale") {
    return std::vector<Command>{ReplicasChanged{
        {answer["namespace"].string(), answer["group"].string(), answer["kind"].string(), answer["name"].string()},
        answer["number"].integer(),
        answer["error"].string()}};
  }
  const ClaimName claim(answer["claim"].string());
  if (answer["pending"].boolean()) return std::vector<Command>{};  // the poll of the cloud will show it
  // The node itself shows it, and the group its instance.
  if (in.name == "node.cordon" || in.name == "group.hook" || in.name == "group.protect") return std::vector<Command>{};
  if (in.name == "group.size") {
    if (answer["error"].string().empty()) return std::vector<Command>{};  // its instances appear in the cloud
    return std::vector<Command>{
        GroupRefused{answer["group"].string(), answer["error"].string(), answer["granted"].integer()}};
  }
  if (in.name == "instance.launch" || in.name == "gang.launch") return launch_outcome(answer);
  return std::vector<Command>{TerminateEnded{claim, answer["error"].string(), answer["busy"].boolean()}};
}

bool is_notice(const std::string& reason) {
  return std::ranges::any_of(
      std::array{NoticeKind::kSpot, NoticeKind::kMaintenance, NoticeKind::kLifecycle, NoticeKind::kReservationEnd},
      [&](NoticeKind kind) { return reason == reason_of(kind); });
}

/// The deadline of a cloud does not move: such an eviction overrides every disruption budget, and is audited.
store::AppendRow override_row(const std::string& key, const EvictionEvent& e, const Engine& engine) {
  const WorkloadRow* workload = engine.tables().workloads.find(e.id.uid);
  const auto object = workload == nullptr || workload->name.empty()
                          ? e.id.to_string()
                          : fmt::format("{}/{} attempt {}", workload->ns, workload->name, e.id.attempt);
  const auto outcome = fmt::format("{} of node {}: its pods end by {}, whatever disruption budgets allow", e.reason,
                                   e.node, to_rfc3339(e.deadline));
  return {"audit",
          {"caller", "roles", "method", "object", "request_id", "outcome", "decision"},
          {"autoscaler", "", "Evict", object, key, outcome, ""}};
}

pb::InstanceState state_of(ClaimState s) {
  switch (s) {
    case ClaimState::kRequested:
      return pb::INSTANCE_REQUESTED;
    case ClaimState::kGone:
      return pb::INSTANCE_STOPPED;
    case ClaimState::kFailed:
      return pb::INSTANCE_FAILED;
    default:
      return pb::INSTANCE_RUNNING;
  }
}

// The prefix of an event's reason while the instance runs and its termination is requested.
const std::string kTerminating = "terminating: ";

}  // namespace

bool is_terminating(const pb::InstanceEvent& event) { return event.reason().starts_with(kTerminating); }

pb::InstanceEvent instance_event(const ClaimName& name, const Claim& c, const Engine& engine) {
  pb::InstanceEvent i;
  i.set_claim(name.value());
  i.set_instance_id(c.instance.value());
  i.set_instance_type(c.type);
  i.set_zone(c.zone);
  i.set_capacity_type(std::string(name_of(c.market)));
  i.set_node_pool(c.pool);
  i.set_state(state_of(c.state));
  i.set_requested_us(micros(c.requested));
  i.set_launched_us(c.launched ? micros(*c.launched) : 0);
  i.set_stopped_us(c.stopped ? micros(*c.stopped) : 0);
  if (const auto* type = engine.type(c.type)) i.set_gpus(static_cast<std::int32_t>(type->gpus));
  i.set_reason(c.state == ClaimState::kTerminating ? kTerminating + c.reason : c.reason);
  i.set_node(c.node.value());
  return i;
}

const Engine& engine_of(const service::Shell& shell) { return static_cast<const Shell&>(shell).engine(); }

Result<std::vector<Command>> Codec::decode(const service::Input& in) const {
  switch (in.source) {
    case service::Source::kBus:
      return bus(in);
    case service::Source::kWatch:
      return look(in);
    case service::Source::kOutcome:
      return outcome(in);
    case service::Source::kTimer:
      return std::vector<Command>{Tick{}};
    case service::Source::kRequest:
      break;
  }
  return fail(Code::kUnimplemented, "the autoscaler has no request {}", in.name);
}

void Codec::encode(const Engine& engine, const Output& out, std::span<const std::size_t>,
                   service::Effects& effects) const {
  const auto publish = [&](const std::string& key, const pb::CapacityEvent& event, bool tombstone = false) {
    effects.events.push_back({"qm.capacity", key, wire::encode(event), tombstone});
  };
  for (const auto& e : out.instances) {
    pb::CapacityEvent event;
    *event.mutable_instance() = instance_event(e.claim, e.row, engine);
    publish("instance/" + e.claim.value(), event, e.over);
  }
  for (const auto& p : out.prices) {
    pb::CapacityEvent event;
    auto* price = event.mutable_price();
    price->set_instance_type(p.type);
    price->set_zone(p.zone);
    price->set_nano_usd_hour(p.row.rate.per_hour.nano());
    price->set_from_us(micros(p.row.from));
    publish("price/" + p.type + "/" + p.zone, event);
  }
  for (const auto& p : out.promises) {
    pb::CapacityEvent event;
    auto* promise = event.mutable_promise();
    promise->set_uid(p.id.uid.value());
    promise->set_attempt(p.id.attempt);
    promise->set_ready_by_us(micros(p.ready_by));
    for (const auto& c : p.claims) promise->add_claims(c.value());
    promise->set_withdrawn(p.withdrawn);
    publish("promise/" + p.id.uid.value(), event, p.withdrawn);
  }
  for (const auto& e : out.evictions) {
    pb::CapacityEvent event;
    auto* eviction = event.mutable_eviction();
    eviction->set_uid(e.id.uid.value());
    eviction->set_attempt(e.id.attempt);
    eviction->set_node(e.node.value());
    eviction->set_reason(e.reason);
    eviction->set_deadline_us(micros(e.deadline));
    eviction->set_resume_uri(e.resume_uri);
    eviction->set_step(e.step);
    eviction->set_checkpoint_number(e.checkpoint_number);
    const std::string key = "evict/" + e.id.to_string() + "/" + e.node.value();
    publish(key, event, e.over);
    if (!e.over && is_notice(e.reason)) effects.appends.push_back(override_row(key, e, engine));
  }
  for (const auto& o : out.orders) {
    pb::CapacityEvent event;
    auto* order = event.mutable_checkpoint();
    order->set_id(o.id);
    order->set_uid(o.row.id.uid.value());
    order->set_attempt(o.row.id.attempt);
    for (const auto& n : o.row.save.nodes) order->add_nodes(n.value());
    order->set_reason(o.row.reason);
    order->set_deadline_us(micros(o.row.save.deadline));
    order->set_number(o.row.save.fence.number);
    order->set_ordered_us(micros(o.row.ordered));
    order->set_outcome(o.row.outcome);
    order->set_message(o.row.why);
    order->set_step(o.row.saved.step);
    order->set_uri(o.row.saved.uri);
    order->set_epoch(o.row.saved.epoch);
    order->set_bytes(o.row.saved.bytes);
    order->set_took_us(o.row.saved.took.count());
    order->set_ranks(o.row.saved.ranks);
    order->set_namespace_(o.row.ns);
    order->set_kind(o.row.kind);
    publish("checkpoint/" + o.id, event, !o.row.outcome.empty());
  }
  for (const auto& s : out.stale_answers) {
    log::warn("an answer of another incarnation or order is not accepted", {{"order", s.order},
                                                                            {"node", s.answer.node.value()},
                                                                            {"attempt", s.answer.fence.attempt},
                                                                            {"number", s.answer.fence.number}});
  }
  for (const auto& d : out.drains) {
    pb::CapacityEvent event;
    auto* drain = event.mutable_drain();
    drain->set_node(d.node.value());
    drain->set_reason(d.reason);
    drain->set_deadline_us(d.deadline ? micros(*d.deadline) : 0);
    drain->set_lifted(d.lifted);
    publish("drain/" + d.node.value(), event, d.lifted);
    if (!alone_) continue;
    const Json payload = Json::object({{"node", d.node.value()}, {"on", !d.lifted}, {"reason", d.reason}});
    effects.intents.push_back({fmt::format("cordon/{}/{}/{}", d.node, micros(d.asked), d.lifted ? "off" : "on"),
                               "node.cordon", "node/" + d.node.value(), 0, payload.dump()});
  }
  encode_launches(out, effects);
  for (const auto& t : out.terminations) {
    Json payload = Json::object({{"claim", t.claim.value()}, {"instance", t.instance.value()}, {"group", t.group}});
    // If another scheduler binds pods, a workload may be bound until the last moment: the executor checks.
    const Claim* claim = engine.tables().claims.find(t.claim);
    const bool forced = claim != nullptr && claim->life.deadline && *claim->life.deadline <= t.asked;
    if (alone_ && claim != nullptr && !forced) payload.set("node", claim->node.value());
    // The time distinguishes a repeated decision from one that is executed twice.
    effects.intents.push_back({fmt::format("terminate/{}/{}", t.claim, micros(t.asked)), "instance.terminate",
                               t.group.empty() ? t.claim.value() : "group/" + t.group, 0, payload.dump()});
  }
  // After the terminations of the same group, which reduce its size themselves: intents of one key keep their order.
  for (const auto& g : out.groups) {
    const Json payload = Json::object({{"group", g.group}, {"size", g.size}});
    effects.intents.push_back(
        {fmt::format("group/{}/{}", g.group, g.number), "group.size", "group/" + g.group, 0, payload.dump()});
  }
  for (const auto& s : out.replicas.scales) {
    const Json payload = Json::object({{"namespace", s.target.ns},
                                       {"group", s.target.group},
                                       {"kind", s.target.kind},
                                       {"name", s.target.name},
                                       {"api_version", s.api_version},
                                       {"uid", s.uid},
                                       {"from", s.from},
                                       {"to", s.to},
                                       {"number", s.number}});
    const auto key = fmt::format("replicas/{}/{}.{}/{}", s.target.ns, s.target.kind, s.target.group, s.target.name);
    effects.intents.push_back(
        {fmt::format("{}/{}/{}", key, s.uid, s.number), "replicas.scale", key, 0, payload.dump()});
  }
  for (const auto& s : out.replicas.switches) {
    const Json payload = Json::object({{"namespace", s.scaler.ns},
                                       {"kind", name_of(s.scaler.kind)},
                                       {"name", s.scaler.name},
                                       {"uid", s.uid},
                                       {"suspend", s.suspend}});
    const auto key = fmt::format("scaler/{}/{}/{}", name_of(s.scaler.kind), s.scaler.ns, s.scaler.name);
    effects.intents.push_back({fmt::format("{}/{}", key, micros(s.asked)), "replicas.switch", key, 0, payload.dump()});
  }
  encode_protections(out.protections, effects);
  for (const auto& h : out.hooks) {
    const Json payload =
        Json::object({{"group", h.group}, {"hook", h.hook}, {"instance", h.instance.value()}, {"done", h.done}});
    effects.intents.push_back({fmt::format("hook/{}/{}", h.instance, h.number), "group.hook",
                               "hook/" + h.instance.value(), 0, payload.dump()});
  }
  effects.wake_at = out.wake_at;
  append_changes(engine.tables(), effects.state);
}

Status Codec::load(Engine& engine, std::span<const store::StateRow> rows) const {
  engine.mutable_tables() = Tables{};
  for (const auto& row : rows) QM_TRY(restore(engine.mutable_tables(), row));
  return {};
}

void Codec::debug_state(const Engine& engine, service::StateDump& out) const {
  const auto& t = engine.tables();
  out.set("pools", std::int64_t(t.pools.size()));
  out.set("nodes", std::int64_t(t.nodes.size()));
  out.set("attempts", std::int64_t(t.attempts.size()));
  out.map("claims", t.claims.rows(), [](const auto& name, const auto& c) {
    return std::pair(name.value(), Json::object({{"pool", c.pool},
                                                 {"type", c.type},
                                                 {"market", name_of(c.market)},
                                                 {"state", name_of(c.state)},
                                                 {"instance", c.instance.value()},
                                                 {"node", c.node.value()},
                                                 {"group", c.group},
                                                 {"launch", c.launch},
                                                 {"reason", c.reason}}));
  });
  out.once("not_ready", [&] {
    Json reasons = Json::object();
    for (const auto& [name, pool] : t.pools) {
      if (!pool.not_ready.empty()) reasons.set(name, pool.not_ready);
    }
    return reasons;
  });
  out.set("daemon_sets", std::int64_t(t.daemon_sets.size()));
  out.map("groups", t.group_sizes.rows(),
          [](const auto& group, const auto& size) { return std::pair(group, Json(size)); });
  out.once("replicas", [&] {
    Json replicas = Json::object();
    for (const auto& [name, count] : engine.replicas()) {
      replicas.set(name, Json::object({{"have", count}, {"want", t.pools.find(name)->replicas}}));
    }
    return replicas;
  });
  out.list("demand", t.demand.rows(), [](const auto&, const auto& item) {
    return std::optional(Json::object({{"uid", item.id.to_string()}, {"since", to_rfc3339(item.since)}}));
  });
  out.once("explain", [&] {
    Json why = Json::array();
    for (auto& line : engine.explain(engine.now(), kExplained)) why.push_back(std::move(line));
    if (t.demand.size() > kExplained)
      why.push_back(fmt::format("{} more pending workloads: qmctl plan explains all", t.demand.size() - kExplained));
    return why;
  });
  out.map("owners", t.owners.rows(), [](const auto& ns, const auto& row) {
    return std::pair(ns.empty() ? std::string("*") : ns, Json(row.owner));
  });
  out.set("scalers", std::int64_t(t.replicas.scalers.size()));
  out.map("scale_targets", t.replicas.targets.rows(), [](const auto& id, const auto& row) {
    return std::pair(id.to_string(), Json::object({{"replicas", row.replicas},
                                                   {"wanted", row.wanted},
                                                   {"annotated", row.mode != ReplicaMode::kObserve},
                                                   {"pending", row.pending.has_value()},
                                                   {"conflict", row.conflict},
                                                   {"error", row.error.empty() ? row.problem : row.error}}));
  });
  out.map("orders", t.orders.rows(), [&](const auto& id, const auto& o) {
    const auto state = checkpoint::name_of(checkpoint::judge(o.save, engine.now(), false).state);
    return std::pair(id, Json::object({{"answers", std::int64_t(o.save.answers.size())},
                                       {"nodes", std::int64_t(o.save.nodes.size())},
                                       {"state", o.outcome.empty() ? std::string(state) : o.outcome},
                                       {"why", o.why}}));
  });
  out.map("checkpoints", t.checkpoints.rows(), [](const auto& uid, const auto& c) {
    return std::pair(uid.value(), Json::object({{"attempt", c.fence.attempt},
                                                {"number", c.fence.number},
                                                {"step", c.saved.step},
                                                {"epoch", c.saved.epoch},
                                                {"uri", c.saved.uri},
                                                {"bytes", c.saved.bytes},
                                                {"seconds", seconds(c.saved.took)},
                                                {"at", to_rfc3339(c.at)}}));
  });
}

}  // namespace qm::autoscaler
