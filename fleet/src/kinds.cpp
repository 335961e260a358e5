#include "kinds.hpp"

#include "definitions.hpp"
#include "qm/apiserver/schema.hpp"
#include "qm/base/assert.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr bool kNamespaced = true, kCluster = false, kWithStatus = true;

std::vector<Kind> make_kinds() {
  std::vector<Kind> all = {
      {"", "v1", "pods", "Pod", kNamespaced, kWithStatus},
      {"", "v1", "nodes", "Node", kCluster, kWithStatus},
      {"", "v1", "events", "Event", kNamespaced},
      {"", "v1", "configmaps", "ConfigMap", kNamespaced},
      {"", "v1", "secrets", "Secret", kNamespaced},
      {"", "v1", "services", "Service", kNamespaced, kWithStatus},
      {"", "v1", "serviceaccounts", "ServiceAccount", kNamespaced},
      {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", kNamespaced, kWithStatus},
      {"", "v1", "persistentvolumes", "PersistentVolume", kCluster, kWithStatus},
      {"storage.k8s.io", "v1", "storageclasses", "StorageClass", kCluster},
      {"storage.k8s.io", "v1", "csinodes", "CSINode", kCluster},
      {"", "v1", "limitranges", "LimitRange", kNamespaced},
      {"", "v1", "resourcequotas", "ResourceQuota", kNamespaced, kWithStatus},
      {"", "v1", "namespaces", "Namespace", kCluster, kWithStatus},
      {"batch", "v1", "jobs", "Job", kNamespaced, kWithStatus},
      {"apps", "v1", "deployments", "Deployment", kNamespaced, kWithStatus},
      {"coordination.k8s.io", "v1", "leases", "Lease", kNamespaced},
      {"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", kCluster},
      {"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", kCluster},
      {"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", kNamespaced, kWithStatus},
      {"autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", kNamespaced, kWithStatus},
      {"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", kNamespaced},
      {"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", kCluster, kWithStatus},
      {"karpenter.sh", "v1", "nodeclaims", "NodeClaim", kCluster, kWithStatus},
      {"karpenter.sh", "v1", "nodepools", "NodePool", kCluster, kWithStatus},
      {"karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", kCluster, kWithStatus},
      {"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", kNamespaced, kWithStatus},
      {"scheduling.volcano.sh", "v1beta1", "queues", "Queue", kCluster, kWithStatus},
      {"kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", kNamespaced, kWithStatus},
      {"quartermaster.dev", "v1alpha1", "budgets", "Budget", kCluster, kWithStatus},
      {"quartermaster.dev", "v1alpha1", "priceplans", "PricePlan", kCluster, kWithStatus},
      {"quartermaster.dev", "v1alpha1", "checkpointpolicies", "CheckpointPolicy", kCluster, kWithStatus},
      {"quartermaster.dev", "v1alpha1", "capacitypools", "CapacityPool", kCluster, kWithStatus},
  };
  for (const char* version : {"v1beta1", "v1beta2"}) {
    const std::string group = "kueue.x-k8s.io";
    all.push_back({group, version, "clusterqueues", "ClusterQueue", kCluster, kWithStatus});
    all.push_back({group, version, "localqueues", "LocalQueue", kNamespaced, kWithStatus});
    all.push_back({group, version, "workloads", "Workload", kNamespaced, kWithStatus});
    all.push_back({group, version, "resourceflavors", "ResourceFlavor", kCluster});
    all.push_back({group, version, "workloadpriorityclasses", "WorkloadPriorityClass", kCluster});
    all.push_back({group, version, "cohorts", "Cohort", kCluster, kWithStatus});
    all.push_back({group, version, "topologies", "Topology", kCluster});
    all.push_back({group, version, "admissionchecks", "AdmissionCheck", kCluster, kWithStatus});
  }
  return all;
}

Answered<void> unless_any(const Kind& kind, const std::string& name, const apiserver::Causes& causes) {
  return causes.empty() ? Answered<void>() : refused(apiserver::invalid(kind.type(), name, causes));
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = make_kinds();
  return all;
}

const Kind* find_kind(std::string_view group, std::string_view version, std::string_view plural) {
  for (const Kind& kind : kinds()) {
    if (kind.plural == plural && kind.group == group && kind.version == version) return &kind;
  }
  return nullptr;
}

const Kind& kind_of(std::string_view plural) {
  for (const Kind& kind : kinds()) {
    if (kind.plural == plural) return kind;
  }
  QM_ASSERT(false, "no kind {}", plural);
  __builtin_unreachable();
}

apiserver::Type Kind::type() const { return {group, version, plural, kind}; }

Json status_of(const Refusal& refusal) {
  return apiserver::status_of({refusal.code, refusal.reason, refusal.message, refusal.details});
}

Refused refused(apiserver::Answer answer) {
  const std::string& field = answer.details["causes"].at(0)["field"].string();
  return tl::unexpected(
      Refusal{answer.code, std::move(answer.reason), std::move(answer.message), field, answer.details});
}

Refused conflict(const Kind& kind, std::string_view name, std::string_view why) {
  return refused(apiserver::conflict(kind.type(), name, why));
}
Refused bad_request(std::string_view why) { return refused(apiserver::bad_request(why)); }
Refused expired(std::string_view why) { return refuse(410, "Expired", "{}", why); }
Refused too_large(std::uint64_t wanted, std::uint64_t current) {
  return refuse(504, "Timeout", "Too large resource version: {}, current: {}", wanted, current);
}

Answered<void> prepare_create(const Kind& kind, Json& object) {
  if (kind.status && kind.plural != "nodes") object.erase("status");  // set only through the subresource
  apiserver::set_defaults(kind.kind, object);
  apiserver::Causes causes;
  apiserver::check_object(kind.kind, object, causes);
  if (const Json* schema = schema_of(kind)) {
    apiserver::set_schema_defaults(*schema, object);
    apiserver::check_schema(*schema, object, causes);
  }
  return unless_any(kind, object["metadata"]["name"].string(), causes);
}

Answered<void> check_update(const Kind& kind, const Json& before, const Json& after) {
  apiserver::Causes causes;
  apiserver::check_update(kind.kind, before, after, causes);
  if (const Json* schema = schema_of(kind)) apiserver::check_schema(*schema, after, causes);
  return unless_any(kind, before["metadata"]["name"].string(), causes);
}

}  // namespace qm::fleet
