#pragma once
#include "subjects.hpp"

#include <string>
#include <vector>

namespace qm::admission_policy {

/// What a tenant may try in a namespace with quartermaster.dev/webhook=required, and the result. Checked against the
/// rules alone and against a real API server.
struct TenantRow {
  std::string name, kind;  ///< Pod or Job
  std::string object;      ///< a merge patch on gpu_object(kind)
  /// "gated", "suspended": stored so, in the queue "default" or "mine"; "left": stored unchanged; else a part
  /// of the refusal.
  std::string expected;
  std::string user = {};    ///< empty = the tenant
  std::string change = {};  ///< an UPDATE by this merge patch of the stored object; empty = the CREATE is checked
  bool queue = true;        ///< the namespace has a LocalQueue "default"
  bool by_node = false;     ///< needs the identity of a node, which a real API server only gives to a registered one
};

/// A pod, or a Job of such pods, that requests one GPU and breaks no rule.
inline Json gpu_object(const std::string& kind) {
  const auto spec = parsed(R"({"containers":[{"name":"main","image":"x","resources":{"limits":
      {"nvidia.com/gpu":"1","cpu":"1","memory":"1Gi"}}}],"nodeSelector":{"gpu":"h100"},
      "tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}]})");
  Json out = Json::object({{"metadata", Json::object({{"name", "one"}})}});
  if (kind == "Pod") return out.set("spec", spec), out;
  auto& pods = out.set("spec").set("template").set("spec", spec).set("spec");
  pods.set("restartPolicy", "Never");
  return out;
}

inline std::string owner_of(const char* api_version, const char* kind) {
  return std::string(
             R"("ownerReferences":[{"controller":true,"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","name":"x","apiVersion":")") +
         api_version + R"(","kind":")" + kind + R"("}])";
}
inline std::string with_owner(const char* api_version, const char* kind, const std::string& more = "{}") {
  auto out = parsed(more);
  out.merge_patch(parsed(R"({"metadata":{)" + owner_of(api_version, kind) + "}}"));
  return out.dump();
}

