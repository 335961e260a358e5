#include "qm/base/log.hpp"
#include "qm/model/checkpoint.hpp"
#include "qm/telemetry/shell.hpp"
#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"
#include "qm/wire/parse.hpp"
#include "quartermaster/v1/events.pb.h"
#include "state/telemetry_state.pb.h"
#include "wire.hpp"

namespace qm::telemetry {
namespace st = quartermaster::telemetry::state;

namespace {

template <class Message>
Result<Message> read(const std::string& bytes, const std::string& what) {
  return wire::parse<Message>(bytes, what);
}

/// A stored row, unchanged.
template <class Message>
Result<Message> stored(const std::string& bytes, const std::string& kind) {
  Message m;
  if (!m.ParseFromString(bytes)) return fail(Code::kInternal, "a stored {} cannot be read", kind);
  return m;
}

Result<std::vector<Command>> fact(const service::Input& in) {
  QM_ASSIGN(const auto f, read<pb::AgentFact>(in.bytes, "fact " + in.id));
  switch (f.fact_case()) {
    case pb::AgentFact::kDevices:
      return std::vector<Command>{from_pb(f.devices())};
    case pb::AgentFact::kNodeReport:
      return std::vector<Command>{NodeReportUpdated{
          NodeName(f.node_report().node()), from_micros(f.node_report().at_us()), wire::from_pb(f.node_report())}};
    case pb::AgentFact::kXid: {
      const auto& x = f.xid();
      XidUpdated seen{NodeName(x.node()),       x.xid(),  x.gpu_index(),
                      DeviceUuid(x.gpu_uuid()), x.line(), from_micros(x.at_us())};
      if (x.has_recovery_action()) seen.recovery_action = x.recovery_action();
      seen.standing = x.at_first_poll();
      seen.cleared = x.cleared();
      seen.boot = x.boot_id();
      return std::vector<Command>{std::move(seen)};
    }
    case pb::AgentFact::kNotice: {
      const auto& n = f.notice();
      return std::vector<Command>{
          NoticeUpdated{NodeName(n.node()), InstanceId(n.instance_id()), n.action(), from_micros(n.at_us()), n.kind()}};
    }
    case pb::AgentFact::kAck: {
      AckUpdated ack = from_pb(f.ack());
      Status checked = check_resume_uri(ack.uri);
      for (const auto& save : ack.saves) {
        if (checked) checked = check_resume_uri(save.uri);
      }
      if (!checked) {
        ack.ok = false;
        ack.uri.clear();
        ack.saves.clear();
        ack.message = checked.error().message;
      }
      return std::vector<Command>{std::move(ack)};
    }
    case pb::AgentFact::FACT_NOT_SET:
      break;
  }
  // Empty, or of a kind that a newer agent knows: it is accepted, otherwise it would be repeated for ever.
  log::warn("a fact of unknown kind is ignored", {{"fact", in.id}});
  return std::vector<Command>{};
}

Result<std::vector<Command>> bus(const service::Input& in) {
  if (in.name == "qm.capacity") {
    QM_ASSIGN(const auto e, read<pb::CapacityEvent>(in.bytes, in.name));
    if (!e.has_checkpoint()) return std::vector<Command>{};
    const auto& o = e.checkpoint();
    OrderUpdated update{o.id(),
                        {WorkloadUid(o.uid()), o.attempt()},
                        {},
                        o.reason(),
                        from_micros(o.deadline_us()),
                        !o.outcome().empty(),
                        o.namespace_(),
                        o.kind(),
                        o.number()};
    for (const auto& n : o.nodes()) update.nodes.emplace_back(n);
    return std::vector<Command>{std::move(update)};
  }
  if (in.name == "qm.node") {
    QM_ASSIGN(const auto e, read<pb::NodeEvent>(in.bytes, in.name));
    if (e.state() != pb::NODE_GONE && !in.tombstone) return std::vector<Command>{};
    return std::vector<Command>{NodeDeleted{NodeName(e.node().empty() ? in.key : e.node())}};
  }
  return fail(Code::kInvalid, "no topic of ours: {}", in.name);
}

std::string acked_key(const std::pair<std::string, NodeName>& key) { return key.first + "|" + key.second.value(); }

std::string order_bytes(const OpenOrder& o) {
  st::Order row;
  row.set_uid(o.id.uid.value());
  row.set_attempt(o.id.attempt);
  for (const auto& n : o.nodes) row.add_nodes(n.value());
  row.set_reason(o.reason);
  row.set_deadline_us(micros(o.deadline));
  row.set_ns(o.ns);
  row.set_kind(o.kind);
  row.set_number(o.number);
  return wire::encode(row);
}

std::string xids_bytes(const LastXids& xids) {
  st::LastXids row;
  row.set_boot(xids.boot);
  row.set_boot_before(xids.boot_before);
  const auto fill = [](auto& out, const LastXids::Last& from) {
    out.set_xid(from.xid);
    out.set_at_us(micros(from.at));
    if (from.recovery_action) out.set_recovery_action(*from.recovery_action);
  };
  for (const auto& [gpu, reports] : xids.gpus) {
    auto* one = row.add_gpus();
    one->set_gpu(gpu);
    fill(*one, reports.front());
    for (std::size_t i = 1; i < reports.size(); ++i) fill(*one->add_before(), reports[i]);
  }
  return wire::encode(row);
}

LastXids xids_of(const st::LastXids& row) {
  LastXids xids{row.boot(), row.boot_before(), {}};
  const auto read = [](const auto& from) {
    LastXids::Last last{from_micros(from.at_us()), from.xid(), {}};
    if (from.has_recovery_action()) last.recovery_action = from.recovery_action();
    return last;
  };
  for (const auto& one : row.gpus()) {
    auto& reports = xids.gpus[one.gpu()];
    reports.push_back(read(one));
    for (const auto& before : one.before()) reports.push_back(read(before));
  }
  return xids;
}

Json dump(const LastXids::Last& last) {
  Json out = Json::object({{"xid", last.xid}});
  if (last.recovery_action) out.set("recovery_action", *last.recovery_action);
  return out;
}

}  // namespace

const Engine& engine_of(const service::Shell& shell) { return static_cast<const Shell&>(shell).engine(); }

service::Input fact_input(const pb::AgentFact& f) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "fact";
  in.id = f.id();
  in.bytes = wire::encode(f);
  return in;
}

