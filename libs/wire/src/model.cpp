#include "qm/wire/model.hpp"

#include <algorithm>

namespace qm::wire {
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

pb::Toleration to_pb(const Toleration& toleration) {
  pb::Toleration out;
  out.set_key(toleration.key);
  out.set_operator_(toleration.op);
  out.set_value(toleration.value);
  out.set_effect(toleration.effect);
  return out;
}
Toleration from_pb(const pb::Toleration& t) { return {t.key(), t.operator_(), t.value(), t.effect()}; }

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
  for (const auto& t : shape.tolerations) *out.add_tolerations() = to_pb(t);
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
  for (const auto& t : shape.tolerations()) out.tolerations.push_back(from_pb(t));
  out.extended = plain_map(shape.extended());
  return out;
}

pb::PodSet to_pb(const PodSet& set) {
  pb::PodSet out;
  out.set_name(set.name);
  out.set_count(set.count);
  out.set_min_count(set.min_count);
  *out.mutable_shape() = to_pb(set.shape);
  const PodSetTopology& asked = set.topology;
  if (!asked.none() || asked.unconstrained) {
    auto& topology = *out.mutable_topology();
    topology.set_required(asked.required);
    topology.set_preferred(asked.preferred);
    topology.set_slice(asked.slice);
    topology.set_slice_size(asked.slice_size);
    topology.set_group(asked.group);
    topology.set_exclusive(asked.exclusive);
    topology.set_unconstrained(asked.unconstrained);
  }
  out.set_rules(set.rules);
  out.set_completions(set.completions);
  return out;
}
PodSet from_pb(const pb::PodSet& set) {
  const auto& topology = set.topology();
  return {set.name(),
          set.count(),
          set.min_count(),
          from_pb(set.shape()),
          {topology.required(), topology.preferred(), topology.slice(), topology.slice_size(), topology.group(),
           topology.exclusive(), topology.unconstrained()},
          set.rules(),
          set.completions()};
}

pb::NodeReport to_pb(const NodeName& node, const NodeReport& report, Instant at) {
  pb::NodeReport out;
  out.set_node(node.value());
  out.set_at_us(micros(at));
  for (const auto& [key, value] : report.labels) (*out.mutable_labels())[key] = value;
  for (const auto& [key, value] : report.annotations) (*out.mutable_annotations())[key] = value;
  for (const auto& prefix : report.owned_prefixes) out.add_owned_prefixes(prefix);
  return out;
}
NodeReport from_pb(const pb::NodeReport& report) {
  return {plain_map(report.labels()),
          plain_map(report.annotations()),
          {report.owned_prefixes().begin(), report.owned_prefixes().end()}};
}

pb::CheckpointTerms to_pb(const CheckpointTerms& terms) {
  pb::CheckpointTerms out;
  out.set_interval_us(terms.interval.count());
  out.set_steps(terms.steps);
  out.set_quorum(terms.quorum);
  out.set_expected_us(terms.expected.count());
  out.set_uri(terms.uri);
  return out;
}
CheckpointTerms from_pb(const pb::CheckpointTerms& terms) {
  return {Duration(terms.interval_us()), terms.steps(), terms.quorum(), Duration(terms.expected_us()), terms.uri()};
}

pb::StepSave to_pb(const StepSave& save) {
  pb::StepSave out;
  out.set_step(save.step);
  out.set_epoch(save.epoch);
  out.set_ranks(save.ranks);
  out.set_uri(save.uri);
  out.set_bytes(save.bytes);
  out.set_took_us(save.took.count());
  return out;
}
StepSave from_pb(const pb::StepSave& save) {
  return {save.step(), save.epoch(), save.ranks(), save.uri(), save.bytes(), Duration(save.took_us())};
}

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
  if (spec.checkpoint != CheckpointTerms{}) *out.mutable_checkpoint() = to_pb(spec.checkpoint);
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
  out.checkpoint = from_pb(spec.checkpoint());
  return out;
}

}  // namespace qm::wire