inline const std::vector<TenantRow>& tenant_rows() {
  constexpr const char* kNoGpus = R"({"spec":{"containers":[{"name":"main","image":"x"}]}})";
  const std::string controllers = "system:serviceaccount:kube-system:";
  const auto without_gpus = [&](const std::string& more) {
    auto out = parsed(kNoGpus);
    out.merge_patch(parsed(more));
    return out.dump();
  };
  const std::string managed = R"({"metadata":{"labels":{"quartermaster.dev/managed":"false"}}})";
  const std::string no_label = "its label quartermaster.dev/managed=false would keep it out of every quota";
  const std::string attempt = R"({"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}}})";
  const std::string mirror =
      R"({"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"n1"}})";
  static const std::vector<TenantRow> all{
      // Pods by the tenant.
      {"plain", "Pod", "{}", "gated"},
      {"in-its-queue", "Pod", R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"mine"}}})", "gated"},
      {"with-the-gate", "Pod", R"({"spec":{"schedulingGates":[{"name":"quartermaster.dev/admission"}]}})", "gated"},
      {"managed-false", "Pod", managed, no_label},
      {"node-name", "Pod", R"({"spec":{"nodeName":"n1"}})", "requests 1 GPU and sets spec.nodeName to n1"},
      {"other-scheduler", "Pod", R"({"spec":{"schedulerName":"volcano"}})", "names scheduler volcano"},
      {"forged-daemon-set", "Pod", with_owner("apps/v1", "DaemonSet"), "gated"},
      {"forged-node", "Pod", with_owner("v1", "Node"), "gated"},
      {"forged-job", "Pod", with_owner("batch/v1", "Job"), "gated"},
      {"forged-replica-set", "Pod", with_owner("apps/v1", "ReplicaSet"), "gated"},
      {"forged-pytorch-job", "Pod", with_owner("kubeflow.org/v1", "PyTorchJob"), "gated"},
      {"forged-mirror", "Pod", mirror, "sets spec.nodeName to n1"},
      {"forged-judged", "Pod",
       with_owner("batch/v1", "Job", R"({"metadata":{"labels":{"quartermaster.dev/judged":"true",
          "batch.kubernetes.io/controller-uid":"x"}}})"),
       "gated"},
      {"mig", "Pod",
       R"({"metadata":{"labels":{"quartermaster.dev/managed":"false"}},"spec":{"containers":[{"name":"main","image":"x",
          "resources":{"limits":{"nvidia.com/mig-1g.10gb":"1","cpu":"1","memory":"1Gi"}}}]}})",
       no_label},
      {"by-need", "Pod",
       R"({"metadata":{"labels":{"quartermaster.dev/managed":"false"},"annotations":{"quartermaster.dev/gpu-memory":"10Gi"}},
          "spec":{"containers":[{"name":"main","image":"x","resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}})",
       no_label},
      {"init-container", "Pod",
       R"({"spec":{"nodeName":"n1","containers":[{"name":"main","image":"x"}],"initContainers":[{"name":"first","image":"x",
          "resources":{"limits":{"nvidia.com/gpu":"8","cpu":"1","memory":"1Gi"}}}]}})",
       "requests 8 GPUs and sets spec.nodeName to n1"},
      {"resource-claim", "Pod",
       R"({"spec":{"resourceClaims":[{"name":"gpu","resourceClaimName":"gpu"}],"containers":[{"name":"main","image":"x",
          "resources":{"claims":[{"name":"gpu"}],"limits":{"cpu":"1","memory":"1Gi"}}}]}})",
       "claims devices by DRA by resource claims or device classes"},
      {"device-class", "Pod",
       R"({"spec":{"containers":[{"name":"main","image":"x","resources":{"limits":
          {"deviceclass.resource.kubernetes.io/gpu.nvidia.com":"1","cpu":"1","memory":"1Gi"}}}]}})",
       "by resource claims or device classes"},
      {"renamed", "Pod",
       R"({"spec":{"containers":[{"name":"main","image":"x","resources":{"limits":{"nvidia.com/gpu-h100":"1"}}}]}})",
       "gated"},
      {"renamed-node-name", "Pod",
       R"({"spec":{"nodeName":"n1","containers":[{"name":"main","image":"x","resources":{"limits":{"nvidia.com/gpu-h100":"1"}}}]}})",
       "requests devices of nvidia.com and sets spec.nodeName to n1"},
      {"renamed-replica-set", "Pod",
       with_owner(
           "apps/v1", "ReplicaSet",
           R"({"spec":{"containers":[{"name":"main","image":"x","resources":{"limits":{"nvidia.com/gpu-h100":"1"}}}]}})"),
       "gated", controllers + "replicaset-controller"},
      {"without-queue", "Pod", "{}", "names no queue; namespace", {}, {}, false},
      {"small-managed-false", "Pod", without_gpus(managed), "left"},
      {"small-daemon-set", "Pod", without_gpus(with_owner("apps/v1", "DaemonSet")), "left"},
      {"small-node-name", "Pod", without_gpus(R"({"spec":{"nodeName":"n1"}})"), "left"},
      // Owned metadata, by the tenant.
      {"forged-attempt", "Pod", attempt, "annotation quartermaster.dev/attempt of Pod"},
      {"forged-reservation", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/reservation":"x"}}})",
       "annotation quartermaster.dev/reservation of Pod"},
      {"forged-workload", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/workload":"x"}}})",
       "annotation quartermaster.dev/workload of Pod"},
      {"forged-devices", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/devices":"0,1"}}})",
       "annotation quartermaster.dev/devices of Pod"},
      {"forged-index", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/index":"0"}}})",
       "annotation quartermaster.dev/index of Pod"},
      {"forged-ring", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/ring":"x"}}})",
       "annotation quartermaster.dev/ring of Pod"},
      {"forged-resume", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/resume-uri":"x"}}})",
       "annotation quartermaster.dev/resume-uri of Pod"},
      {"forged-unadmitted", "Pod", R"({"metadata":{"labels":{"quartermaster.dev/unadmitted":"true"}}})",
       "label quartermaster.dev/unadmitted of Pod"},
      {"small-forged-workload", "Pod",
       without_gpus(with_owner("apps/v1", "ReplicaSet", R"({"metadata":{"labels":{"pod-template-hash":"x"},
          "annotations":{"quartermaster.dev/workload":"x"}}})")),
       "annotation quartermaster.dev/workload of Pod"},
      {"checkpoint-url", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/checkpoint":"http://{podIP}:80/"}}})",
       "gated"},
      // Pods by controllers.
      {"replica-set", "Pod", with_owner("apps/v1", "ReplicaSet"), "gated", controllers + "replicaset-controller"},
      {"stateful-set", "Pod", with_owner("apps/v1", "StatefulSet"), "gated", controllers + "statefulset-controller"},
      {"daemon-set", "Pod", with_owner("apps/v1", "DaemonSet"), "runs on every node and is not queued",
       controllers + "daemon-set-controller"},
      {"real-small-daemon-set", "Pod", without_gpus(with_owner("apps/v1", "DaemonSet")), "left",
       controllers + "daemon-set-controller"},
      {"job-not-admitted", "Pod", with_owner("batch/v1", "Job"), "Job x that it is part of was not admitted",
       controllers + "job-controller"},
      {"job-admitted", "Pod", with_owner("batch/v1", "Job", attempt), "left", controllers + "job-controller"},
      {"forged-template", "Pod", with_owner("apps/v1", "ReplicaSet", attempt),
       "annotation quartermaster.dev/attempt of Pod", controllers + "replicaset-controller"},
      {"other-replica-set-controller", "Pod", with_owner("batch/v1", "Job", attempt),
       "annotation quartermaster.dev/attempt of Pod", controllers + "replicaset-controller"},
      {"mirror", "Pod", mirror, "left", "system:node:n1", {}, true, true},
      {"mirror-of-another", "Pod", mirror, "sets spec.nodeName to n1", "system:node:n2", {}, true, true},
      // Jobs.
      {"job", "Job", "{}", "suspended"},
      {"job-unsuspended", "Job", R"({"spec":{"suspend":false}})", "suspended"},
      {"job-managed-false", "Job", managed, no_label},
      {"job-node-name", "Job", R"({"spec":{"template":{"spec":{"nodeName":"n1"}}}})", "sets spec.nodeName to n1"},
      {"job-other-scheduler", "Job", R"({"spec":{"template":{"spec":{"schedulerName":"volcano"}}}})",
       "names scheduler volcano"},
      {"job-without-queue", "Job", "{}", "it names no queue; namespace", {}, {}, false},
      {"job-of-forged-job-set", "Job", with_owner("jobset.x-k8s.io/v1alpha2", "JobSet"), "suspended"},
      {"job-forged-attempt", "Job",
       R"({"spec":{"template":{"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}}}}})",
       "annotation quartermaster.dev/attempt of Job"},
      {"job-forged-unadmitted", "Job",
       R"({"spec":{"template":{"metadata":{"labels":{"quartermaster.dev/unadmitted":"true"}}}}})",
       "label quartermaster.dev/unadmitted of Job"},
      {"job-forged-submission", "Job", R"({"metadata":{"annotations":{"quartermaster.dev/submission":"x"}}})",
       "annotation quartermaster.dev/submission of Job"},
      {"job-forged-judged", "Job",
       R"({"spec":{"template":{"metadata":{"labels":{"quartermaster.dev/judged":"true"}}}}})", "suspended"},
      // Updates.
      {"gate-removed",
       "Pod",
       "{}",
       "is held by Quartermaster until it is admitted",
       {},
       R"({"spec":{"schedulingGates":null}})"},
      {"queue-removed",
       "Pod",
       "{}",
       "the queue of a pod is immutable",
       {},
       R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}})"},
      {"unmanaged-later", "Pod", "{}", "the label quartermaster.dev/managed=false would release it", {}, managed},
      {"devices-added",
       "Pod",
       "{}",
       "annotation quartermaster.dev/devices of Pod",
       {},
       R"({"metadata":{"annotations":{"quartermaster.dev/devices":"0"}}})"},
      {"small-workload-added",
       "Pod",
       without_gpus("{}"),
       "annotation quartermaster.dev/workload of Pod",
       {},
       R"({"metadata":{"annotations":{"quartermaster.dev/workload":"x"}}})"},
      {"attempt-removed", "Pod", attempt, "annotation quartermaster.dev/attempt of Pod", controllers + "job-controller",
       R"({"metadata":{"annotations":{"quartermaster.dev/attempt":null}}})"},
      {"note-added", "Pod", "{}", "gated", {}, R"({"metadata":{"annotations":{"note":"x"}}})"},
      {"job-unsuspended-later",
       "Job",
       "{}",
       "is held by Quartermaster until it is admitted",
       {},
       R"({"spec":{"suspend":false}})"},
      {"job-leaves-queue",
       "Job",
       "{}",
       "it would leave its queue",
       {},
       R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}})"},
      {"job-leaves-and-starts",
       "Job",
       "{}",
       "it would leave its queue",
       {},
       R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}},"spec":{"suspend":false}})"},
      {"job-other-queue",
       "Job",
       "{}",
       "suspended",
       {},
       R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"mine"}}})"},
      {"job-unmanaged-later", "Job", "{}", "the label quartermaster.dev/managed=false would release it", {}, managed},
      {"job-attempt-added",
       "Job",
       R"({"spec":{"suspend":true}})",
       "annotation quartermaster.dev/attempt of Job",
       {},
       R"({"spec":{"template":{"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}}}}})"},
  };
  return all;
}

}  // namespace qm::admission_policy
