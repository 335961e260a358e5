// Mutation and validation of Jobs and pods, and manual changes that are refused.
#include "qm/admission_policy/policy.hpp"

#include "qm/kube/client.hpp"
#include "qm/model/other_scheduler.hpp"
#include "qm/testing/testing.hpp"
#include "subjects.hpp"

#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace policy_test {

const Json kJob = parsed(R"({"metadata":{"name":"train"},"spec":{"parallelism":2,"template":{"spec":{
    "schedulerName":"default-scheduler","containers":[{"name":"main"}]}}}})");
const Json kPod = parsed(R"({"metadata":{"name":"one"},"spec":{"schedulerName":"default-scheduler",
    "containers":[{"name":"main"}]}})");

View with_default_queue() {
  View view;
  view.namespaces["team"] = {};
  view.local_queues["team"] = {"default", "other"};
  return view;
}

Json changed(Json object, const char* patch) {
  object.merge_patch(parsed(patch));
  return object;
}

/// The result of a mutation: the values of the fields that it may change.
std::string job_of(const Json& job, const View& view, const Settings& settings = {}) {
  const auto out = mutate(created(job, "Job"), settings, view);
  return out["metadata"]["labels"][words::kQueueLabel].string() + "|" + out["spec"]["suspend"].dump() + "|" +
         out.path("spec.template.spec.schedulerName").string();
}
std::string pod_of(const Json& pod, const View& view, const Settings& settings = {}) {
  const auto out = mutate(created(pod), settings, view);
  return out["metadata"]["labels"][words::kQueueLabel].string() + "|" +
         out["spec"]["schedulingGates"].at(0)["name"].string() + "|" + out["spec"]["schedulerName"].string();
}
constexpr const char* kJobLeft = "|null|default-scheduler";
constexpr const char* kPodLeft = "||default-scheduler";

// For a template; for pods the API server merges the RuntimeClass before it calls the webhook.
TEST(RuntimeClasses, RulesSeeSchedulingOfRuntimeClass) {
  auto job = parsed(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","namespace":"team"},
      "spec":{"template":{"spec":{"runtimeClassName":"nvidia","containers":[{"name":"main","resources":
      {"requests":{"cpu":"1","memory":"1Gi"},"limits":{"nvidia.com/gpu":"1"}}}]}}}})");
  View view;
  EXPECT_FALSE(check_job(job, "alice", {}, view));
  view.runtime_classes["nvidia"] = parsed(R"({"nodeSelector":{"nvidia.com/gpu.product":"H100"},
      "tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}]})");
  const auto judged = check_job(job, "alice", {}, view);
  EXPECT_TRUE(judged) << judged.error().to_string();
  job.set("spec").set("template").set("spec").set("runtimeClassName", "other");
  EXPECT_FALSE(check_job(job, "alice", {}, view));
}

// Submit checks its Job as `qmctl admit` checks a template: it returns each finding, with its remedy.
TEST(CheckedJobs, AreRefusedAsByWebhook) {
  auto job = parsed(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","namespace":"team"},
      "spec":{"template":{"spec":{"containers":[{"name":"main","resources":
      {"requests":{"cpu":"1","memory":"1Gi"},"limits":{"nvidia.com/gpu":"1"}}}]}}}})");
  const auto both = check_job(job, "alice", {}, {});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(both.error().message,
            "Job team/train is refused by 2 rules\n"
            "  gpu-toleration: the pod requests GPUs and does not tolerate the taint nvidia.com/gpu; "
            "add a toleration with key nvidia.com/gpu and operator Exists\n"
            "  gpu-node: the pod requests GPUs and selects no nodes that have them; "
            "add a node selector or a required node affinity, such as nvidia.com/gpu.product");
  EXPECT_EQ(both.error().field, "spec.template.spec.tolerations");
  auto& spec = job.set("spec").set("template").set("spec");
  spec.set("nodeSelector").set(words::kGpuProduct, "NVIDIA-H100-80GB-HBM3");
  const auto one = check_job(job, "alice", {}, {});
  ASSERT_FALSE(one);
  EXPECT_EQ(
      one.error().message,
      "Job team/train is refused by rule gpu-toleration: the pod requests GPUs and does not tolerate the taint nvidia.com/gpu");
  EXPECT_EQ(one.error().remedy, "add a toleration with key nvidia.com/gpu and operator Exists");
  View lenient;
  lenient.namespaces["team"].labels["policy.quartermaster.dev/mode"] = "mutate";
  EXPECT_TRUE(check_job(job, "alice", {}, lenient)) << "the webhook adds the toleration";
  lenient.namespaces["team"].labels["policy.quartermaster.dev/mode"] = "warn";
  EXPECT_TRUE(check_job(job, "alice", {}, lenient));
  spec.set("tolerations", Json::array({Json::object({{"key", "nvidia.com/gpu"}, {"operator", "Exists"}})}));
  EXPECT_TRUE(check_job(job, "alice", {}, {}));
}

