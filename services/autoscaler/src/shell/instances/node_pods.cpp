// Pods and nodes as consolidation and the scale-down of node groups need them.
#include "instances/node_pods.hpp"

#include "observed.hpp"
#include "qm/autoscaler/nodes/node_watch.hpp"
#include "qm/autoscaler/scale_down/scale_down.hpp"
#include "qm/config/needs.hpp"
#include "qm/kube/client.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/settings/kind.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

/// A volume that ends with the pod, unless the annotation names it.
std::string local_volume_of(const Json& pod) {
  const auto safe = settings::split(kube::annotation(pod, kSafeLocalVolumes), ',');
  for (const Json& volume : pod["spec"]["volumes"].items()) {
    const bool local = volume.contains("hostPath") ||
                       (volume.contains("emptyDir") && volume["emptyDir"]["medium"].string() != "Memory");
    if (local && std::ranges::find(safe, volume["name"].string()) == safe.end()) return volume["name"].string();
  }
  return {};
}

}  // namespace

std::string controller_of(const Json& pod) {
  for (const Json& owner : pod["metadata"]["ownerReferences"].items()) {
    if (owner["controller"].boolean()) return owner["kind"].string();
  }
  return {};
}

NodePod node_pod_of(const Json& pod) {
  NodePod out;
  const std::string ns = kube::namespace_of(pod);
  out.name = ns + "/" + kube::name_of(pod);
  for (const Json& owner : pod["metadata"]["ownerReferences"].items()) {
    const std::string& kind = owner["kind"].string();
    if (kind == "Node") out.kind = NodePod::Kind::kMirror;
    if (kind == "DaemonSet") out.kind = NodePod::Kind::kDaemon;
  }
  if (kube::annotation(pod, kDaemonSetPod) == "true") out.kind = NodePod::Kind::kDaemon;
  out.controller = controller_of(pod);
  if (!kube::annotation(pod, "kubernetes.io/config.mirror").empty()) out.kind = NodePod::Kind::kMirror;
  if (const auto like = kube_objects::template_from_pod(pod)) out.rules = kube_rules::text_of(*like);
  if (const auto shape = config::shape_held_by(pod)) out.gpu = shape->gpu;
  if (const auto started = from_rfc3339(pod["status"]["startTime"].string())) out.started = *started;
  out.stays = stays_on_drained_node(pod);
  out.local_volume = local_volume_of(pod);
  out.system = ns == "kube-system";
  const std::string safe = kube::annotation(pod, kSafeToEvict);
  if (safe == "true" || safe == "false") out.safe_to_evict = safe == "true";
  out.terminating = !pod.path("metadata.deletionTimestamp").is_null();
  return out;
}

NodePods node_pods_of(const Json& node) {
  NodePods out;
  out.scale_down_disabled = kube::annotation(node, kScaleDownDisabled) == "true";
  const auto view = view_of_running_node(node);
  if (!view) return out;  // without amounts it takes no pods
  out.labels = view->labels;
  out.taints = view->taints;
  out.allocatable = view->allocatable;
  return out;
}

}  // namespace qm::autoscaler