service::Input usage_input(const pb::UsageInterval& u) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "usage";
  in.bytes = wire::encode(u);
  return in;
}

pb::CheckpointOrder order_message(const std::string& id, const OpenOrder& order) {
  pb::CheckpointOrder m;
  m.set_id(id);
  m.set_uid(order.id.uid.value());
  m.set_attempt(order.id.attempt);
  for (const auto& n : order.nodes) m.add_nodes(n.value());
  m.set_reason(order.reason);
  m.set_deadline_us(micros(order.deadline));
  m.set_namespace_(order.ns);
  m.set_kind(order.kind);
  m.set_number(order.number);
  return m;
}

Result<std::vector<Command>> Codec::decode(const service::Input& in) const {
  switch (in.source) {
    case service::Source::kBus:
      return bus(in);
    case service::Source::kWatch: {
      if (in.name == "fact") return fact(in);
      if (in.name == "usage") {
        QM_ASSIGN(const auto u, read<pb::UsageInterval>(in.bytes, in.name));
        return std::vector<Command>{from_pb(u)};
      }
      return fail(Code::kInvalid, "no watch of ours: {}", in.name);
    }
    case service::Source::kOutcome:
      return std::vector<Command>{};  // an order was sent to an agent
    case service::Source::kTimer:
      return std::vector<Command>{Tick{}};
    case service::Source::kRequest:
      break;
  }
  return fail(Code::kUnimplemented, "telemetry has no request {}", in.name);
}