TEST(Mutation, SuspendsJobsInTheirQueue) {
  EXPECT_EQ(job_of(kJob, with_default_queue()), "default|true|quartermaster");
  EXPECT_EQ(job_of(kJob, {}), kJobLeft) << "no queue named, and none by default";
  const auto named =
      changed(kJob, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"mine"}},"spec":{"suspend":false}})");
  EXPECT_EQ(job_of(named, with_default_queue()), "mine|true|quartermaster");
  const auto annotated = changed(kJob, R"({"metadata":{"annotations":{"kueue.x-k8s.io/queue-name":"mine"}}})");
  EXPECT_EQ(job_of(annotated, with_default_queue()), "|true|quartermaster") << "its annotation is used unchanged";
  View labelled;
  labelled.namespaces["team"].labels[std::string(kDefaultQueueLabel)] = "night";
  EXPECT_EQ(job_of(kJob, labelled), "night|true|quartermaster");
}

TEST(Mutation, GatesPodsInTheirQueue) {
  const auto gate = std::string(kAdmissionGate);
  EXPECT_EQ(pod_of(kPod, with_default_queue()), "default|" + gate + "|quartermaster");
  EXPECT_EQ(pod_of(kPod, {}), kPodLeft);
  const auto owned = [](const std::string& kind, const char* labels, const char* group = "apps/v1", int gpus = 0) {
    auto pod = changed(kPod, (std::string(R"({"metadata":{"labels":)") + labels +
                              R"(,"ownerReferences":[{"controller":true,"apiVersion":")" +
                              (kind == "Job" ? "batch/v1" : group) + R"(","kind":")" + kind + R"("}]}})")
                                 .c_str());
    if (gpus > 0) {
      pod.set("spec").set("containers").items_mut()[0].set("resources").set("limits").set("nvidia.com/gpu", gpus);
    }
    return pod;
  };
  const auto* in_queue = R"({"kueue.x-k8s.io/queue-name":"mine"})";
  EXPECT_EQ(pod_of(owned("Job", in_queue), with_default_queue()), "mine||default-scheduler")
      << "its Job is the workload";
  EXPECT_EQ(pod_of(owned("ReplicaSet", in_queue), {}), "mine|" + gate + "|quartermaster");
  EXPECT_EQ(pod_of(owned("ReplicaSet", "{}"), with_default_queue()), kPodLeft)
      << "serving pods are not queued by default";
  EXPECT_EQ(pod_of(owned("DaemonSet", in_queue), {}), "mine||default-scheduler");
  EXPECT_EQ(pod_of(owned("PyTorchJob", in_queue, "kubeflow.org/v1"), {}), "mine||default-scheduler")
      << "it is suspended as a whole";
  // S-387 S-390: steps of a run and pods of a serving framework are in the queue of their namespace, if they request
  // GPUs.
  const auto* step = R"({"workflows.argoproj.io/workflow":"w","pipeline/runid":"7"})";
  EXPECT_EQ(pod_of(owned("Workflow", step, "argoproj.io/v1alpha1", 1), with_default_queue()),
            "default|" + gate + "|quartermaster");
  EXPECT_EQ(pod_of(owned("Workflow", step, "argoproj.io/v1alpha1"), with_default_queue()), kPodLeft);
  EXPECT_EQ(pod_of(owned("TaskRun", "{}", "tekton.dev/v1", 8), with_default_queue()),
            "default|" + gate + "|quartermaster");
  const auto* served = R"({"serving.kserve.io/inferenceservice":"llama2"})";
  EXPECT_EQ(pod_of(owned("ReplicaSet", served, "apps/v1", 1), with_default_queue()),
            "default|" + gate + "|quartermaster");
  EXPECT_EQ(pod_of(owned("ReplicaSet", served, "apps/v1", 1), {}), kPodLeft);
  EXPECT_EQ(pod_of(owned("ReplicaSet", "{}", "apps/v1", 1), with_default_queue()), kPodLeft);
  const auto on_node = changed(kPod, R"({"spec":{"nodeName":"n1"}})");
  EXPECT_EQ(pod_of(on_node, with_default_queue()), kPodLeft) << "a bound pod cannot be gated";
  Settings ungated;
  ungated.gate_pods = false;
  EXPECT_EQ(pod_of(kPod, with_default_queue(), ungated), kPodLeft);
}

