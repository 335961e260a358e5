#include "instances/node_pods_rows.hpp"

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
  row.set_changed_us(micros(from.changed));
  for (const NodePod& pod : from.pods) {
    auto* to = row.add_pods();
    to->set_name(pod.name);
    to->set_kind(static_cast<int>(pod.kind));
    to->set_rules(pod.rules);
    to->set_controller(pod.controller);
    to->set_local_volume(pod.local_volume);
    to->set_system(pod.system);
    to->set_gpus(pod.gpu.whole);
    to->set_gpu_milli(pod.gpu.milli);
    to->set_mig_profile(pod.gpu.mig_profile);
    to->set_mig_count(pod.gpu.mig_count);
    for (const auto& model : pod.gpu.models) to->add_gpu_models(model);
    to->set_started_us(micros(pod.started));
    to->set_stays(pod.stays);
    to->set_budget(pod.budget);
    to->set_budget_allows(pod.budget_allows);
    to->set_blocked_by(pod.blocked_by);
    if (pod.safe_to_evict) to->set_safe_to_evict(*pod.safe_to_evict);
    to->set_terminating(pod.terminating);
  }
  return row;
}

}  // namespace

NodePods node_pods_of(const st::NodePods& row) {
  NodePods out;
  out.labels = Labels(row.labels().begin(), row.labels().end());
  for (const auto& taint : row.taints()) out.taints.push_back(wire::from_pb(taint));
  out.allocatable.insert(row.allocatable().begin(), row.allocatable().end());
  out.scale_down_disabled = row.scale_down_disabled();
  out.changed = from_micros(row.changed_us());
  for (const auto& pod : row.pods()) {
    NodePod& to = out.pods.emplace_back();
    to.name = pod.name();
    to.kind = static_cast<NodePod::Kind>(pod.kind());
    to.rules = pod.rules();
    to.controller = pod.controller();
    to.local_volume = pod.local_volume();
    to.system = pod.system();
    to.gpu = {pod.gpus(),
              pod.gpu_milli(),
              pod.mig_profile(),
              pod.mig_count(),
              {pod.gpu_models().begin(), pod.gpu_models().end()}};
    to.started = from_micros(pod.started_us());
    to.stays = pod.stays();
    to.budget = pod.budget();
    to.budget_allows = pod.budget_allows();
    to.blocked_by = pod.blocked_by();
    if (pod.has_safe_to_evict()) to.safe_to_evict = pod.safe_to_evict();
    to.terminating = pod.terminating();
  }
  return out;
}

std::string bytes(const NodePods& pods) { return wire::encode(message(pods)); }
std::string node_pods_bytes(const NodePodsUpdated& update) {
  st::NodePods m = message(update.pods);
  m.set_node(update.node.value());
  m.set_gone(update.gone);
  return wire::encode(m);
}

Result<NodePodsUpdated> node_pods_from_bytes(const std::string& bytes) {
  st::NodePods m;
  if (!m.ParseFromString(bytes)) return fail(Code::kInternal, "a list of the pods of a node cannot be read");
  return NodePodsUpdated{NodeName(m.node()), m.gone(), node_pods_of(m)};
}

}  // namespace qm::autoscaler
