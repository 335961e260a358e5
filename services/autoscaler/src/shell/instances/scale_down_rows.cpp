#include "instances/scale_down_rows.hpp"

#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"
#include "state/autoscaler_state.pb.h"

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;
namespace {

st::NodePods message(const NodePods& from) {
  st::NodePods row;
  row.mutable_labels()->insert(from.labels.begin(), from.labels.end());
  for (const auto& taint : from.taints) *row.add_taints() = wire::to_pb(taint);
  row.mutable_allocatable()->insert(from.allocatable.begin(), from.allocatable.end());
  row.set_scale_down_disabled(from.scale_down_disabled);
  for (const ScaleDownPod& pod : from.pods) {
    auto* to = row.add_pods();
    to->set_name(pod.name);
    to->set_kind(static_cast<int>(pod.kind));
    to->set_rules(pod.rules);
    to->set_controller(pod.controller);
    to->set_local_volume(pod.local_volume);
    to->set_system(pod.system);
    to->set_has_budget(pod.has_budget);
    to->set_blocked_by(pod.blocked_by);
    if (pod.safe_to_evict) to->set_safe_to_evict(*pod.safe_to_evict);
    to->set_terminating(pod.terminating);
  }
  return row;
}

NodePods node_pods_of(const st::NodePods& row) {
  NodePods out;
  out.labels = Labels(row.labels().begin(), row.labels().end());
  for (const auto& taint : row.taints()) out.taints.push_back(wire::from_pb(taint));
  out.allocatable.insert(row.allocatable().begin(), row.allocatable().end());
  out.scale_down_disabled = row.scale_down_disabled();
  for (const auto& pod : row.pods()) {
    ScaleDownPod& to = out.pods.emplace_back();
    to.name = pod.name();
    to.kind = static_cast<ScaleDownPod::Kind>(pod.kind());
    to.rules = pod.rules();
    to.controller = pod.controller();
    to.local_volume = pod.local_volume();
    to.system = pod.system();
    to.has_budget = pod.has_budget();
    to.blocked_by = pod.blocked_by();
    if (pod.has_safe_to_evict()) to.safe_to_evict = pod.safe_to_evict();
    to.terminating = pod.terminating();
  }
  return out;
}

std::string bytes(const NodePods& pods) { return wire::encode(message(pods)); }
std::string bytes(Instant at) {
  st::Number row;
  row.set_value(micros(at));
  return wire::encode(row);
}

std::string text(const std::string& key) { return key; }
template <class Tag>
std::string text(const Named<Tag>& key) {
  return key.value();
}

template <class Key, class Row>
void append(const Table<Key, Row>& table, const char* kind, std::vector<store::StateRow>& out) {
  table.changed([&](const Key& key, const Row* row) {
    out.push_back({kind, text(key), row == nullptr ? std::nullopt : std::optional(bytes(*row))});
  });
}

template <class Message>
Result<Message> parsed(const std::string& value, const char* kind) {
  Message m;
  if (!m.ParseFromString(value)) return fail(Code::kInternal, "a stored {} cannot be read", kind);
  return m;
}

}  // namespace

void append_changes(const ScaleDownTables& tables, std::vector<store::StateRow>& out) {
  append(tables.pods, "node_pods", out);
  append(tables.unneeded, "unneeded", out);
  append(tables.last, "scale_down", out);
  append(tables.protected_by_us, "protected", out);
}

Result<bool> restore(ScaleDownTables& tables, const store::StateRow& row) {
  if (row.kind == "node_pods") {
    QM_ASSIGN(const auto m, parsed<st::NodePods>(*row.value, "list of the pods of a node"));
    tables.pods.restore(NodeName(row.key), node_pods_of(m));
    return true;
  }
  if (row.kind != "unneeded" && row.kind != "scale_down" && row.kind != "protected") return false;
  QM_ASSIGN(const auto m, parsed<st::Number>(*row.value, "instant of the scale-down"));
  const Instant at = from_micros(m.value());
  if (row.kind == "unneeded") tables.unneeded.restore(NodeName(row.key), at);
  if (row.kind == "scale_down") tables.last.restore(row.key, at);
  if (row.kind == "protected") tables.protected_by_us.restore(InstanceId(row.key), at);
  return true;
}

std::string node_pods_bytes(const NodePodsUpdated& update) {
  st::NodePods m = message(update.pods);
  m.set_node(update.node.value());
  m.set_gone(update.gone);
  return wire::encode(m);
}

Result<NodePodsUpdated> node_pods_from_bytes(const std::string& bytes) {
  QM_ASSIGN(const auto m, parsed<st::NodePods>(bytes, "list of the pods of a node"));
  return NodePodsUpdated{NodeName(m.node()), m.gone(), node_pods_of(m)};
}

st::GroupScaleDown message(const GroupScaleDown& from) {
  st::GroupScaleDown row;
  if (from.utilization_milli) row.set_utilization_milli(*from.utilization_milli);
  if (from.gpu_utilization_milli) row.set_gpu_utilization_milli(*from.gpu_utilization_milli);
  if (from.ignore_daemon_sets) row.set_ignore_daemon_sets(*from.ignore_daemon_sets);
  return row;
}

GroupScaleDown group_scale_down_of(const st::GroupScaleDown& row) {
  GroupScaleDown out;
  if (row.has_utilization_milli()) out.utilization_milli = row.utilization_milli();
  if (row.has_gpu_utilization_milli()) out.gpu_utilization_milli = row.gpu_utilization_milli();
  if (row.has_ignore_daemon_sets()) out.ignore_daemon_sets = row.ignore_daemon_sets();
  return out;
}

void encode_protections(const std::vector<ProtectIntent>& protections, service::Effects& effects) {
  for (const ProtectIntent& one : protections) {
    Json instances = Json::array();
    for (const InstanceId& instance : one.instances) instances.push_back(instance.value());
    const Json payload =
        Json::object({{"group", one.group}, {"instances", std::move(instances)}, {"protect", one.protect}});
    effects.intents.push_back({fmt::format("protect/{}/{}", one.group, one.number), "group.protect",
                               "protect/" + one.group, 0, payload.dump()});
  }
}

}  // namespace qm::autoscaler