TEST(Mutation, LeavesOtherObjectsUnchanged) {
  const auto view = with_default_queue();
  EXPECT_EQ(pod_of(changed(kPod, R"({"spec":{"schedulerName":"volcano"}})"), view), "||volcano");
  EXPECT_EQ(job_of(changed(kJob, R"({"spec":{"template":{"spec":{"schedulerName":"volcano"}}}})"), view),
            "|null|volcano");
  EXPECT_EQ(pod_of(changed(kPod, R"({"metadata":{"labels":{"quartermaster.dev/managed":"false"}}})"), view), kPodLeft);
  Settings without;
  without.excluded.insert("team");
  EXPECT_EQ(pod_of(kPod, view, without), kPodLeft);
  auto unmanaged = view;
  unmanaged.namespaces["team"].labels[std::string(kManagedLabel)] = "false";
  EXPECT_EQ(job_of(kJob, unmanaged), kJobLeft);
  auto kueues = view;
  kueues.manages_quota = [](const std::string& ns) { return ns != "team"; };
  EXPECT_EQ(job_of(kJob, kueues), kJobLeft) << "another admission controller manages quota here";
  EXPECT_EQ(pod_of(kPod, kueues), kPodLeft);
  auto other_binds = view;
  other_binds.manages_binding = [](const std::string&) { return false; };
  EXPECT_EQ(job_of(kJob, other_binds), "default|true|default-scheduler")
      << "quota by Quartermaster, bound by another scheduler";
}

// The same sentence as the cause OtherScheduler of an explanation (test/cases/usage.txt).
TEST(OtherSchedulers, JobOfOtherSchedulerIsAllowedWithWarning) {
  const auto queued = changed(kJob, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"mine"}}})");
  const auto names = [&](const std::string& scheduler) {
    const auto patch = R"({"spec":{"template":{"spec":{"schedulerName":")" + scheduler + "\"}}}}";
    return changed(queued, patch.c_str());
  };
  const auto warned = [](const Json& job, const View& view, const Settings& settings = {}) {
    Subject subject{Operation::kCreate, "Job", "team", "train", "ada", &job};
    const Json made = mutate(subject, settings, view);
    subject.object = &made;
    const auto verdict = validate(subject, settings, view);
    EXPECT_TRUE(verdict.allowed());
    std::string out;
    for (const auto& finding : verdict.warnings)
      if (finding.rule == "OtherScheduler") out += finding.to_string();
    return out;
  };
  const auto view = with_default_queue();
  const auto text = other_scheduler(false);
  const auto whole = text.message + " (OtherScheduler): " + text.remedy;
  EXPECT_EQ(warned(names("volcano"), view), whole);
  EXPECT_EQ(warned(names("quartermaster"), view), "");
  EXPECT_EQ(warned(names("default-scheduler"), view), "") << "Quartermaster binds it";
  EXPECT_EQ(warned(changed(kJob, R"({"spec":{"template":{"spec":{"schedulerName":"volcano"}}}})"), view), "")
      << "it is in no queue";
  Settings leaves;
  leaves.scheduler.clear();
  EXPECT_EQ(warned(names("default-scheduler"), view, leaves), whole);
  auto other_binds = view;
  other_binds.manages_binding = [](const std::string&) { return false; };
  EXPECT_EQ(warned(names("volcano"), other_binds), "") << "schedulerName has no effect here";
}

