#include "qm/admission/webhook/registration.hpp"

#include "qm/base/base64.hpp"
#include "qm/model/owned_metadata.hpp"

#include <fmt/format.h>

#include <array>

namespace qm::admission::webhook {

using admission_policy::kJudged, admission_policy::kManagedLabel, admission_policy::kRequiredLabel;

namespace {

constexpr const char* kGroup = "admissionregistration.k8s.io";
const kube::Resource kMutating{kGroup, "v1", "mutatingwebhookconfigurations", false};
const kube::Resource kValidating{kGroup, "v1", "validatingwebhookconfigurations", false};
constexpr const char* kManagedBy = "app.kubernetes.io/managed-by";

/// Pods that a mutation may concern: without an owner, in a queue, or with GPUs, including requirements for one.
/// Other pods cost no call.
constexpr const char* kPodsForUs =
    "!has(object.metadata.ownerReferences) || "
    "(has(object.metadata.labels) && 'kueue.x-k8s.io/queue-name' in object.metadata.labels) || ";
constexpr const char* kUsesGpus =
    "(has(object.metadata.annotations) && "
    "object.metadata.annotations.exists(a, a.startsWith('quartermaster.dev/gpu-'))) || "
    "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
    ".exists(c, has(c.resources) && "
    "((has(c.resources.limits) && c.resources.limits.exists(r, r.startsWith('nvidia.com/') || "
    "r == 'quartermaster.dev/gpu-milli')) || "
    "(has(c.resources.requests) && c.resources.requests.exists(r, r.startsWith('nvidia.com/') || "
    "r == 'quartermaster.dev/gpu-milli'))))";
/// Devices by DRA, which no quota counts: relevant where quota is required for all GPUs.
constexpr const char* kClaimsDevices =
    "has(object.spec.resourceClaims) || "
    "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
    ".exists(c, has(c.resources) && has(c.resources.limits) && "
    "c.resources.limits.exists(r, r.startsWith('deviceclass.resource.kubernetes.io/')))";
/// Pods that the Job controller creates from a template that the webhook has checked with its Job: nothing is left to
/// do for them. Only the account of the Job controller is trusted with this.
constexpr const char* kOfCheckedJob =
    "has(object.metadata.labels) && 'quartermaster.dev/judged' in object.metadata.labels && "
    "request.userInfo.username in "
    "['system:serviceaccount:kube-system:job-controller', 'system:kube-controller-manager'] && "
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, "
    "o.kind == 'Job' && o.apiVersion == 'batch/v1' && has(o.controller) && o.controller)";
/// The accounts that create pods from the template of a Job, which was checked.
constexpr const char* kJobControllers =
    "request.userInfo.username in "
    "['system:serviceaccount:kube-system:job-controller', 'system:kube-controller-manager']";
constexpr const char* kWasGated =
    "has(oldObject.spec.schedulingGates) && "
    "oldObject.spec.schedulingGates.exists(g, g.name == 'quartermaster.dev/admission')";

/// Controllers that create most of the pods of a cluster, by the label that each sets. A match condition makes the
/// API server evaluate the whole object twice, as it evaluates again after a change; a label selector costs nothing.
/// So only pods with one of these labels have a match condition; pods without an owner have none of these labels.
/// Pods of an owner without a known label cost a call each.
constexpr std::array<std::pair<const char*, const char*>, 3> kPodControllers{{
    {"pods-of-replica-sets", "pod-template-hash"},
    {"pods-of-sets", "controller-revision-hash"},  // StatefulSets and DaemonSets
    {"pods-of-jobs", "batch.kubernetes.io/controller-uid"},
}};

/// The annotations of pods that only Quartermaster may write, as a list in CEL.
std::string owned_annotations() {
  std::string out;
  for (const auto key : words::kOwnedPodAnnotations) out += fmt::format("{}'{}'", out.empty() ? "" : ", ", key);
  return "[" + out + "]";
}

/// Whether a created pod has owned metadata that does not come from the template of a Job.
std::string has_owned_metadata() {
  return fmt::format(
      "(!({}) && ((has(object.metadata.annotations) && object.metadata.annotations.exists(a, a in {})) || "
      "(has(object.metadata.labels) && '{}' in object.metadata.labels)))",
      kJobControllers, owned_annotations(), words::kOwnedLabel);
}

/// Whether an update of a pod changes owned metadata.
std::string changes_owned_metadata() {
  return fmt::format(
      "{}.exists(a, object.metadata.?annotations[?a] != oldObject.metadata.?annotations[?a]) || "
      "object.metadata.?labels[?'{}'] != oldObject.metadata.?labels[?'{}']",
      owned_annotations(), words::kOwnedLabel, words::kOwnedLabel);
}

Json rule(const char* group, const char* plural, const char* operation) {
  return Json::object({{"apiGroups", Json::array({group})},
                       {"apiVersions", Json::array({"v1"})},
                       {"operations", Json::array({operation})},
                       {"resources", Json::array({plural})},
                       {"scope", "Namespaced"}});
}

/// Creations and updates of the kinds that scale workloads.
Json scaler_rules() {
  auto out = Json::array();
  for (const auto& [group, version, plural] : {std::tuple("autoscaling", "v2", "horizontalpodautoscalers"),
                                               std::tuple("keda.sh", "v1alpha1", "scaledobjects")}) {
    out.push_back(Json::object({{"apiGroups", Json::array({group})},
                                {"apiVersions", Json::array({version})},
                                {"operations", Json::array({"CREATE", "UPDATE"})},
                                {"resources", Json::array({plural})},
                                {"scope", "Namespaced"}}));
  }
  return out;
}

Json client_config(const Registration& r, const char* path, const std::string& bundle) {
  auto out = Json::object();
  if (r.url.empty()) {
    out.set("service",
            Json::object({{"name", r.service}, {"namespace", r.service_ns}, {"path", path}, {"port", r.service_port}}));
  } else {
    out.set("url", r.url + path);
  }
  out.set("caBundle", base64(bundle));
  return out;
}

Json namespaces(const Registration& r, bool required) {
  auto out = Json::array();
  const auto add = [&](const char* key, const char* op, Json values) {
    out.push_back(Json::object({{"key", key}, {"operator", op}, {"values", std::move(values)}}));
  };
  auto excluded = Json::array();
  for (const auto& ns : r.excluded) excluded.push_back(ns);
  if (!r.excluded.empty()) add("kubernetes.io/metadata.name", "NotIn", std::move(excluded));
  add(std::string(kManagedLabel).c_str(), "NotIn", Json::array({"false"}));
  if (const auto equals = r.only.find('='); equals != std::string::npos) {
    add(r.only.substr(0, equals).c_str(), "In", Json::array({r.only.substr(equals + 1)}));
  }
  add(std::string(kRequiredLabel).c_str(), required ? "In" : "NotIn", Json::array({"required"}));
  return Json::object({{"matchExpressions", std::move(out)}});
}

struct Hook {
  std::string name;
  const char* path;
  bool required;                            // for the namespaces that require quota, or for the others
  Json rule;                                // or a list of them
  std::string condition = {};               // empty = none
  std::vector<std::string> labels = {};     // that an object must have
  std::vector<std::string> no_labels = {};  // that it must not have
};

Json objects(const Hook& hook) {
  auto out = Json::array();
  // Where quota is required for all GPUs, no label of the author may exempt the object.
  if (!hook.required) {
    out.push_back(Json::object({{"key", kManagedLabel}, {"operator", "NotIn"}, {"values", Json::array({"false"})}}));
  }
  for (const auto& key : hook.labels) out.push_back(Json::object({{"key", key}, {"operator", "Exists"}}));
  for (const auto& key : hook.no_labels) out.push_back(Json::object({{"key", key}, {"operator", "DoesNotExist"}}));
  return out.size() > 0 ? Json::object({{"matchExpressions", std::move(out)}}) : Json::object();
}

Json configuration(const char* kind, const Registration& r, const std::string& bundle, const std::vector<Hook>& hooks) {
  auto all = Json::array();
  for (const auto& hook : hooks) {
    auto one = Json::object();
    one.set("name", fmt::format("{}{}.quartermaster.dev", hook.name, hook.required ? "-required" : ""));
    one.set("admissionReviewVersions", Json::array({"v1"}));
    one.set("clientConfig", client_config(r, hook.path, bundle));
    one.set("rules", hook.rule.is_array() ? hook.rule : Json::array({hook.rule}));
    one.set("namespaceSelector", namespaces(r, hook.required));
    one.set("objectSelector", objects(hook));
    if (!hook.condition.empty()) {
      one.set("matchConditions",
              Json::array({Json::object({{"name", "concerns-quartermaster"}, {"expression", hook.condition}})}));
    }
    one.set("failurePolicy", hook.required ? "Fail" : "Ignore");
    one.set("matchPolicy", "Equivalent");
    one.set("sideEffects", "None");
    one.set("timeoutSeconds", r.timeout_seconds);
    if (std::string_view(kind).starts_with("Mutating")) one.set("reinvocationPolicy", "IfNeeded");
    all.push_back(std::move(one));
  }
  return Json::object(
      {{"apiVersion", fmt::format("{}/v1", kGroup)},
       {"kind", kind},
       {"metadata", Json::object({{"name", r.name}, {"labels", Json::object({{kManagedBy, "quartermaster"}})}})},
       {"webhooks", std::move(all)}});
}

Status keep(kube::Client& client, const kube::Resource& resource, const Json& wanted, const std::string& name) {
  const auto found = client.get(resource, "", name);
  if (!found) {
    if (found.error().code != Code::kNotFound) return fail(found.error());
    const auto made = client.create(resource, "", wanted);
    if (made) return {};
    auto error = made.error();
    if (error.code == Code::kAlreadyExists) error.code = Code::kAborted;
    return fail(std::move(error));
  }
  Json next = *found;
  if (kube::label(*found, kManagedBy) == "quartermaster") {
    next.set("webhooks", wanted["webhooks"]);
  } else {
    for (auto& hook : next.set("webhooks").items_mut()) {
      hook.set("clientConfig").set("caBundle", wanted["webhooks"].at(0)["clientConfig"]["caBundle"]);
    }
  }
  if (next == *found) return {};
  const auto written = client.update(resource, "", name, next);
  if (!written) return fail(written.error());
  return {};
}

}  // namespace

std::vector<std::string> Registration::names() const {
  std::vector<std::string> out{fmt::format("{}.{}.svc", service, service_ns),
                               fmt::format("{}.{}.svc.cluster.local", service, service_ns)};
  if (url.empty()) return out;
  auto host = url.substr(url.find("//") + 2);
  host = host.substr(0, host.find('/'));
  const auto end = host.starts_with('[') ? host.find(']') : host.rfind(':');
  out.push_back(host.starts_with('[') ? host.substr(1, end - 1) : host.substr(0, end));
  return out;
}

Json mutating_configuration(const Registration& r, const std::string& bundle) {
  const auto jobs = rule("batch", "jobs", "CREATE"), pods = rule("", "pods", "CREATE");
  const auto for_us = fmt::format("{}{} || {}", kPodsForUs, kUsesGpus, has_owned_metadata());
  const auto unless_judged = fmt::format("!({}) && ({})", kOfCheckedJob, for_us);
  std::vector<Hook> hooks{{"jobs", "/mutate", true, jobs},
                          {"jobs", "/mutate", false, jobs},
                          {"pods", "/mutate", true, pods, fmt::format("{} || {}", for_us, kClaimsDevices)}};
  Hook others{"pods", "/mutate", false, pods};
  for (const auto& [name, label] : kPodControllers) {
    hooks.push_back({name, "/mutate", false, pods, unless_judged, {label}, others.no_labels});
    others.no_labels.emplace_back(label);
  }
  hooks.push_back(std::move(others));
  for (const bool required : {true, false}) hooks.push_back({"scalers", "/mutate", required, scaler_rules()});
  return configuration("MutatingWebhookConfiguration", r, bundle, hooks);
}

Json validating_configuration(const Registration& r, const std::string& bundle) {
  std::vector<Hook> hooks;
  for (const bool required : {true, false}) {
    std::vector<std::string> spared;
    if (!required) spared.emplace_back(kJudged);
    hooks.push_back({"jobs", "/validate", required, rule("batch", "jobs", "CREATE"), {}, {}, spared});
    auto asked = fmt::format("{} || {}", kUsesGpus, has_owned_metadata());
    if (required) asked += fmt::format(" || {}", kClaimsDevices);
    hooks.push_back({"pods", "/validate", required, rule("", "pods", "CREATE"), std::move(asked), {}, spared});
    hooks.push_back({"changed-jobs", "/validate", required, rule("batch", "jobs", "UPDATE")});
    hooks.push_back({"changed-pods", "/validate", required, rule("", "pods", "UPDATE"),
                     fmt::format("({}) || {}", kWasGated, changes_owned_metadata())});
    hooks.push_back({"scalers", "/validate", required, scaler_rules()});
  }
  return configuration("ValidatingWebhookConfiguration", r, bundle, hooks);
}

Status enrol(kube::Client& client, const Registration& registration, const std::string& bundle) {
  QM_TRY(keep(client, kMutating, mutating_configuration(registration, bundle), registration.name));
  return keep(client, kValidating, validating_configuration(registration, bundle), registration.name);
}

}  // namespace qm::admission::webhook
