// Isolation of tenants: no GPU without quota in a namespace that requires it, and no forged
// metadata of Quartermaster.
#include "isolation.hpp"

#include "pod.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/owned_metadata.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission_policy {
namespace {

constexpr const char* kRule = "gpu-quota";
constexpr const char* kJobController = "system:serviceaccount:kube-system:job-controller";
constexpr const char* kDaemonSetController = "system:serviceaccount:kube-system:daemon-set-controller";
/// Account of all Kubernetes controllers, where the controller manager
/// runs without --use-service-account-credentials.
constexpr const char* kControllerManager = "system:kube-controller-manager";
constexpr std::string_view kDeviceClass = "deviceclass.resource.kubernetes.io/";
constexpr std::string_view kVendor = "nvidia.com/";

std::string subject_text(const Subject& s) { return fmt::format("{} {}/{}", s.kind, s.ns, s.name); }

const Json& pod_of(const Subject& s, const Json& object) {
  return s.kind == "Job" ? object["spec"]["template"] : object;
}
std::string pod_path(const Subject& s, std::string_view below) {
  return fmt::format("{}{}", s.kind == "Job" ? "spec.template." : "", below);
}

template <class Fn>
bool any_resource(const Json& spec, Fn&& fn) {
  bool any = false;
  each_container(spec, [&](const Json& container) {
    for (const auto* side : {"requests", "limits"}) {
      for (const auto& [name, value] : container["resources"][side].members()) any = any || fn(name);
    }
  });
  return any;
}

bool claims_devices(const Json& spec) {
  return spec["resourceClaims"].size() > 0 ||
         any_resource(spec, [](const std::string& name) { return name.starts_with(kDeviceClass); });
}

/// Whether the pod requests a resource name that a device plugin was configured with. The queue decides whether it
/// covers the name.
bool requests_renamed(const Json& spec) {
  return any_resource(spec, [](const std::string& name) { return name.starts_with(kVendor) && !is_gpu(name); });
}

/// The request of one pod as text, such as "requests 8 GPUs".
std::string request_text(const Json& pod) {
  std::int64_t together = 0, first = 0;
  each_container(pod["spec"], [&](const Json& container, const Place& place) {
    (place.runs_first() ? first : together) += gpus_of(container);
  });
  const auto gpus = std::max(together, first);
  if (gpus > 0) return fmt::format("requests {} GPU{}", gpus, gpus == 1 ? "" : "s");
  if (requests_gpus(pod)) return "requests a share of a GPU";
  return claims_devices(pod["spec"]) ? "claims devices by DRA" : "requests devices of nvidia.com";
}

/// The checks that pods and Jobs share.
void check_quota_bypass(const Subject& s, const View& view, const Json& pod, const std::string& what, Findings& out) {
  const auto& spec = pod["spec"];
  if (kube::label(*s.object, kManagedLabel) == "false") {
    out.push_back(
        {kRule,
         fmt::format("{}, and its label {}=false would keep it out of every quota; namespace {} is {}=required", what,
                     kManagedLabel, s.ns, kRequiredLabel),
         fmt::format("metadata.labels[{}]", kManagedLabel), "remove the label"});
  }
  if (claims_devices(spec)) {
    out.push_back({kRule,
                   fmt::format("{} by resource claims or device classes, which no quota of Quartermaster counts", what),
                   pod_path(s, "spec.resourceClaims"),
                   fmt::format("request {} in resources.limits, or use a namespace without {}=required",
                               words::kGpuResource, kRequiredLabel)});
  }
  if (const auto& node = spec["nodeName"].string(); !node.empty()) {
    out.push_back(
        {kRule,
         fmt::format("{} and sets spec.nodeName to {}, so it would start before its quota is reserved", what, node),
         pod_path(s, "spec.nodeName"), "remove spec.nodeName; choose nodes by nodeSelector or affinity"});
  }
  if (names_other_scheduler(spec) && (!view.manages_binding || view.manages_binding(s.ns))) {
    out.push_back({kRule,
                   fmt::format("{} and names scheduler {}, while Quartermaster binds the pods of namespace {}", what,
                               spec["schedulerName"].string(), s.ns),
                   pod_path(s, "spec.schedulerName"), "remove spec.schedulerName"});
  }
}

constexpr const char* kNameQueue =
    "set the label kueue.x-k8s.io/queue-name to a LocalQueue of the namespace, or create the LocalQueue default";

void require_quota_of_pod(const Subject& s, const Settings& settings, const View& view, Findings& out) {
  const auto& pod = *s.object;
  const auto what = fmt::format("{} {}", subject_text(s), request_text(pod));
  if (is_part_of_workload(s, pod, settings)) {
    // Admission writes the attempt into the template when it starts the workload.
    if (!kube::annotation(pod, words::kAttempt).empty()) return;
    const auto& owner = controller_of(pod);
    out.push_back({kRule,
                   fmt::format("{}, and {} {} that it is part of was not admitted", what, owner["kind"].string(),
                               owner["name"].string()),
                   fmt::format("metadata.annotations[{}]", words::kAttempt),
                   fmt::format("name a LocalQueue in the label {} of {} {}; qmctl why {}/{} shows why it is pending",
                               words::kQueueLabel, owner["kind"].string(), owner["name"].string(), s.ns,
                               owner["name"].string())});
    return;
  }
  const auto& owner = controller_of(pod);
  if (owner["kind"].string() == "DaemonSet" && (s.user == kDaemonSetController || s.user == kControllerManager)) {
    out.push_back({kRule,
                   fmt::format("{} as a pod of DaemonSet {}, which runs on every node and is not queued", what,
                               owner["name"].string()),
                   "metadata.ownerReferences",
                   fmt::format("run the DaemonSet in a namespace without {}=required", kRequiredLabel)});
    return;
  }
  const auto before = out.size();
  check_quota_bypass(s, view, pod, what, out);
  if (out.size() > before) return;
  if (!settings.gate_pods) {
    out.push_back({kRule, fmt::format("{}, and pods are not queued (webhook-gate-pods=false)", what), "metadata",
                   "run it as a Job"});
  } else if (kube::label(pod, words::kQueueLabel).empty()) {
    out.push_back({kRule, fmt::format("{} and names no queue; namespace {} is {}=required", what, s.ns, kRequiredLabel),
                   fmt::format("metadata.labels[{}]", words::kQueueLabel), kNameQueue});
  } else {
    const auto& gates = pod["spec"]["schedulingGates"].items();
    if (std::ranges::any_of(gates, [](const Json& g) { return g["name"].string() == kAdmissionGate; })) return;
    out.push_back({kRule, fmt::format("{} and lacks the scheduling gate {}", what, kAdmissionGate),
                   "spec.schedulingGates", "create it again; another webhook may have removed the gate"});
  }
}

void require_quota_of_job(const Subject& s, const Settings& settings, const View& view, Findings& out) {
  const auto& job = *s.object;
  if (is_part_of_workload(s, job, settings)) return;
  const auto& pod = job["spec"]["template"];
  const auto what = fmt::format("a pod of {} {}", subject_text(s), request_text(pod));
  const auto before = out.size();
  check_quota_bypass(s, view, pod, what, out);
  if (out.size() > before) return;
  const auto queued = [](const Json& object) {
    return !kube::label(object, words::kQueueLabel).empty() || !kube::annotation(object, words::kQueueLabel).empty();
  };
  if (!queued(job) && !queued(pod)) {
    out.push_back({kRule,
                   fmt::format("{} and it names no queue; namespace {} is {}=required", what, s.ns, kRequiredLabel),
                   fmt::format("metadata.labels[{}]", words::kQueueLabel), kNameQueue});
  } else if (!job["spec"]["suspend"].boolean()) {
    out.push_back({kRule, fmt::format("{} and it is not suspended", what), "spec.suspend",
                   "create it again; another webhook may have changed spec.suspend"});
  }
}

// ---- owned metadata
// ------------------------------------------------------------------------------------------------

/// Whether the account creates objects from templates that were reviewed.
bool copies_templates(const Subject& s, const Settings& settings) {
  if (s.user == kControllerManager || settings.controllers.contains(s.user)) return true;
  return s.kind == "Pod" && s.user == kJobController;
}

void compare(const Subject& s, std::string_view part, std::string_view key, const std::string& at, const Json& was,
             const Json& is, Findings& out) {
  const auto& before = was["metadata"][part][key];
  const auto& after = is["metadata"][part][key];
  if (before == after) return;
  const bool removed = after.is_null();
  out.push_back({"owned-metadata",
                 fmt::format("{} {} of {} is written by Quartermaster alone, and {} {} it",
                             part == "labels" ? "label" : "annotation", key, subject_text(s), s.user,
                             removed ? "removes" : (before.is_null() ? "sets" : "changes")),
                 fmt::format("{}metadata.{}[{}]", at, part, key),
                 before.is_null() ? "remove it from the object" : "leave it as it is"});
}

}  // namespace