TEST(Mutation, IsIdempotent) {
  View view = with_default_queue();
  view.namespaces["team"].labels[std::string(kPolicyMode)] = "mutate";
  view.namespaces["team"].annotations = {{std::string(kCpuPerGpu), "8"}, {std::string(kGpuNodes), "gpu=yes"}};
  Settings settings;
  settings.required_labels = {{"team", {}}};
  for (auto object : {kPod, kJob}) {
    const char* kind = object["spec"].contains("template") ? "Job" : "Pod";
    auto& spec =
        object["spec"].contains("template") ? object.set("spec").set("template").set("spec") : object.set("spec");
    spec.set("containers", parsed(R"([{"name":"m","resources":{"limits":{"nvidia.com/gpu":2}}}])"));
    const auto once = mutate(created(object, kind), settings, view);
    EXPECT_FALSE(once == object);
    EXPECT_EQ(mutate(created(once, kind), settings, view).dump(), once.dump()) << kind;
  }
}

TEST(Mutation, MarksCheckedObjectAndRemovesForgedMark) {
  const auto marked = [](const Json& object, const char* kind, const View& view, const Settings& settings = {}) {
    return kube::label(mutate_and_mark(created(object, kind), settings, view), kJudged) == "true";
  };
  const auto bare = changed(kPod, R"({"metadata":{"labels":{"quartermaster.dev/judged":"true"}},
      "spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}})");
  const auto good = changed(bare, R"({"metadata":{"labels":null},"spec":{"nodeSelector":{"gpu":"h100"},
      "tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}],
      "containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"1","cpu":"1","memory":"1Gi"}}}]}})");
  EXPECT_TRUE(marked(good, "Pod", with_default_queue()));
  EXPECT_FALSE(marked(bare, "Pod", with_default_queue())) << "it breaks the rules despite its mark";
  const auto empty = changed(bare, R"({"metadata":{"labels":{"quartermaster.dev/judged":""}}})");
  EXPECT_FALSE(mutate_and_mark(created(empty), {}, with_default_queue())["metadata"]["labels"].contains(kJudged))
      << "the API server looks for the key alone";
  Settings warns;
  warns.mode = Mode::kWarn;
  EXPECT_FALSE(marked(bare, "Pod", with_default_queue(), warns)) << "an object with warnings is not marked";
  EXPECT_FALSE(marked(kPod, "Pod", with_default_queue())) << "pods without GPUs are not sent";
  EXPECT_TRUE(marked(kJob, "Job", with_default_queue()));
  const auto update = mutate_and_mark(updated(bare, bare, "Pod"), {}, with_default_queue());
  EXPECT_TRUE(update == bare) << "only creation is checked here";
  const auto once = mutate_and_mark(created(good), {}, with_default_queue());
  EXPECT_TRUE(mutate_and_mark(created(once), {}, with_default_queue()) == once);
}

TEST(Mutation, CheckedJobMarksItsFuturePods) {
  const auto gpus = [](const char* more) {
    auto out = kJob;
    out.merge_patch(parsed(R"({"spec":{"template":{"metadata":{"labels":{"quartermaster.dev/judged":"true","a":"b"}},
        "spec":{"nodeSelector":{"gpu":"h100"},"containers":[{"name":"main","resources":{"limits":
        {"nvidia.com/gpu":"1","cpu":"1","memory":"1Gi"}}}]}}}})"));
    out.merge_patch(parsed(more));
    return out;
  };
  const auto good = gpus(
                 R"({"spec":{"template":{"spec":{"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}]}}}})"),
             bad = gpus("{}");
  const auto template_of = [](const Json& job) {
    return mutate_and_mark(created(job, "Job"), {}, with_default_queue()).path("spec.template");
  };
  EXPECT_EQ(kube::label(template_of(good), kJudged), "true");
  EXPECT_EQ(kube::label(template_of(bad), kJudged), "") << "a forged mark is removed";
  EXPECT_EQ(kube::label(template_of(bad), "a"), "b");
  EXPECT_EQ(kube::label(template_of(kJob), kJudged), "true");

  // While it is suspended its template may change, and the webhook is not called for its pods.
  const auto judged = [](const Json& was, const Json& is) {
    const auto verdict = validate(updated(was, is, "Job"), {}, with_default_queue());
    std::string rules;
    for (const auto& f : verdict.refusals) rules += f.rule + " " + f.field + ";";
    return rules;
  };
  EXPECT_EQ(judged(good, bad), "gpu-toleration spec.template.spec.tolerations;");
  EXPECT_EQ(judged(bad, good), "");
  EXPECT_EQ(judged(bad, changed(bad, R"({"spec":{"template":{"metadata":{"labels":{"x":"y"}}}}})")), "")
      << "existing errors are not checked again";
  const auto plain = changed(good, R"({"spec":{"template":{"metadata":{"labels":null}}}})");
  EXPECT_EQ(judged(plain, good), "held spec.template.metadata.labels[quartermaster.dev/judged];");
  EXPECT_EQ(judged(good, plain), "") << "then its pods are sent to the webhook";
}

