#include "shell/wire.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

template <class Map>
auto plain_map(const Map& from) {
  return std::map<typename Map::key_type, typename Map::mapped_type>(from.begin(), from.end());
}

}  // namespace

pb::Taint to_pb(const Taint& taint) {
  pb::Taint out;
  out.set_key(taint.key);
  out.set_value(taint.value);
  out.set_effect(taint.effect);
  return out;
}
Taint from_pb(const pb::Taint& taint) { return {taint.key(), taint.value(), taint.effect()}; }

pb::DeviceRef to_pb(const DeviceRef& device) {
  pb::DeviceRef out;
  out.set_node(device.node.value());
  out.set_index(device.index);
  out.set_uuid(device.uuid.value());
  out.set_milli(device.milli);
  out.set_mig_profile(device.mig_profile);
  return out;
}
DeviceRef from_pb(const pb::DeviceRef& device) {
  return {NodeName(device.node()), device.index(), DeviceUuid(device.uuid()), device.milli(), device.mig_profile()};
}

pb::PodShape to_pb(const PodShape& shape) {
  pb::PodShape out;
  out.set_cpu_milli(shape.cpu_milli);
  out.set_memory_bytes(shape.memory_bytes);
  auto* gpu = out.mutable_gpu();
  gpu->set_whole(shape.gpu.whole);
  gpu->set_milli(shape.gpu.milli);
  gpu->set_mig_profile(shape.gpu.mig_profile);
  gpu->set_mig_count(shape.gpu.mig_count);
  for (const auto& model : shape.gpu.models) gpu->add_models(model);
  for (const auto& [key, value] : shape.node_selector) (*out.mutable_node_selector())[key] = value;
  for (const auto& toleration : shape.tolerations) {
    auto* t = out.add_tolerations();
    t->set_key(toleration.key);
    t->set_operator_(toleration.op);
    t->set_value(toleration.value);
    t->set_effect(toleration.effect);
  }
  for (const auto& [key, value] : shape.extended) (*out.mutable_extended())[key] = value;
  return out;
}
PodShape from_pb(const pb::PodShape& shape) {
  PodShape out;
  out.cpu_milli = shape.cpu_milli();
  out.memory_bytes = shape.memory_bytes();
  const auto& gpu = shape.gpu();
  out.gpu = {gpu.whole(), gpu.milli(), gpu.mig_profile(), gpu.mig_count(), {gpu.models().begin(), gpu.models().end()}};
  std::ranges::sort(out.gpu.models);
  out.node_selector = plain_map(shape.node_selector());
  for (const auto& t : shape.tolerations()) out.tolerations.push_back({t.key(), t.operator_(), t.value(), t.effect()});
  out.extended = plain_map(shape.extended());
  return out;
}

pb::PodSet to_pb(const PodSet& set) {
  pb::PodSet out;
  out.set_name(set.name);
  out.set_count(set.count);
  out.set_min_count(set.min_count);
  *out.mutable_shape() = to_pb(set.shape);
  return out;
}
PodSet from_pb(const pb::PodSet& set) { return {set.name(), set.count(), set.min_count(), from_pb(set.shape())}; }

pb::WorkloadSpec to_pb(const WorkloadSpec& spec) {
  pb::WorkloadSpec out;
  out.set_uid(spec.uid.value());
  out.set_namespace_(spec.ns.value());
  out.set_name(spec.name);
  out.set_kind(spec.kind);
  out.set_queue(spec.queue);
  out.set_priority(spec.priority);
  out.set_priority_class(spec.priority_class);
  out.set_team(spec.team.value());
  for (const auto& set : spec.pod_sets) *out.add_pod_sets() = to_pb(set);
  out.set_submitted_us(micros(spec.submitted));
  out.set_expected_runtime_us(spec.expected_runtime.count());
  for (const auto& [key, value] : spec.labels) (*out.mutable_labels())[key] = value;
  out.set_checkpoints(spec.checkpoints);
  return out;
}
WorkloadSpec from_pb(const pb::WorkloadSpec& spec) {
  WorkloadSpec out;
  out.uid = WorkloadUid(spec.uid());
  out.ns = Namespace(spec.namespace_());
  out.name = spec.name();
  out.kind = spec.kind();
  out.queue = spec.queue();
  out.priority = spec.priority();
  out.priority_class = spec.priority_class();
  out.team = Team(spec.team());
  for (const auto& set : spec.pod_sets()) out.pod_sets.push_back(from_pb(set));
  out.submitted = from_micros(spec.submitted_us());
  out.expected_runtime = Duration(spec.expected_runtime_us());
  out.labels = plain_map(spec.labels());
  out.checkpoints = spec.checkpoints();
  return out;
}