bool counts_every_gpu(const Subject& s, const View& view) {
  const auto found = view.namespaces.find(s.ns);
  if (found == view.namespaces.end()) return false;
  const auto label = found->second.labels.find(std::string(kRequiredLabel));
  return label != found->second.labels.end() && label->second == "required" &&
         (!view.manages_quota || view.manages_quota(s.ns));
}

const Json& controller_of(const Json& object) {
  static const Json none;
  for (const auto& owner : object["metadata"]["ownerReferences"].items()) {
    if (owner["controller"].boolean()) return owner;
  }
  return none;
}

bool is_mirror_of_kubelet(const Subject& s, const Json& pod) {
  const auto& node = pod["spec"]["nodeName"].string();
  return !kube::annotation(pod, "kubernetes.io/config.mirror").empty() && !node.empty() &&
         s.user == "system:node:" + node;
}

bool is_part_of_workload(const Subject& s, const Json& object, const Settings& settings) {
  const auto& owner = controller_of(object);
  const auto* kind = config::workload_kind(owner["apiVersion"].string(), owner["kind"].string());
  if (kind == nullptr || !kind->suspends()) return false;
  if (kind->kind == "Job") return s.user == kJobController || s.user == kControllerManager;
  return settings.controllers.contains(s.user);
}

bool names_other_scheduler(const Json& pod_spec) {
  const auto& name = pod_spec["schedulerName"].string();
  return !name.empty() && name != "default-scheduler" && name != words::kScheduler;
}