TEST(Mutation, DefaultsGpuRequestsToLimits) {  // S-370 S-058
  const auto job = changed(kJob, R"({"spec":{"template":{"spec":{"containers":[
      {"name":"a","resources":{"limits":{"nvidia.com/gpu":"1","cpu":"2"}}},
      {"name":"b","resources":{"limits":{"nvidia.com/gpu":2},"requests":{"nvidia.com/gpu":1}}}]}}}})");
  const auto out = mutate(created(job, "Job"), {}, {});
  const auto& containers = out.path("spec.template.spec")["containers"];
  EXPECT_EQ(containers.at(0)["resources"]["requests"].dump(), R"({"nvidia.com/gpu":"1"})");
  EXPECT_EQ(containers.at(1)["resources"]["requests"].dump(), R"({"nvidia.com/gpu":1})")
      << "explicit requests are kept";
}

// ---- modes of the rules
// --------------------------------------------------------------------------------------------

const Json kBareGpuPod = parsed(R"({"metadata":{"name":"gpu-pod"},"spec":{"containers":[{"name":"cuda-container",
    "resources":{"limits":{"nvidia.com/gpu":1}}}]}})");

std::string verdict_of(const Json& pod, const Settings& settings, const View& view) {
  const auto subject = created(pod);
  const auto mutated = mutate(subject, settings, view);
  const auto verdict = validate(created(mutated), settings, view);
  std::string out = verdict.allowed() ? "allow" : "deny";
  for (const auto& f : verdict.refusals) out += " " + f.rule;
  if (!verdict.warnings.empty()) out += " warned:";
  for (const auto& f : verdict.warnings) out += " " + f.rule;
  return out;
}

TEST(PolicyModes, BareGpuPodIsCheckedByNamespace) {  // S-058
  Settings settings;
  settings.required_labels = {{"team", {}}};
  View view;
  auto& labels = view.namespaces["team"].labels;
  const std::string mode(kPolicyMode), prefix(kPolicyPrefix);
  EXPECT_EQ(verdict_of(kBareGpuPod, settings, view), "deny gpu-share gpu-toleration gpu-node required-labels");
  labels[mode] = "warn";
  EXPECT_EQ(verdict_of(kBareGpuPod, settings, view), "allow warned: gpu-share gpu-toleration gpu-node required-labels");
  labels[mode] = "off";
  EXPECT_EQ(verdict_of(kBareGpuPod, settings, view), "allow");
  labels[prefix + "gpu-toleration"] = "enforce";
  EXPECT_EQ(verdict_of(kBareGpuPod, settings, view), "deny gpu-toleration") << "a rule's own label comes first";
  labels = {{mode, "nonsense"}};
  settings.mode = Mode::kWarn;
  settings.rules["gpu-node"] = Mode::kEnforce;
  EXPECT_EQ(verdict_of(kBareGpuPod, settings, view), "deny gpu-node warned: gpu-share gpu-toleration required-labels")
      << "an invalid label is ignored; the settings apply";
}

