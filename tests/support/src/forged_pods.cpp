#include "qm/testing/forged_pods.hpp"

namespace qm::testing {
namespace {

Json base_pod(const std::string& ns, const std::string& name) {
  return Json::object(
      {{"apiVersion", "v1"},
       {"kind", "Pod"},
       {"metadata", Json::object({{"namespace", ns}, {"name", name}})},
       {"spec", Json::object(
                    {{"schedulerName", "quartermaster"},
                     {"restartPolicy", "Never"},
                     {"containers",
                      Json::array({Json::object(
                          {{"name", "main"},
                           {"image", "busybox"},
                           {"resources", Json::object({{"limits", Json::object({{"nvidia.com/gpu", "1"}})}})}})})}})}});
}

Json owner_reference(const char* api_version, const char* kind, const std::string& name, const std::string& uid,
                     bool controller) {
  return Json::object(
      {{"apiVersion", api_version}, {"kind", kind}, {"name", name}, {"uid", uid}, {"controller", controller}});
}

}  // namespace

std::vector<ForgedPod> forged_pods(const ForgeryTarget& t, const std::string& attacker_ns) {
  std::vector<ForgedPod> out;
  const auto add = [&](std::string what, const std::string& ns) -> Json& {
    out.push_back({std::move(what), base_pod(ns, "forged-" + std::to_string(out.size()))});
    return out.back().manifest;
  };
  const auto annotate = [&](Json& pod) {
    auto& metadata = pod.set("metadata");
    metadata.set("annotations")
        .set("quartermaster.dev/workload", t.uid)
        .set("quartermaster.dev/attempt", t.attempt)
        .set("quartermaster.dev/index", t.index)
        .set("quartermaster.dev/reservation", t.reservation)
        .set("quartermaster.dev/devices", t.devices)
        .set("quartermaster.dev/ring", "rank=0 of=1")
        .set("quartermaster.dev/checkpoint", "http://{podIP}:8480/v1/checkpoint");
    metadata.set("labels").set("kueue.x-k8s.io/podset", "main");
  };
  const auto own = [](Json& pod, Json reference) {
    pod.set("metadata").set("ownerReferences", Json::array({std::move(reference)}));
  };
  const auto index_of_job = [&](Json& pod) {
    pod.set("metadata").set("annotations").set("batch.kubernetes.io/job-completion-index", t.index);
    pod.set("metadata").set("annotations").set("quartermaster.dev/attempt", t.attempt);
  };

  annotate(add("annotation, other namespace", attacker_ns));
  {
    auto& pod = add("owner reference, other namespace", attacker_ns);
    index_of_job(pod);
    own(pod, owner_reference("batch/v1", "Job", t.job, t.uid, true));
  }
  {
    auto& pod = add("annotation and owner reference, other namespace", attacker_ns);
    annotate(pod);
    own(pod, owner_reference("batch/v1", "Job", t.job, t.uid, true));
  }
  {
    auto& pod = add("owner that is not the controller, other namespace", attacker_ns);
    index_of_job(pod);
    own(pod, owner_reference("batch/v1", "Job", t.job, t.uid, false));
  }
  {
    auto& pod = add("annotation under a ReplicaSet, other namespace", attacker_ns);
    annotate(pod);
    own(pod, owner_reference("apps/v1", "ReplicaSet", "rs", "forged-rs", true));
  }
  {
    auto& pod = add("annotation, bound by itself, other namespace", attacker_ns);
    annotate(pod);
    pod.set("spec").set("nodeName", t.node);
  }
  {
    auto& pod = add("group of the Job's name, other namespace", attacker_ns);
    annotate(pod);
    pod.set("metadata").set("labels").set("kueue.x-k8s.io/pod-group-name", t.job);
    pod.set("metadata").set("annotations").set("kueue.x-k8s.io/pod-group-total-count", "1");
  }
  annotate(add("annotation, same namespace, no controller", t.ns));
  {
    auto& pod = add("owner that is not the controller, same namespace", t.ns);
    index_of_job(pod);
    own(pod, owner_reference("batch/v1", "Job", t.job, t.uid, false));
  }
  {
    auto& pod = add("annotation under a ReplicaSet, same namespace", t.ns);
    annotate(pod);
    own(pod, owner_reference("apps/v1", "ReplicaSet", "rs", "forged-rs", true));
  }
  {
    auto& pod = add("annotation under another Job, same namespace", t.ns);
    annotate(pod);
    own(pod, owner_reference("batch/v1", "Job", "other", "forged-job", true));
  }
  {
    auto& pod = add("annotation, bound by itself, same namespace", t.ns);
    annotate(pod);
    pod.set("spec").set("nodeName", t.node);
  }
  return out;
}

std::vector<std::string> forged_checkpoint_urls() {
  return {"http://169.254.169.254/latest/meta-data/iam/security-credentials/",
          "http://[fd00:ec2::254]/latest/meta-data",
          "http://metadata.google.internal/computeMetadata/v1/",
          "http://127.0.0.1:10250/pods",
          "http://[::1]:10250/pods",
          "http://localhost:9400/metrics",
          "https://kubernetes.default.svc/api",
          "http://{podIP}@169.254.169.254/",
          "http://{podIP}.attacker.example/",
          "http://10.255.255.254:8480/v1/checkpoint",
          "http://0/",
          "http://2852039166/",
          "file:///var/run/secrets/kubernetes.io/serviceaccount/token",
          "http://{podIP}:8480/x\r\nX-Forged: 1"};
}

}  // namespace qm::testing
