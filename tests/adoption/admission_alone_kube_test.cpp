// Admission alone: it reads queues from the API server, and unsuspends jobs and removes scheduling gates by quota. The
// cluster's own scheduler binds the pods.
#include "adoption.hpp"

#include <mutex>

namespace qm::adoption {
namespace admission_alone_kube_test {

using kube::resources::kJobs;
using kube::resources::kPods;
using namespace std::chrono_literals;

const kube::Resource kBudgets{"policy", "v1", "poddisruptionbudgets", true};

bool suspended(const Json& job) { return job["spec"]["suspend"].boolean(); }
bool ended(const Json& job, const char* how = "Complete") {
  for (const auto& condition : job.path("status.conditions").items()) {
    if (condition["type"].string() == how && condition["status"].string() == "True") return true;
  }
  return false;
}
const Json& condition(const Json& object, const char* type) {
  static const Json none;
  for (const auto& c : object.path("status.conditions").items()) {
    if (c["type"].string() == type) return c;
  }
  return none;
}

class AdmissionAlone : public Adoption {
 protected:
  std::unique_ptr<Service> start(std::vector<std::string> more = {"quota=quartermaster"}) {
    more.emplace_back("placement=none");
    return service("admission", more);
  }
  bool has_node(const std::string& pod) { return !get(kPods, pod).path("spec.nodeName").string().empty(); }
  static Json spec(Json changes) { return Json::object({{"spec", std::move(changes)}}); }
  /// A patch without a resourceVersion, because admission writes the status of the same object.
  Status set_quota(const std::string& gpus) {
    Json groups = get(cluster_queues_, own("cq")).path("spec.resourceGroups");
    groups.items_mut()[0].set("flavors").items_mut()[0].set("resources").items_mut()[0].set("nominalQuota", gpus);
    QM_TRY(client().merge_patch(cluster_queues_, "", own("cq"),
                                spec(Json::object({{"resourceGroups", std::move(groups)}}))));
    return {};
  }
  bool gated(const std::string& pod) { return get(kPods, pod)["spec"]["schedulingGates"].size() > 0; }
};

TEST_F(AdmissionAlone, JobsRunAsQuotaAllowsAndTheQueueReportsIt) {
  queues(4);
  const auto admission = start();
  create(kJobs, job("first", 4, 6000));
  ASSERT_TRUE(comes([&] { return !suspended(get(kJobs, "first")); })) << admission->log();
  create(kJobs, job("second", 4, 5));
  // The fields that the cluster's own tools read.
  ASSERT_TRUE(comes([&] {
    const auto status = get(cluster_queues_, own("cq"))["status"];
    return status["pendingWorkloads"].integer() == 1 && status["admittedWorkloads"].integer() == 1;
  })) << get(cluster_queues_, own("cq")).pretty();
  const auto queue = get(cluster_queues_, own("cq"));
  EXPECT_EQ(condition(queue, "Active")["status"].string(), "True");
  EXPECT_FALSE(condition(queue, "Active")["lastTransitionTime"].string().empty());
  const auto usage = queue.path("status.flavorsUsage").at(0);
  EXPECT_EQ(usage["name"].string(), own("f"));
  bool seen = false;
  for (const auto& resource : usage["resources"].items()) {
    if (resource["name"].string() != "nvidia.com/gpu") continue;
    EXPECT_EQ(resource["total"].string(), "4");
    seen = true;
  }
  EXPECT_TRUE(seen);
  EXPECT_TRUE(comes([&] { return get(local_queues_, "q")["status"]["pendingWorkloads"].integer() == 1; }))
      << get(local_queues_, "q").pretty();
  EXPECT_TRUE(suspended(get(kJobs, "second"))) << "there is no quota for both";

  // The quota that the first job releases is reserved by the second.
  ASSERT_TRUE(client().remove(kJobs, ns(), "first", {{}, 0, "Background"}));
  EXPECT_TRUE(comes([&] { return ended(get(kJobs, "second")); }, 120s)) << admission->log();
  EXPECT_TRUE(comes([&] { return get(cluster_queues_, own("cq"))["status"]["admittedWorkloads"].integer() == 0; }));
}

TEST_F(AdmissionAlone, AJobThatCanDoWithFewerPodsStartsWithAsManyAsThereIsQuotaFor) {
  queues(4);
  const auto admission = start();
  create(kJobs, job("first", 1, 600));
  ASSERT_TRUE(comes([&] { return !suspended(get(kJobs, "first")); })) << admission->log();
  auto elastic = job("elastic", 1, 600);
  elastic.set("spec").set("parallelism", 5).set("completions", 5);
  elastic.set("metadata").set("annotations").set("kueue.x-k8s.io/job-min-parallelism", "2");
  create(kJobs, std::move(elastic));
  ASSERT_TRUE(comes([&] { return !suspended(get(kJobs, "elastic")); })) << admission->log();
  EXPECT_EQ(get(kJobs, "elastic").path("spec.parallelism").integer(), 3);
  EXPECT_EQ(kube::annotation(get(kJobs, "elastic"), "quartermaster.dev/parallelism"), "5");
  ASSERT_TRUE(comes([&] {
    const auto usage = get(cluster_queues_, own("cq")).path("status.flavorsUsage").at(0);
    for (const auto& resource : usage["resources"].items()) {
      if (resource["name"].string() == "nvidia.com/gpu") return resource["total"].string() == "4";
    }
    return false;
  })) << get(cluster_queues_, own("cq")).pretty();

  // The queue is drained: the suspended Job requests all of its pods again.
  ASSERT_TRUE(
      client().merge_patch(cluster_queues_, "", own("cq"), spec(Json::object({{"stopPolicy", "HoldAndDrain"}}))));
  ASSERT_TRUE(comes([&] { return suspended(get(kJobs, "elastic")); })) << admission->log();
  EXPECT_EQ(get(kJobs, "elastic").path("spec.parallelism").integer(), 5);
  EXPECT_EQ(kube::annotation(get(kJobs, "elastic"), "quartermaster.dev/parallelism"), "");
}

TEST_F(AdmissionAlone, AQueueThatIsDeletedDrainsAndOneThatCannotBeReadStaysAsItWas) {
  queues(4);
  const auto admission = start();
  create(kJobs, job("runs", 4, 600));
  ASSERT_TRUE(comes([&] { return !suspended(get(kJobs, "runs")); })) << admission->log();

  // An invalid quantity: the queue keeps its last valid quota, and an Event reports the error to its owner.
  ASSERT_TRUE(set_quota("many"));
  const kube::Resource events = kube::resources::kEvents;
  EXPECT_TRUE(comes([&] {
    const auto list = client().list_all(events, "default");
    return list && std::any_of(list->begin(), list->end(), [&](const Json& event) {
             return event["reason"].string() == "NotAccepted" &&
                    event.path("involvedObject.name").string() == own("cq");
           });
  })) << admission->log();
  EXPECT_FALSE(suspended(get(kJobs, "runs")));
  const auto taken = [&] { return condition(get(cluster_queues_, own("cq")), "quartermaster.dev/Taken"); };
  ASSERT_TRUE(comes([&] { return taken()["status"].string() == "False"; })) << get(cluster_queues_, own("cq")).pretty();
  EXPECT_EQ(taken()["reason"].string(), "Unreadable");
  EXPECT_NE(taken()["message"].string().find("nominalQuota"), std::string::npos) << taken().pretty();
  EXPECT_EQ(condition(get(cluster_queues_, own("cq")), "Active")["status"].string(), "True");
  // After the correction the error is no longer reported.
  ASSERT_TRUE(set_quota("4"));
  EXPECT_TRUE(comes([&] { return taken().is_null(); })) << get(cluster_queues_, own("cq")).pretty();

  ASSERT_TRUE(client().remove(cluster_queues_, "", own("cq"), {}));
  EXPECT_TRUE(comes([&] { return condition(get(local_queues_, "q"), "Active")["status"].string() == "False"; }))
      << admission->log();
  EXPECT_FALSE(suspended(get(kJobs, "runs"))) << "what it admitted runs to its end";
  create(kJobs, job("late", 1, 5));
  ASSERT_TRUE(comes([&] {
    return admission->state().path("engine.phases.Pending").integer() == 1 ||
           admission->state().dump().find("late") != std::string::npos;
  }));
  EXPECT_TRUE(suspended(get(kJobs, "late")));
}

TEST_F(AdmissionAlone, GatesOfAGroupAreRemovedTogetherAndNotBefore) {
  queues(2);
  const auto admission = start();
  auto plain = pod("plain", 1, 600);
  plain.set("spec").set("schedulingGates", Json::array({Json::object({{"name", "example.com/other"}})}));
  create(kPods, plain);
  const auto member = [&](const std::string& name) {
    auto made = pod(name, 1, 5);
    gate(made);
    made.set("metadata").set("labels").set("kueue.x-k8s.io/pod-group-name", "gang");
    made.set("metadata").set("annotations").set("kueue.x-k8s.io/pod-group-total-count", "2");
    return made;
  };
  create(kPods, member("gang-a"));
  auto single = pod("single", 1, 5);
  gate(single);
  create(kPods, single);
  ASSERT_TRUE(comes([&] { return !gated("single"); })) << admission->log();
  EXPECT_TRUE(gated("gang-a")) << "half a group";
  create(kPods, member("gang-b"));
  ASSERT_TRUE(comes([&] { return !gated("gang-a") && !gated("gang-b"); })) << admission->log();
  const auto a = get(kPods, "gang-a"), b = get(kPods, "gang-b");
  EXPECT_EQ(kube::annotation(a, "quartermaster.dev/workload"), kube::annotation(b, "quartermaster.dev/workload"));
  EXPECT_NE(kube::annotation(a, "quartermaster.dev/index"), kube::annotation(b, "quartermaster.dev/index"));
  EXPECT_NE(a["spec"]["tolerations"].dump().find("flavor.example.com"), std::string::npos)
      << "what the flavor adds is there before the scheduler looks";
  ASSERT_TRUE(comes([&] { return has_node("gang-a") && has_node("gang-b") && has_node("single"); }));
  EXPECT_TRUE(comes([&] {
    return get(kPods, "gang-a").path("status.phase").string() == "Succeeded" &&
           get(kPods, "gang-b").path("status.phase").string() == "Succeeded";
  }));
  EXPECT_TRUE(comes([&] { return get(cluster_queues_, own("cq"))["status"]["reservingWorkloads"].integer() == 0; }))
      << admission->log();
  EXPECT_TRUE(gated("plain")) << "a gate of another controller is not removed";
}

// S-101: a Volcano Queue with the name of a ClusterQueue is a different object.
TEST_F(AdmissionAlone, AVolcanoGroupIsLetGoWholeOnceItsLeastNumberIsThere) {
  definitions("volcano.yaml");
  const kube::Resource groups{"scheduling.volcano.sh", "v1beta1", "podgroups", true};
  queues(4);
  const kube::Resource volcano_queues{"scheduling.volcano.sh", "v1beta1", "queues", false};
  const auto small = Json::object({{"weight", 1}, {"capability", Json::object({{"nvidia.com/gpu", 1}})}});
  create(volcano_queues, Json::object({{"apiVersion", "scheduling.volcano.sh/v1beta1"},
                                       {"kind", "Queue"},
                                       {"metadata", Json::object({{"name", own("cq")}})},
                                       {"spec", small}}));
  create(groups, Json::object({{"apiVersion", "scheduling.volcano.sh/v1beta1"},
                               {"kind", "PodGroup"},
                               {"metadata", Json::object({{"name", "ring"}, {"namespace", ns()}})},
                               {"spec", Json::object({{"minMember", 3}, {"queue", own("cq")}})}}));
  const auto admission = start();
  const auto member = [&](const std::string& name, int gpus) {
    auto made = pod(name, gpus, 3600);
    gate(made);
    made.set("metadata").set("annotations").set("scheduling.k8s.io/group-name", "ring");
    return made;
  };
  create(kPods, member("ring-a", 1));
  create(kPods, member("ring-b", 1));
  auto single = pod("single", 1, 2);
  gate(single);
  create(kPods, single);
  ASSERT_TRUE(comes([&] { return !gated("single"); })) << admission->log();
  EXPECT_TRUE(gated("ring-a") && gated("ring-b")) << "two of three";
  create(kPods, member("ring-c", 2));
  ASSERT_TRUE(comes([&] { return !gated("ring-a") && !gated("ring-b") && !gated("ring-c"); })) << admission->log();
  const auto workload = kube::annotation(get(kPods, "ring-a"), "quartermaster.dev/workload");
  EXPECT_FALSE(workload.empty());
  // The group uses four GPUs of the ClusterQueue, regardless of the Volcano Queue of that name, also after its
  // deletion.
  ASSERT_TRUE(client().remove(volcano_queues, "", own("cq"), {}));
  EXPECT_TRUE(comes([&] {
    const auto queue = get(cluster_queues_, own("cq"));
    return condition(queue, "Active")["status"].string() == "True" &&
           queue["status"]["reservingWorkloads"].integer() == 1;
  })) << get(cluster_queues_, own("cq")).pretty();
  for (const char* name : {"ring-b", "ring-c"}) {
    EXPECT_EQ(kube::annotation(get(kPods, name), "quartermaster.dev/workload"), workload);
  }
  // The pods finish only after the checks above.
  const auto succeeded = Json::object({{"status", Json::object({{"phase", "Succeeded"}})}});
  for (const char* name : {"ring-a", "ring-b", "ring-c"}) {
    ASSERT_TRUE(comes([&] { return get(kPods, name).path("status.phase").string() == "Running"; })) << name;
    EXPECT_TRUE(client().merge_patch(kPods, ns(), name, succeeded, "status")) << name;
  }
  EXPECT_TRUE(comes([&] { return get(cluster_queues_, own("cq"))["status"]["reservingWorkloads"].integer() == 0; }))
      << admission->log();
}

TEST_F(AdmissionAlone, ACheckpointPolicyOfTheClusterConfiguresSaves) {
  definitions("quartermaster.yaml");
  const kube::Resource policies{"quartermaster.dev", "v1alpha1", "checkpointpolicies", false};
  const auto policy = [&](const std::string& selector) {
    return Json::object({{"apiVersion", "quartermaster.dev/v1alpha1"},
                         {"kind", "CheckpointPolicy"},
                         {"metadata", Json::object({{"name", own("saves")}})},
                         {"spec", Json::object({{"selector", selector}, {"mode", "http"}, {"port", 9000}})}});
  };
  const std::string team = "quartermaster.dev/team=" + own("vision");
  create(policies, policy(team));
  queues(4);
  const auto admission = start();
  const auto of_team = [&](const std::string& name) {
    auto made = job(name, 1, 600);
    made.set("metadata").set("labels").set("quartermaster.dev/team", own("vision"));
    return made;
  };
  const auto url = [&](const std::string& name) {
    return kube::annotation(get(kJobs, name)["spec"]["template"], "quartermaster.dev/checkpoint");
  };
  create(kJobs, of_team("saves"));
  create(kJobs, job("does-not", 1, 600));
  auto lone = pod("lone", 1, 600);
  gate(lone);
  lone.set("metadata").set("labels").set("quartermaster.dev/team", own("vision"));
  create(kPods, lone);
  ASSERT_TRUE(comes([&] {
    return !suspended(get(kJobs, "saves")) && !suspended(get(kJobs, "does-not")) && !gated("lone");
  })) << admission->log();
  EXPECT_EQ(url("saves"), "http://{podIP}:9000/v1/checkpoint");
  EXPECT_EQ(kube::annotation(get(kPods, "lone"), "quartermaster.dev/checkpoint"), url("saves"));
  EXPECT_EQ(url("does-not"), "");
  // With an invalid object the last valid version remains in force.
  auto broken = get(policies, own("saves"));
  broken.set("spec").set("selector", "team in (");
  ASSERT_TRUE(client().update(policies, "", own("saves"), broken));
  ASSERT_TRUE(comes([&] {
    const auto events = client().list_all(kube::resources::kEvents, "default");
    return events && std::any_of(events->begin(), events->end(), [&](const Json& event) {
             return event["reason"].string() == "NotAccepted" &&
                    event.path("involvedObject.name").string() == own("saves");
           });
  })) << admission->log();
  create(kJobs, of_team("later"));
  ASSERT_TRUE(comes([&] { return !suspended(get(kJobs, "later")); })) << admission->log();
  EXPECT_EQ(url("later"), "http://{podIP}:9000/v1/checkpoint");
}

TEST_F(AdmissionAlone, AnEvictionHonoursTheBudgetUntilItsDeadline) {
  queues(2);
  const auto admission = start();
  auto guarded = pod("guarded", 1, 3000), other = pod("other", 1, 3000);
  gate(guarded);
  gate(other);
  guarded.set("metadata").set("labels").set("app", "guarded");
  create(kBudgets,
         Json::object(
             {{"apiVersion", "policy/v1"},
              {"kind", "PodDisruptionBudget"},
              {"metadata", Json::object({{"name", "one"}, {"namespace", ns()}})},
              {"spec",
               Json::object({{"minAvailable", 1},
                             {"selector", Json::object({{"matchLabels", Json::object({{"app", "guarded"}})}})}})}}));
  create(kPods, guarded);
  create(kPods, other);
  ASSERT_TRUE(comes([&] {
    return get(kPods, "guarded").path("status.phase").string() == "Running" &&
           get(kPods, "other").path("status.phase").string() == "Running";
  })) << admission->log();
  // The PodDisruptionBudget must have observed its pod.
  ASSERT_TRUE(comes([&] {
    const auto status = get(kBudgets, "one")["status"];
    return !cluster().scheduler || status["currentHealthy"].integer() == 1;
  }));
  // The deadline may pass before a check runs, so the order of the deletions is compared.
  std::mutex mutex;
  std::vector<std::string> gone;
  const auto on_change = [&](const Json& object, bool deleted) {
    const std::scoped_lock lock(mutex);
    if (deleted) gone.push_back(kube::name_of(object));
  };
  kube::Informer pods(client(), kPods, ns(), kube::Informer::Callbacks{on_change, [] {}});
  pods.start();
  ASSERT_TRUE(comes([&] { return pods.synced(); }));
  const auto drain = Json::object({{"spec", Json::object({{"stopPolicy", "HoldAndDrain"}})}});
  ASSERT_TRUE(client().merge_patch(local_queues_, ns(), "q", drain));
  ASSERT_TRUE(comes([&] { return get(kPods, "other").is_null(); })) << admission->log();
  if (cluster().scheduler) {
    EXPECT_FALSE(get(kPods, "guarded").is_null());
    // Once the PodDisruptionBudget allows it, the pod is evicted at the next retry.
    ASSERT_TRUE(comes([&] { return admission->log().find("budget") != std::string::npos; }));
    const auto none = Json::object({{"spec", Json::object({{"minAvailable", 0}})}});
    ASSERT_TRUE(client().merge_patch(kBudgets, ns(), "one", none));
  }
  // Otherwise 30 s of domain time after the order.
  EXPECT_TRUE(comes([&] { return get(kPods, "guarded").is_null(); }, 90s)) << admission->log();
  EXPECT_NE(admission->log().find("budget"), std::string::npos) << "the budget was asked";
  EXPECT_TRUE(comes([&] {
    const std::scoped_lock lock(mutex);
    return gone.size() == 2;
  }));
  pods.stop();
  EXPECT_EQ(gone, (std::vector<std::string>{"other", "guarded"}));
}

TEST_F(AdmissionAlone, WithKueueActiveItDefersUntilALabel) {
  queues(4);
  lease("c1f6bfd2.kueue.x-k8s.io", "kueue-1");
  const auto admission = start({});
  create(kJobs, job("theirs", 1, 5));
  ASSERT_TRUE(comes([&] { return has_event("DeferredToOtherController", "kueue is active"); })) << admission->log();
  EXPECT_TRUE(suspended(get(kJobs, "theirs")));
  EXPECT_TRUE(get(cluster_queues_, own("cq"))["status"]["conditions"].is_null()) << "the status is Kueue's";
  // With the label it manages the namespace.
  label_namespace("quartermaster.dev/quota", "quartermaster");
  EXPECT_TRUE(comes([&] { return ended(get(kJobs, "theirs")); }, 90s)) << admission->log();
}

// S-096: each namespace names the controller of its quota, and objects of both kinds exist next to each other.
TEST_F(AdmissionAlone, WithVolcanoActiveItDefersAndWithKedaAloneItDoesNot) {
  definitions("volcano.yaml");
  definitions("keda.yaml");
  queues(4);
  // KEDA scales replicas; it controls neither quota nor binding.
  lease("operator.keda.sh", "keda-operator-1");
  {
    const auto admission = start({});
    create(kJobs, job("with-keda", 1, 2));
    EXPECT_TRUE(comes([&] { return ended(get(kJobs, "with-keda")); }, 90s)) << admission->log();
    EXPECT_FALSE(has_event("DeferredToOtherController", "keda"));
  }
  lease("vc-scheduler", "volcano-1");
  const auto admission = start({});
  create(kJobs, job("theirs", 1, 2));
  ASSERT_TRUE(comes([&] { return has_event("DeferredToOtherController", "volcano is active"); })) << admission->log();
  EXPECT_TRUE(suspended(get(kJobs, "theirs")));
  // One namespace is managed by its label while all others stay with Volcano.
  label_namespace("quartermaster.dev/quota", "quartermaster");
  EXPECT_TRUE(comes([&] { return ended(get(kJobs, "theirs")); }, 90s)) << admission->log();
}

}  // namespace admission_alone_kube_test
}  // namespace qm::adoption