TEST(PolicyModes, MutateAppliesNamespaceDefaults) {
  Settings settings;
  settings.required_labels = {{"team", {}}};
  View view;
  auto& ns = view.namespaces["team"];
  ns.labels[std::string(kPolicyMode)] = "mutate";
  EXPECT_EQ(verdict_of(kBareGpuPod, settings, view), "deny gpu-share gpu-node required-labels")
      << "fields without a default stay missing";
  ns.labels["team"] = "research";
  ns.annotations = {
      {std::string(kCpuPerGpu), "8"}, {std::string(kMemoryPerGpu), "64Gi"}, {std::string(kGpuNodes), "gpu=yes"}};
  EXPECT_EQ(verdict_of(kBareGpuPod, settings, view), "allow");
  auto two = kBareGpuPod;
  two.set("spec").set("containers").items_mut()[0].set("resources").set("limits").set("nvidia.com/gpu", 2);
  const auto mutated = mutate(created(two), settings, view);
  EXPECT_EQ(mutated["spec"]["containers"].at(0)["resources"]["requests"].dump(),
            R"({"nvidia.com/gpu":2,"cpu":"16","memory":"128Gi"})");
}

// ---- changes by hand
// -----------------------------------------------------------------------------------------------

const Json kHeld =
    changed(kJob, R"({"metadata":{"uid":"u1","namespace":"team","labels":{"kueue.x-k8s.io/queue-name":"q"}},
    "spec":{"suspend":true}})");

std::string by_hand(const Json& was, const char* patch, const Settings& settings = {}, const View& view = {},
                    const char* user = "alice") {
  const auto is = changed(was, patch);
  const auto verdict =
      validate(updated(was, is, was["spec"].contains("template") ? "Job" : "Pod", user), settings, view);
  std::string out;
  for (const auto& f : verdict.refusals) out += f.rule + " " + f.field + ";";
  return out;
}

TEST(ManualUpdates, RefusesUnsuspendOfHeldJob) {
  EXPECT_EQ(by_hand(kHeld, R"({"spec":{"suspend":false}})"), "held spec.suspend;");
  EXPECT_EQ(by_hand(kHeld, R"({"spec":{"suspend":null}})"), "held spec.suspend;");
  EXPECT_EQ(by_hand(kHeld, R"({"spec":{"suspend":false},"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}})"),
            "held spec.suspend;")
      << "leaving the queue in the same update is refused";
  EXPECT_EQ(by_hand(kHeld, R"({"spec":{"suspend":false},"metadata":{"labels":{"quartermaster.dev/managed":"false"}}})"),
            "held spec.suspend;held metadata.labels[quartermaster.dev/managed];");
  EXPECT_EQ(by_hand(kHeld, R"({"metadata":{"labels":{"note":"x"}}})"), "");
  EXPECT_EQ(by_hand(kHeld, R"({"spec":{"parallelism":4}})"), "") << "while it is pending, its size may change";
  EXPECT_EQ(by_hand(kHeld, R"({"spec":{"template":{"metadata":{"annotations":{"quartermaster.dev/attempt":"9"}}}}})"),
            "owned-metadata spec.template.metadata.annotations[quartermaster.dev/attempt];");
  EXPECT_EQ(by_hand(kHeld, R"({"metadata":{"labels":{"quartermaster.dev/managed":"false"}}})"),
            "held metadata.labels[quartermaster.dev/managed];")
      << "it would be the first of two steps";
  const auto free = changed(kHeld, R"({"metadata":{"labels":null}})");
  EXPECT_EQ(by_hand(free, R"({"spec":{"suspend":false}})"), "") << "not ours";
}

TEST(ManualUpdates, AllowsOwnServiceAccount) {
  Settings settings;
  settings.own_users = {"system:serviceaccount:quartermaster-system:*", "admin"};
  const auto* go = R"({"spec":{"suspend":false}})";
  EXPECT_EQ(by_hand(kHeld, go, settings, {}, "system:serviceaccount:quartermaster-system:qm-admission"), "");
  EXPECT_EQ(by_hand(kHeld, go, settings, {}, "admin"), "");
  EXPECT_EQ(by_hand(kHeld, go, settings, {}, "administrator"), "held spec.suspend;");
}

