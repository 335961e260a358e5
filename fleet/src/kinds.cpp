#include "kinds.hpp"

#include "qm/base/assert.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr std::string_view kImmutable = "Forbidden: field is immutable";
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

/// A DNS subdomain, which is what most kinds demand of a name.
bool valid_name(std::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  const auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (!alphanumeric(name.front()) || !alphanumeric(name.back())) return false;
  return std::ranges::all_of(name, [&](char c) { return alphanumeric(c) || c == '-' || c == '.'; });
}

void set_default(Json& object, std::string_view key, Json value) {
  if (!object.contains(key)) object.set(key, std::move(value));
}

Answered<void> prepare_pod_spec(const Kind& kind, std::string_view name, Json& spec, std::string_view at) {
  if (spec["containers"].size() == 0) {
    return invalid(kind, name, fmt::format("{}.containers", at), "Required value");
  }
  for (const Json& container : spec["containers"].items()) {
    if (container["name"].string().empty()) {
      return invalid(kind, name, fmt::format("{}.containers[0].name", at), "Required value");
    }
  }
  set_default(spec, "terminationGracePeriodSeconds", 30);
  set_default(spec, "schedulerName", "default-scheduler");
  return {};
}

/// As the API server's admission plugin DefaultTolerationSeconds does.
void tolerate_for_a_while(Json& spec) {
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const auto covers = [key](const Json& toleration) {
      const std::string &of = toleration["key"].string(), &effect = toleration["effect"].string();
      return (of.empty() || of == key) && (effect.empty() || effect == "NoExecute");
    };
    if (std::ranges::any_of(spec["tolerations"].items(), covers)) continue;
    spec.set("tolerations")
        .push_back(
            Json::object({{"key", key}, {"operator", "Exists"}, {"effect", "NoExecute"}, {"tolerationSeconds", 300}}));
  }
}

Answered<void> prepare_pod(const Kind& kind, std::string_view name, Json& pod) {
  FLEET_TRY(prepare_pod_spec(kind, name, pod.set("spec"), "spec"));
  set_default(pod.set("spec"), "restartPolicy", "Always");
  tolerate_for_a_while(pod.set("spec"));
  pod.set("status", Json::object({{"phase", "Pending"}, {"qosClass", "Burstable"}}));
  return {};
}

Answered<void> prepare_job(const Kind& kind, std::string_view name, Json& job) {
  Json& spec = job.set("spec");
  Json& pod_spec = spec.set("template").set("spec");
  FLEET_TRY(prepare_pod_spec(kind, name, pod_spec, "spec.template.spec"));
  const std::string& restart = pod_spec["restartPolicy"].string();
  if (restart != "Never" && restart != "OnFailure") {
    return invalid(kind, name, "spec.template.spec.restartPolicy",
                   "Required value: valid values: \"OnFailure\", \"Never\"");
  }
  for (const char* count : {"parallelism", "completions", "backoffLimit"}) {
    if (spec.contains(count) && (!spec[count].is_int() || spec[count].integer() < 0)) {
      return invalid(kind, name, fmt::format("spec.{}", count), "Invalid value: must be greater than or equal to 0");
    }
  }
  set_default(spec, "completionMode", "NonIndexed");
  if (spec["completionMode"].string() == "Indexed" && !spec.contains("completions")) {
    return invalid(kind, name, "spec.completions", "Required value: when completion mode is Indexed");
  }
  set_default(spec, "parallelism", 1);
  set_default(spec, "completions", spec["parallelism"]);
  set_default(spec, "backoffLimit", 6);
  set_default(spec, "suspend", false);
  job.set("status", Json::object());
  return {};
}

/// A pod template less what directs its scheduling.
Json without_directives(Json pod_template) {
  pod_template.erase("metadata");
  Json& spec = pod_template.set("spec");
  for (const char* field : {"nodeSelector", "affinity", "tolerations", "schedulingGates"}) spec.erase(field);
  return pod_template;
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

Json status_of(const Refusal& refusal) {
  Json object = Json::object({{"kind", "Status"},
                              {"apiVersion", "v1"},
                              {"metadata", Json::object()},
                              {"status", "Failure"},
                              {"message", refusal.message},
                              {"reason", refusal.reason}});
  if (!refusal.field.empty()) {
    const Json cause =
        Json::object({{"reason", "FieldValueInvalid"}, {"message", refusal.message}, {"field", refusal.field}});
    object.set("details", Json::object({{"causes", Json::array({cause})}}));
  }
  object.set("code", refusal.code);
  return object;
}

Refused not_found(const Kind& kind, std::string_view name) {
  return refuse(404, "NotFound", "{} \"{}\" not found", kind.qualified(), name);
}
Refused conflict(const Kind& kind, std::string_view name, std::string_view why) {
  return refuse(409, "Conflict", "Operation cannot be fulfilled on {} \"{}\": {}", kind.qualified(), name, why);
}
Refused invalid(const Kind& kind, std::string_view name, std::string_view field, std::string_view why) {
  const std::string group = kind.group.empty() ? "" : "." + kind.group;
  auto refused = refuse(422, "Invalid", "{}{} \"{}\" is invalid: {}: {}", kind.kind, group, name, field, why);
  refused.value().field = field;
  return refused;
}
Refused bad_request(std::string_view why) { return refuse(400, "BadRequest", "{}", why); }
Refused expired(std::string_view why) { return refuse(410, "Expired", "{}", why); }
Refused too_large(std::uint64_t wanted, std::uint64_t current) {
  return refuse(504, "Timeout", "Too large resource version: {}, current: {}", wanted, current);
}

Answered<void> prepare_create(const Kind& kind, Json& object) {
  const std::string name = object["metadata"]["name"].string();
  if (name.empty()) {
    return invalid(kind, "", "metadata.name", "Required value: name or generateName is required");
  }
  if (!valid_name(name)) {
    return invalid(kind, name, "metadata.name",
                   fmt::format("Invalid value: \"{}\": a lowercase RFC 1123 subdomain must consist of lower case "
                               "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
                               "character",
                               name));
  }
  if (kind.plural == "pods") return prepare_pod(kind, name, object);
  if (kind.plural == "jobs") return prepare_job(kind, name, object);
  if (kind.plural == "namespaces") object.set("status", Json::object({{"phase", "Active"}}));
  if (kind.status && !object["status"].is_null() && kind.plural != "nodes" && kind.plural != "namespaces") {
    object.erase("status");  // a status comes by the subresource only
  }
  return {};
}

Answered<void> check_update(const Kind& kind, const Json& before, const Json& after) {
  const std::string& name = before["metadata"]["name"].string();
  std::vector<std::string_view> immutable = {"metadata.name", "metadata.namespace"};
  if (kind.plural == "pods")
    immutable.insert(immutable.end(), {"spec.nodeName", "spec.containers", "spec.schedulerName"});
  if (kind.plural == "jobs") {
    immutable.insert(immutable.end(), {"spec.completionMode", "spec.selector"});
    // While the job has not started, a queue may say where its pods go; what they are stands fast.
    const bool may_direct = before.path("spec.suspend").boolean() && before.path("status.startTime").is_null();
    const Json &was = before.path("spec.template"), &is = after.path("spec.template");
    if (may_direct ? without_directives(was) != without_directives(is) : was != is)
      return invalid(kind, name, "spec.template", kImmutable);
  }
  for (const auto path : immutable) {
    if (before.path(path) != after.path(path)) return invalid(kind, name, path, kImmutable);
  }
  return {};
}

}  // namespace qm::fleet