pb::AssignmentState to_pb(AssignmentState state) {
  switch (state) {
    case AssignmentState::kReserved: return pb::RESERVED;
    case AssignmentState::kShort: return pb::SHORT;
    case AssignmentState::kBound: return pb::BOUND;
    case AssignmentState::kReleased: return pb::RELEASED;
    case AssignmentState::kExpired: return pb::EXPIRED;
  }
  return pb::ASSIGNMENT_STATE_UNSPECIFIED;
}

pb::AssignmentMember to_pb(const Member& member, const std::vector<PodSet>& pod_sets) {
  pb::AssignmentMember out;
  out.set_pod_set(pod_sets.at(static_cast<std::size_t>(member.set)).name);
  out.set_index(member.index);
  out.set_node(member.node.value());
  for (const auto& device : member.devices) *out.add_devices() = to_pb(device);
  out.set_pod(member.pod);
  out.set_pod_uid(member.pod_uid);
  out.set_bound_us(micros(member.bound));
  out.set_released_us(micros(member.released));
  return out;
}

pb::AssignmentEvent to_pb(const AttemptId& id, const Assignment& assignment) {
  pb::AssignmentEvent out;
  out.set_uid(id.uid.value());
  out.set_attempt(id.attempt);
  out.set_state(to_pb(assignment.state));
  if (!assignment.members.empty()) out.set_reservation_id(id.to_string());
  out.set_expires_us(micros(assignment.expires));
  for (const auto& member : assignment.members) *out.add_members() = to_pb(member, assignment.pod_sets);
  out.set_short_reason(assignment.short_reason);
  out.set_decided_us(micros(assignment.decided));
  out.set_team(assignment.team.value());
  out.set_namespace_(assignment.ns.value());
  out.set_workload(assignment.workload);
  return out;
}

pb::EvictionRequested to_pb(const AttemptId& id, const EvictionAsk& ask) {
  pb::EvictionRequested out;
  out.set_uid(id.uid.value());
  out.set_attempt(id.attempt);
  out.set_reason(ask.reason);
  out.set_message(ask.message);
  out.set_deadline_us(micros(ask.deadline));
  out.set_node(ask.node.value());
  out.set_pods_lost(ask.pods_lost);
  return out;
}

pb::DemandList to_pb(const std::vector<DemandItem>& items) {
  pb::DemandList out;
  for (const auto& item : items) {
    auto* i = out.add_items();
    i->set_uid(item.id.uid.value());
    i->set_attempt(item.id.attempt);
    for (const auto& set : item.pod_sets) *i->add_pod_sets() = to_pb(set);
    i->set_priority(item.priority);
    i->set_since_us(micros(item.since));
    i->set_checkpoints(item.checkpoints);
  }
  return out;
}

pb::NodeEvent to_pb(const NodeName& name, const Node& node) {
  pb::NodeEvent out;
  out.set_node(name.value());
  switch (node.state) {
    case NodeState::kReady: out.set_state(pb::NODE_READY); break;
    case NodeState::kNotReady: out.set_state(pb::NODE_NOT_READY); break;
    case NodeState::kCordoned: out.set_state(pb::NODE_CORDONED); break;
    case NodeState::kGone: out.set_state(pb::NODE_GONE); break;
  }
  out.set_provider_id(node.facts.provider_id);
  out.set_instance_type(node.facts.instance_type);
  out.set_zone(node.facts.zone);
  out.set_capacity_type(node.facts.capacity_type);
  out.set_gpus(node.facts.gpus);
  out.set_gpu_model(node.facts.model);
  out.set_cpu_milli(node.facts.cpu_milli);
  out.set_memory_bytes(node.facts.memory_bytes);
  for (const auto& [key, value] : node.facts.labels) (*out.mutable_labels())[key] = value;
  for (const auto& taint : node.facts.taints) *out.add_taints() = to_pb(taint);
  out.set_since_us(micros(node.since));
  out.set_reason(node.reason);
  out.set_pods(node.pods);
  out.set_empty_since_us(micros(node.empty_since));
  return out;
}

}  // namespace qm::placement