bool requests_devices(const Json& pod) {
  return requests_gpus(pod) || claims_devices(pod["spec"]) || requests_renamed(pod["spec"]);
}

void require_quota(const Subject& s, const Settings& settings, const View& view, Findings& out) {
  if (!counts_every_gpu(s, view) || !requests_devices(pod_of(s, *s.object))) return;
  if (s.kind == "Pod") {
    if (!is_mirror_of_kubelet(s, *s.object)) require_quota_of_pod(s, settings, view, out);
  } else {
    require_quota_of_job(s, settings, view, out);
  }
}

void require_quota_of_change(const Subject& s, const Settings& settings, const View& view, bool was_queued,
                             bool is_queued, Findings& out) {
  if (s.kind != "Job" || !counts_every_gpu(s, view) || !requests_devices(pod_of(s, *s.object))) return;
  if (is_part_of_workload(s, *s.object, settings)) return;
  const auto what = fmt::format("a pod of {} {}", subject_text(s), request_text(pod_of(s, *s.object)));
  const auto field = fmt::format("metadata.labels[{}]", words::kQueueLabel);
  if (was_queued && !is_queued) {
    out.push_back(
        {kRule,
         fmt::format("{}, and it would leave its queue; namespace {} is {}=required", what, s.ns, kRequiredLabel),
         field, "keep the label, or set another LocalQueue of the namespace"});
  } else if (!is_queued && (*s.old)["spec"]["suspend"].boolean() && !(*s.object)["spec"]["suspend"].boolean()) {
    out.push_back(
        {kRule,
         fmt::format("{}, and it would start without a queue; namespace {} is {}=required", what, s.ns, kRequiredLabel),
         "spec.suspend", kNameQueue});
  }
}

void check_owned_metadata(const Subject& s, const Settings& settings, Findings& out) {
  if (copies_templates(s, settings)) return;
  static const Json none;
  const auto& was = s.old != nullptr ? *s.old : none;
  const auto& is = *s.object;
  compare(s, "labels", words::kOwnedLabel, "", was, is, out);
  if (s.kind == "Job") {
    for (const auto key : words::kOwnedObjectAnnotations) compare(s, "annotations", key, "", was, is, out);
    compare(s, "labels", words::kOwnedLabel, "spec.template.", was["spec"]["template"], is["spec"]["template"], out);
  }
  for (const auto key : words::kOwnedPodAnnotations) {
    compare(s, "annotations", key, pod_path(s, ""), pod_of(s, was), pod_of(s, is), out);
  }
}

}  // namespace qm::admission_policy