void Codec::encode(const Engine& engine, const Output& out, std::span<const std::size_t>,
                   service::Effects& effects) const {
  const auto gpu = [&](const std::string& key, const pb::GpuEvent& e, bool gone) {
    effects.events.push_back({"qm.gpu", key, wire::encode(e), gone});
  };
  const auto spot = [&](const std::string& key, const pb::SpotEvent& e, bool gone) {
    effects.events.push_back({"qm.spot", key, wire::encode(e), gone});
  };
  for (const auto& h : out.health) {
    pb::GpuEvent e;
    *e.mutable_health() = to_pb(h.node, h.row);
    gpu("health/" + h.node.value(), e, h.gone);
  }
  for (const auto& d : out.devices) {
    pb::GpuEvent e;
    *e.mutable_devices() = to_pb(d.seen);
    gpu("devices/" + d.seen.node.value(), e, d.gone);
  }
  for (const auto& s : out.report) {
    pb::GpuEvent e;
    *e.mutable_node_report() = wire::to_pb(s.seen.node, s.seen.report, s.seen.at);
    gpu("node-report/" + s.seen.node.value(), e, s.gone);
  }
  for (const auto& u : out.usage) {
    pb::GpuEvent e;
    *e.mutable_usage() = to_pb(u);
    gpu(fmt::format("usage/{}/{}", u.node, u.gpu_index), e, false);
  }
  for (const auto& n : out.notices) {
    pb::SpotEvent e;
    *e.mutable_notice() = to_pb(n.node, n.row);
    spot("notice/" + n.node.value(), e, n.gone);
  }
  for (const auto& a : out.acks) {
    pb::SpotEvent e;
    *e.mutable_ack() = to_pb(a);
    spot("ack/" + a.order + "/" + a.node.value(), e, false);
  }
  for (const auto& [order, node] : out.ended_acks) {
    pb::SpotEvent e;
    e.mutable_ack()->set_order_id(order);
    e.mutable_ack()->set_node(node.value());
    e.mutable_ack()->set_message("the order is over");
    spot("ack/" + order + "/" + node.value(), e, true);
  }

  for (const auto& a : out.foreign_acks) {
    log::warn("acknowledgement of a checkpoint is for another workload than its order, and is dropped",
              {{"order", a.order}, {"node", a.node.value()}, {"workload", a.id.to_string()}, {"namespace", a.ns}});
  }

  for (const auto& node : out.gone) {
    if (node_gone_) node_gone_(node);
  }

  const auto& t = engine.tables();
  t.orders.changed([&](const std::string& id, const OpenOrder* order) {
    effects.state.push_back({"order", id, order == nullptr ? std::nullopt : std::optional(order_bytes(*order))});
    if (order == nullptr) return;
    // One intent per node: the hub sends it to the node's agent, now or when it connects.
    pb::AgentOrder message;
    *message.mutable_checkpoint() = order_message(id, *order);
    for (const auto& node : order->nodes) {
      effects.intents.push_back(
          {"order/" + id + "/" + node.value(), "agent.order", node.value(), 0, wire::encode(message)});
    }
  });
  t.health.changed([&](const NodeName& node, const Health* row) {
    effects.state.push_back(
        {"health", node.value(), row == nullptr ? std::nullopt : std::optional(wire::encode(to_pb(node, *row)))});
  });
  t.notices.changed([&](const NodeName& node, const Notice* row) {
    effects.state.push_back(
        {"notice", node.value(), row == nullptr ? std::nullopt : std::optional(wire::encode(to_pb(node, *row)))});
  });
  t.acked.changed([&](const auto& key, const std::int64_t* step) {
    st::Acked row;
    if (step != nullptr) row.set_step(*step);
    effects.state.push_back(
        {"acked", acked_key(key), step == nullptr ? std::nullopt : std::optional(wire::encode(row))});
  });
  t.devices.changed([&](const NodeName& node, const std::vector<DevicesUpdated::Pod>* pods) {
    effects.state.push_back(
        {"devices", node.value(),
         pods == nullptr ? std::nullopt : std::optional(wire::encode(to_pb(DevicesUpdated{node, {}, *pods})))});
  });
  t.report.changed([&](const NodeName& node, const NodeReport* report) {
    effects.state.push_back(
        {"node_report", node.value(),
         report == nullptr ? std::nullopt : std::optional(wire::encode(wire::to_pb(node, *report, {})))});
  });
  t.xids.changed([&](const NodeName& node, const LastXids* row) {
    effects.state.push_back({"xids", node.value(), row == nullptr ? std::nullopt : std::optional(xids_bytes(*row))});
  });
  t.xids_until.changed([&](const NodeName& node, const Instant* until) {
    st::XidsUntil row;
    if (until != nullptr) row.set_until_us(micros(*until));
    effects.state.push_back(
        {"xids_until", node.value(), until == nullptr ? std::nullopt : std::optional(wire::encode(row))});
  });
  effects.wake_at = out.wake_at;
}

