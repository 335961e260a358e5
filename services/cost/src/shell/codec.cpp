#include "qm/cost/observer.hpp"
#include "qm/cost/shell.hpp"
#include "qm/wire/encode.hpp"
#include "qm/wire/parse.hpp"
#include "quartermaster/v1/events.pb.h"

#include <string_view>

namespace qm::cost {
namespace {

namespace pb = quartermaster::v1;

/// Rows that /debug/state reads in one turn of the engine for a sum over all rows.
constexpr std::size_t kAudited = 2000;
constexpr const char* kTooMany = "not computed: {} rows, and one step of the engine reads at most {}";
constexpr int kMostGpus = 1024;  // per instance; far above any product

tl::unexpected<Error> bad(std::string_view what, std::string_view field, std::string_view why) {
  return fail(Error{Code::kInvalid, fmt::format("{}: {} {}", what, field, why), std::string(field),
                    "correct the producer of the event; the message is in the dead-letter topic"});
}

/// "aws:///us-east-1a/i-0abc" -> "i-0abc"
InstanceId instance_of(std::string_view provider_id) {
  return InstanceId(provider_id.substr(provider_id.rfind('/') + 1));
}

NodeState state_of(const pb::NodeEvent& event) {
  switch (event.state()) {
    case pb::NODE_READY:
      return NodeState::kReady;
    case pb::NODE_CORDONED:
      // The reason of placement has a prefix: "health: ..." or "drain: ...".
      return event.reason().find("health:") != std::string::npos ? NodeState::kUnhealthy : NodeState::kDraining;
    case pb::NODE_GONE:
      return NodeState::kDraining;
    default:
      return NodeState::kNotReady;
  }
}

DeviceShare share_of(const pb::DeviceRef& device) {
  if (device.milli() > 0) return {device.index(), device.milli()};
  // A MIG instance without a share of its own: its compute slices, "2g.20gb".
  if (!device.mig_profile().empty()) return {device.index(), 0, compute_slices(device.mig_profile())};
  return {device.index(), 1000};
}

Result<std::vector<Engine::Command>> from_capacity(const pb::CapacityEvent& event, std::uint64_t version,
                                                   bool tombstone) {
  std::vector<Engine::Command> out;
  if (event.has_instance()) {
    const auto& i = event.instance();
    if (i.launched_us() == 0) {
      // Requested, or refused: nothing is billed. Or a tombstone that was made from the key alone.
      if (tombstone) out.push_back(InstanceForgotten{ClaimName(i.claim())});
      return out;
    }
    if (i.instance_id().empty()) return bad(i.claim(), "instance_id", "is empty although it was launched");
    if (i.gpus() < 0 || i.gpus() > kMostGpus) return bad(i.instance_id(), "gpus", "is out of range");
    if (i.launched_us() < 0 || i.stopped_us() < 0) return bad(i.instance_id(), "launched_us", "is before 1970");
    out.push_back(InstanceUpdated{InstanceId(i.instance_id()), ClaimName(i.claim()), version, i.instance_type(),
                                  i.zone(), i.capacity_type(), NodeName(i.node()), i.gpus(),
                                  from_micros(i.launched_us()), from_micros(i.stopped_us())});
  } else if (event.has_price()) {
    const auto& p = event.price();
    if (p.nano_usd_hour() < 0) return bad(p.instance_type() + "/" + p.zone(), "nano_usd_hour", "is negative");
    out.push_back(SpotPriceUpdated{SpotPool{p.instance_type(), p.zone()}, HourlyRate{Money::nano(p.nano_usd_hour())},
                                   from_micros(p.from_us()), version});
  }
  return out;
}

Result<std::vector<Engine::Command>> from_node(const pb::NodeEvent& event, std::uint64_t version) {
  std::vector<Engine::Command> out;
  const InstanceId instance = instance_of(event.provider_id());
  if (instance.empty()) return out;  // a node without a provider
  if (event.gpus() < 0 || event.gpus() > kMostGpus) return bad(event.node(), "gpus", "is out of range");
  if (event.since_us() <= 0) return bad(event.node(), "since_us", "is not set");
  out.push_back(NodeUpdated{NodeName(event.node()), instance, state_of(event), from_micros(event.since_us()),
                            event.gpus(), version});
  return out;
}

Result<std::vector<Engine::Command>> from_assignment(const pb::AssignmentEvent& event, std::uint64_t version) {
  AssignmentUpdated update;
  update.id = AttemptId{WorkloadUid(event.uid()), event.attempt()};
  update.version = version;
  // There is always an owner: the namespace replaces a missing team, as everywhere in the suite.
  update.owner = Owner{event.team().empty() ? event.namespace_() : event.team(), event.namespace_(),
                       event.workload().empty() ? event.uid() : event.workload(), event.uid()};
  update.labels = {event.labels().begin(), event.labels().end()};
  update.ended = event.state() == pb::RELEASED || event.state() == pb::EXPIRED;
  for (const auto& m : event.members()) {
    Member member{NodeName(m.node()), {}, from_micros(m.bound_us()), from_micros(m.released_us())};
    if (m.devices_size() > kMostDevices) return bad(update.id.to_string(), "members.devices", "are too many");
    for (const auto& d : m.devices()) {
      if (d.index() < 0 || d.index() >= kMostGpus)
        return bad(update.id.to_string(), "devices.index", "is out of range");
      if (d.milli() < 0 || d.milli() > 1000) return bad(update.id.to_string(), "devices.milli", "is not in 0..1000");
      member.devices.push_back(share_of(d));
    }
    update.members.push_back(std::move(member));
  }
  return std::vector<Engine::Command>{std::move(update)};
}

Result<std::vector<Engine::Command>> from_prices(const std::string& bytes) {
  QM_ASSIGN(const auto json, Json::parse(bytes));
  PriceApplied applied;
  applied.plan.name = json["name"].string();
  for (const auto& item : json["entries"].items()) {
    const auto nano = item["nanoUsdHour"].integer(-1);
    if (nano < 0) return bad("price plan " + applied.plan.name, "entries.nanoUsdHour", "is missing or negative");
    applied.plan.entries.push_back({item["instanceType"].string(), item["capacityType"].string(), item["zone"].string(),
                                    HourlyRate{Money::nano(nano)}});
  }
  if (json.contains("fromUs")) applied.from = from_micros(json["fromUs"].integer());
  return std::vector<Engine::Command>{std::move(applied)};
}

template <class Message, class Fn>
Result<std::vector<Engine::Command>> parsed(const service::Input& input, Fn fn) {
  QM_ASSIGN(const auto message, wire::parse<Message>(input.bytes, input.name + " " + input.key));
  return fn(message);
}

}  // namespace

Result<std::vector<Engine::Command>> Codec::decode(const service::Input& input) {
  using Commands = std::vector<Engine::Command>;
  switch (input.source) {
    case service::Source::kTimer:
      return Commands{Tick{}};
    case service::Source::kWatch:
      if (input.name == "prices") return from_prices(input.bytes);
      if (input.name == "budgets") return budgets_from(input.bytes);
      if (input.name == "observed.node" || input.name == "observed.pod") {
        QM_ASSIGN(const auto json, Json::parse(input.bytes));
        return from_observed(input.name, json);
      }
      break;
    case service::Source::kBus:
      if (input.bytes.empty()) return Commands{};
      if (input.name == "qm.capacity") {
        return parsed<pb::CapacityEvent>(
            input, [&](const auto& event) { return from_capacity(event, input.version, input.tombstone); });
      }
      if (input.name == "qm.node") {
        return parsed<pb::NodeEvent>(input, [&](const auto& event) { return from_node(event, input.version); });
      }
      if (input.name == "qm.placement") {
        return parsed<pb::PlacementEvent>(input, [&](const auto& event) -> Result<Commands> {
          if (!event.has_assignment()) return Commands{};
          return from_assignment(event.assignment(), input.version);
        });
      }
      break;
    default:
      break;
  }
  return fail(Code::kUnimplemented, "the cost service has no input \"{}\"", input.name);
}

void Codec::encode(const Engine& engine, const Output& output, std::span<const std::size_t>,
                   service::Effects& effects) {
  static const std::vector<std::string> kNames{"entry_id", "line", "at_us",      "valid_from", "valid_to",
                                               "account",  "team", "namespace",  "workload",   "instance",
                                               "node",     "nano", "gpu_micros", "kind",       "uid"};
  const auto at = std::to_string(micros(engine.meta().now));
  for (const auto& entry : output.entries) {
    int number = 0;
    for (const auto& line : entry.lines) {
      effects.appends.push_back(
          {"ledger",
           kNames,
           {entry.id, std::to_string(++number), at, std::to_string(micros(entry.from)),
            std::to_string(micros(entry.until)), line.account, line.owner.team, line.owner.ns, line.owner.workload,
            entry.instance.value(), entry.node, std::to_string(line.amount.nano.nano()),
            std::to_string(line.amount.gpu_micros), entry.kind, line.owner.uid}});
    }
  }
  static const std::vector<std::string> kOwnerNames{"uid",     "at_us",       "team",        "namespace",    "workload",
                                                    "product", "cost_center", "environment", "workload_type"};
  for (const auto& [owner, labels] : output.introduced) {
    const auto label = [&labels = labels](const char* key) {
      const auto found = labels.find(key);
      return found == labels.end() ? std::string() : found->second;
    };
    effects.appends.push_back({"owners",
                               kOwnerNames,
                               {owner.uid, at, owner.team, owner.ns, owner.workload, label("product"),
                                label("cost-center"), label("environment"), label("workload-type")}});
  }
  for (const auto& total : output.totals) {
    pb::CostEvent event;
    auto* totals = event.mutable_totals();
    totals->set_period(total.period);
    totals->set_team(total.team);
    totals->set_nano_usd(total.amount.nano.nano());
    totals->set_gpu_micros(total.amount.gpu_micros);
    effects.events.push_back({"qm.cost", "total/" + total.period + "/" + total.team, wire::encode(event), false});
  }
  publish_budgets(output, effects);
  append_changed_rows(engine.state(), effects.state);
  effects.wake_at = output.wake_at;
}

Status Codec::load(Engine& engine, std::span<const store::StateRow> rows) {
  QM_ASSIGN(auto state, state_from_rows(rows));
  engine.load(std::move(state));
  return {};
}

void Codec::debug_state(const Engine& engine, service::StateDump& out) const {
  const auto& state = engine.state();
  const auto& meta = engine.meta();
  const auto count = [](std::size_t n) { return Json(static_cast<std::uint64_t>(n)); };
  out.set("now", to_rfc3339(meta.now));
  out.set("horizon", to_rfc3339(meta.horizon));
  out.set("entries", meta.entries);
  out.set("restatements", meta.restatements);
  out.set("lateFacts", meta.late);
  out.set("instances", count(state.instances.size()));
  out.set("nodes", count(state.nodes.size()));
  out.set("assignments", count(state.assignments.size()));
  out.set("slices", count(state.slices.size()));
  out.set("pricePlans", count(state.plans.size()));
  out.set("budgets", count(state.budgets.size()));
  out.set("spent", count(state.spent.size()));
  const auto rows = state.instances.size() + state.slices.size() + state.totals.size() + state.accounts.size();
  out.once("audit",
           [&] { return rows <= kAudited ? Json(engine.audit()) : Json(fmt::format(kTooMany, rows, kAudited)); });
  out.list("accounts", state.accounts.rows(), [](const auto& key, const auto& amount) {
    return std::optional(Json::object({{"account", key.account},
                                       {"team", key.team},
                                       {"usd", amount.nano.to_usd()},
                                       {"gpuMicros", amount.gpu_micros}}));
  });
  out.once("unpriced", [&] {
    if (state.instances.size() > kAudited) return Json(fmt::format(kTooMany, state.instances.size(), kAudited));
    Json unpriced = Json::array();
    for (const auto& id : engine.unpriced(meta.now)) unpriced.push_back(id.value());
    return unpriced;
  });
}

const Engine& engine_of(const service::Shell& shell) { return dynamic_cast<const Shell&>(shell).engine(); }

service::Input prices_input(const PricePlan& plan, std::optional<Instant> from) {
  Json json = Json::object({{"name", plan.name}});
  Json entries = Json::array();
  for (const auto& entry : plan.entries) {
    entries.push_back(Json::object({{"instanceType", entry.instance_type},
                                    {"capacityType", entry.capacity_type},
                                    {"zone", entry.zone},
                                    {"nanoUsdHour", entry.rate.per_hour.nano()}}));
  }
  json.set("entries", std::move(entries));
  if (from) json.set("fromUs", micros(*from));
  service::Input input;
  input.source = service::Source::kWatch;
  input.name = "prices";
  input.bytes = json.dump();
  return input;
}

}  // namespace qm::cost