TEST(ManualUpdates, RefusesChangesOfCountedFieldsWhileHeld) {
  const auto running = changed(kHeld, R"({"spec":{"suspend":false}})");
  const auto* grow = R"({"spec":{"parallelism":4}})";
  EXPECT_EQ(by_hand(running, grow), "admitted spec.parallelism;");
  EXPECT_EQ(by_hand(running, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"other"}}})"),
            "admitted metadata.labels[kueue.x-k8s.io/queue-name];");
  EXPECT_EQ(by_hand(running, R"({"spec":{"suspend":true}})"), "") << "any user may stop a job";
  EXPECT_EQ(by_hand(running, R"({"spec":{"parallelism":1}})"), "") << "fewer pods free quota at once";
  EXPECT_EQ(by_hand(running, R"({"spec":{"parallelism":0}})"), "");
  EXPECT_EQ(by_hand(running, R"({"metadata":{"labels":{"kueue.x-k8s.io/priority-class":"high"}}})"), "")
      << "the priority class of a running job is updated";
  EXPECT_EQ(by_hand(kHeld, grow), "") << "a held job is counted again, also with reserved quota";
  EXPECT_EQ(by_hand(kHeld, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"other"}}})"), "");
  const auto done = changed(running, R"({"status":{"conditions":[{"type":"Complete","status":"True"}]}})");
  EXPECT_EQ(by_hand(done, grow), "");
}

TEST(ManualUpdates, AllowsScaleUpOfElasticJobWhileRunning) {
  const auto elastic = changed(kHeld, R"({"metadata":{"annotations":{"kueue.x-k8s.io/elastic-job":"true"}},
      "spec":{"suspend":false,"template":{"spec":{"schedulerName":"quartermaster"}}}})");
  const auto* grow = R"({"spec":{"parallelism":4,"completions":4}})";
  EXPECT_EQ(by_hand(elastic, grow), "");
  EXPECT_EQ(by_hand(elastic, R"({"spec":{"parallelism":null}})"), "admitted spec.parallelism;") << "not a number";
  EXPECT_EQ(by_hand(elastic, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"other"}}})"),
            "admitted metadata.labels[kueue.x-k8s.io/queue-name];");
  const auto plain = changed(elastic, R"({"metadata":{"annotations":null}})");
  EXPECT_EQ(
      by_hand(plain, R"({"spec":{"parallelism":4},"metadata":{"annotations":{"kueue.x-k8s.io/elastic-job":"true"}}})"),
      "admitted spec.parallelism;")
      << "it declares it before it scales up";
  const auto is = changed(plain, grow);
  EXPECT_NE(validate(updated(plain, is, "Job", "alice"), {}, {}).refusals.front().remedy.find("elastic-job"),
            std::string::npos);
  const auto partial = changed(elastic, R"({"metadata":{"annotations":{"kueue.x-k8s.io/job-min-parallelism":"1"}}})");
  EXPECT_EQ(by_hand(partial, R"({"spec":{"parallelism":4}})"), "admitted spec.parallelism;");
  // Pods that another scheduler binds would run without quota.
  const auto stock = changed(elastic, R"({"spec":{"template":{"spec":{"schedulerName":"default-scheduler"}}}})");
  EXPECT_EQ(by_hand(stock, R"({"spec":{"parallelism":4}})"), "admitted spec.parallelism;");
  View view;
  view.manages_binding = [](const std::string&) { return false; };
  EXPECT_EQ(by_hand(elastic, R"({"spec":{"parallelism":4}})", {}, view), "admitted spec.parallelism;");
}

TEST(ManualUpdates, RefusesRemovalOfGate) {
  const auto gated = changed(kPod, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},
      "spec":{"schedulingGates":[{"name":"quartermaster.dev/admission"},{"name":"example.com/other"}]}})");
  EXPECT_EQ(by_hand(gated, R"({"spec":{"schedulingGates":[{"name":"example.com/other"}]}})"),
            "held spec.schedulingGates;");
  EXPECT_EQ(by_hand(gated, R"({"spec":{"schedulingGates":[{"name":"quartermaster.dev/admission"}]}})"), "");
  EXPECT_EQ(by_hand(gated, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"r"}}})"),
            "held metadata.labels[kueue.x-k8s.io/queue-name];");
}

TEST(ManualUpdates, ReasonNamesRemedy) {
  const auto is = changed(kHeld, R"({"spec":{"suspend":false}})");
  const auto verdict = validate(updated(kHeld, is), {}, {});
  ASSERT_EQ(verdict.refusals.size(), 1U);
  EXPECT_EQ(verdict.refusals[0].to_string(),
            "Job team/train is held by Quartermaster until it is admitted (held): qmctl why team/train shows why it is "
            "pending; to start it sooner, raise its priority or its quota");
}

}  // namespace policy_test
}  // namespace qm::admission_policy