Status Codec::load(Engine& engine, std::span<const store::StateRow> rows) const {
  engine.mutable_tables() = Tables{};
  auto& t = engine.mutable_tables();
  for (const auto& row : rows) {
    const std::string& value = *row.value;
    if (row.kind == "order") {
      QM_ASSIGN(const auto m, stored<st::Order>(value, row.kind));
      OpenOrder o{{WorkloadUid(m.uid()), m.attempt()},
                  {},
                  m.reason(),
                  from_micros(m.deadline_us()),
                  m.ns(),
                  m.kind(),
                  m.number()};
      for (const auto& n : m.nodes()) o.nodes.emplace_back(n);
      t.orders.restore(row.key, std::move(o));
    } else if (row.kind == "health") {
      QM_ASSIGN(const auto m, stored<pb::HealthVerdict>(value, row.kind));
      t.health.restore(NodeName(row.key), from_pb(m));
    } else if (row.kind == "notice") {
      QM_ASSIGN(const auto m, stored<pb::SpotNotice>(value, row.kind));
      t.notices.restore(NodeName(row.key), from_pb(m));
    } else if (row.kind == "acked") {
      QM_ASSIGN(const auto m, stored<st::Acked>(value, row.kind));
      const auto bar = row.key.rfind('|');
      t.acked.restore({row.key.substr(0, bar), NodeName(row.key.substr(bar + 1))}, m.step());
    } else if (row.kind == "devices") {
      QM_ASSIGN(const auto m, stored<pb::DeviceObservation>(value, row.kind));
      t.devices.restore(NodeName(row.key), from_pb(m).pods);
    } else if (row.kind == "node_report") {
      QM_ASSIGN(const auto m, stored<pb::NodeReport>(value, row.kind));
      t.report.restore(NodeName(row.key), wire::from_pb(m));
    } else if (row.kind == "xids") {
      QM_ASSIGN(const auto m, stored<st::LastXids>(value, row.kind));
      t.xids.restore(NodeName(row.key), xids_of(m));
    } else if (row.kind == "xids_until") {
      QM_ASSIGN(const auto m, stored<st::XidsUntil>(value, row.kind));
      t.xids_until.restore(NodeName(row.key), from_micros(m.until_us()));
    } else {
      return fail(Code::kInternal, "the state has a row of unknown kind \"{}\"", row.kind);
    }
  }
  return {};
}

void Codec::debug_state(const Engine& engine, service::StateDump& out) const {
  const auto& t = engine.tables();
  out.map("health", t.health.rows(),
          [](const auto& node, const auto& h) { return std::pair(node.value(), Json(h.reason)); });
  out.map("orders", t.orders.rows(), [&](const auto& id, const auto& o) {
    Json waits = Json::array();
    for (const auto& node : o.nodes) {
      if (!t.acked.contains({id, node})) waits.push_back(node.value());
    }
    out.weigh(o.nodes.size());
    return std::pair(id, Json::object({{"deadline", to_rfc3339(o.deadline)}, {"waits_for", std::move(waits)}}));
  });
  out.map("last_xids", t.xids.rows(), [&](const auto& node, const auto& row) {
    Json last = Json::object();
    for (const auto& [gpu, reports] : row.gpus) last.set(gpu, dump(reports.front()));
    out.weigh(row.gpus.size());
    return std::pair(node.value(), std::move(last));
  });
  out.set("gone_nodes_with_xids", std::int64_t(t.xids_until.size()));
  out.set("notices", std::int64_t(t.notices.size()));
  out.set("nodes_with_devices", std::int64_t(t.devices.size()));
}

}  // namespace qm::telemetry
