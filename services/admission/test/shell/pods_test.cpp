// Pods of controllers, by the chain of their owners: the effect of a rollout, a new revision and a retry.
#include "src/shell/translate/pods.hpp"

#include "admission_host.hpp"
#include "job_server.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace pods_test {

/// A gated pod as its controller creates it; `owner` is "GROUP/VERSION Kind name".
Json pod(const std::string& name, const std::string& created, const std::string& owner, Labels labels, int gpus = 1) {
  Json out = *Json::parse(
      R"({"apiVersion":"v1","kind":"Pod","spec":{"schedulingGates":[{"name":"quartermaster.dev/admission"}],
      "containers":[{"name":"main"}]},"status":{"phase":"Pending"}})");
  const auto first = owner.find(' '), second = owner.rfind(' ');
  auto& metadata = out.set("metadata");
  metadata.set("namespace", "team").set("name", name).set("uid", "uid-" + name).set("creationTimestamp", created);
  metadata.set("ownerReferences", Json::array({Json::object({{"apiVersion", owner.substr(0, first)},
                                                             {"kind", owner.substr(first + 1, second - first - 1)},
                                                             {"name", owner.substr(second + 1)},
                                                             {"uid", "uid-of-" + owner.substr(second + 1)},
                                                             {"controller", true}})}));
  labels["kueue.x-k8s.io/queue-name"] = "q";
  for (const auto& [key, value] : labels) metadata.set("labels").set(key, value);
  if (gpus > 0) {
    out.set("spec").set("containers").items_mut()[0].set("resources").set("limits").set("nvidia.com/gpu", gpus);
  }
  return out;
}

class PodIntegration : public ::testing::Test {
 protected:
  void SetUp() override {
    host_ = testing::start_admission(clock_);
    ASSERT_TRUE(host_);
    for (auto& object : testing::queue_objects()) Mailbox(*host_).send("object", object);  // eight GPUs
    client_ = std::make_unique<kube::Client>(server_.client());
    WatchOptions without_placement;
    without_placement.placement = false;
    watch_ = std::make_unique<PodWatch>(*client_, *host_, without_placement);
    watch_->start();
  }
  void TearDown() override {
    server_.close_watches();
    watch_.reset();
    if (host_) host_->stop();
  }
  std::optional<Workload> workload(const std::string& uid) {
    std::optional<Workload> found;
    host_->read([&](const service::Shell& shell) {
      if (const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid))) found = *w;
    });
    return found;
  }
  bool is(const std::string& name, Phase phase) {
    return qm::testing::wait_until([&] {
      const auto w = workload("uid-" + name);
      return w && w->phase == phase;
    });
  }
  /// Unlimited quota for CPU and memory too.
  void cover_everything() {
    Json queue = *Json::parse(testing::queue_objects().at(1));
    Json& group = queue.set("spec").set("resourceGroups").items_mut()[0];
    Json& resources = group.set("flavors").items_mut()[0].set("resources");
    for (const char* name : {"cpu", "memory"}) {
      group.set("coveredResources").push_back(name);
      resources.push_back(Json::object({{"name", name}, {"nominalQuota", "1Ti"}}));
    }
    Mailbox(*host_).send("object", queue.dump());
  }
  void end(const std::string& name, const char* phase) {
    Json now = server_.get("team/" + name);
    now.set("status").set("phase", phase);
    now.set("spec").erase("schedulingGates");
    now.set("metadata").set("annotations").set("quartermaster.dev/workload", "uid-" + name);
    now.set("metadata").set("annotations").set("quartermaster.dev/index", "0");
    server_.put(now);
  }

  testing::JobServer server_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<PodWatch> watch_;
};

constexpr const char* kOne = "2026-01-01T00:00:01Z";
constexpr const char* kTwo = "2026-01-01T00:00:02Z";
constexpr const char* kThree = "2026-01-01T00:00:03Z";

TEST_F(PodIntegration, AnnotationReachesNoWorkloadOfAnotherNamespace) {
  server_.put(pod("a", kOne, "apps/v1 ReplicaSet web", {}));
  ASSERT_TRUE(is("a", Phase::kAdmitted));
  auto forged = pod("b", kTwo, "apps/v1 ReplicaSet web", {});
  forged.set("metadata").set("namespace", "rival");
  forged.set("spec").erase("schedulingGates");
  forged.set("metadata").set("annotations").set("quartermaster.dev/workload", "uid-a");
  forged.set("metadata").set("annotations").set("quartermaster.dev/index", "0");
  server_.put(forged);
  // Inputs of one watch are ordered: when this pod is known, those of the forged pod are handled.
  server_.put(pod("c", kThree, "apps/v1 ReplicaSet web", {}));
  ASSERT_TRUE(is("c", Phase::kAdmitted));
  EXPECT_EQ(workload("uid-a")->spec.ns, Namespace("team"));
  EXPECT_EQ(workload("uid-a")->phase, Phase::kAdmitted);
  server_.remove("rival/b");
  server_.put(pod("d", kThree, "apps/v1 ReplicaSet web", {}));
  ASSERT_TRUE(is("d", Phase::kAdmitted));
  EXPECT_EQ(workload("uid-a")->phase, Phase::kAdmitted) << "the end of the forged pod is not its end";
}

TEST_F(PodIntegration, FirstListIsOrderedByAge) {
  server_.close_watches();
  watch_.reset();
  // A list is ordered by name.
  for (int i = 0; i < 20; ++i) {
    server_.put(
        pod(fmt::format("p{:02}", i), fmt::format("2026-01-01T00:00:{:02}Z", 59 - i), "apps/v1 ReplicaSet web", {}, 8));
  }
  watch_ = std::make_unique<PodWatch>(*client_, *host_);
  watch_->start();
  EXPECT_TRUE(is("p19", Phase::kAdmitted));
  EXPECT_TRUE(is("p00", Phase::kPending));
}

TEST_F(PodIntegration, AYoungerPodIsNotSentBeforeAnOlderOneThatWasHeldBack) {
  server_.close_watches();
  watch_.reset();
  kube::Ownership owners(*client_, {"quota", "auto", {}});
  watch_ = std::make_unique<PodWatch>(*client_, *host_, WatchOptions{&owners, &owners});
  server_.put(pod("z-older", kOne, "apps/v1 ReplicaSet web", {}, 8));
  watch_->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return watch_->synced() && server_.watched("pods"); }));
  owners.start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return owners.known(); }));
  // The owners are known, and the watch has not been notified yet.
  server_.put(pod("a-younger", kTwo, "apps/v1 ReplicaSet web", {}, 8));
  EXPECT_FALSE(qm::testing::wait_until([&] { return workload("uid-a-younger").has_value(); }, std::chrono::seconds(1)));
  watch_->owners_changed();
  EXPECT_TRUE(is("z-older", Phase::kAdmitted));
  EXPECT_TRUE(is("a-younger", Phase::kPending));
}

TEST(PodGroups, VolcanoGroupFillsInMissingFieldsOfPods) {
  auto member = pod("ring-a", "2026-01-01T00:00:00Z", "batch/v1 Job ring", {});
  auto group = Json::object({{"kind", "PodGroup"},
                             {"metadata", Json::object({{"namespace", "team"}, {"name", "ring"}, {"uid", "u"}})},
                             {"pods", Json::array({member})}});
  group.set("podGroup", *Json::parse(R"({"metadata":{"annotations":{"volcano.sh/preemptable":"false"}},
      "spec":{"minMember":1,"queue":"research","priorityClassName":"high"}})"));
  auto seen = parse_pods(group);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(seen->spec.queue, "q") << "the pods set it themselves";
  EXPECT_EQ(seen->spec.priority_class, "high");
  EXPECT_EQ(seen->spec.labels["volcano.sh/preemptable"], "false");
  member.set("metadata").set("labels").erase("kueue.x-k8s.io/queue-name");
  group.set("pods", Json::array({member}));
  seen = parse_pods(group);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(seen->spec.queue, "research");
}

// Quota is reserved for all of them; the minimum is published to placement.
TEST(PodGroups, VolcanoGroupMayRunWithMinMember) {
  Json pods = Json::array();
  const auto member = [](int i, const char* phase) {
    auto one = pod(fmt::format("ring-{}", i), "2026-01-01T00:00:00Z", "batch/v1 Job ring", {});
    one.set("metadata").set("annotations").set("kueue.x-k8s.io/pod-group-total-count", "8");
    one.set("metadata").set("annotations").set("scheduling.k8s.io/group-name", "ring");
    if (std::string_view(phase) == "Pending") return one;
    one.set("spec").erase("schedulingGates");
    one.set("status").set("phase", phase);
    return one;
  };
  Json group = Json::object(
      {{"kind", "PodGroup"}, {"metadata", Json::object({{"namespace", "team"}, {"name", "ring"}, {"uid", "u"}})}});
  group.set("podGroup", *Json::parse(R"({"spec":{"minMember":4,"queue":"research"}})"));
  const auto seen_with = [&](int count, const char* phase) {
    Json list = Json::array();
    for (int i = 0; i < count; ++i) list.push_back(member(i, phase));
    group.set("pods", std::move(list));
    const auto seen = parse_pods(group);
    EXPECT_TRUE(seen) << seen.error().to_string();
    return *seen;
  };
  const auto waiting = seen_with(8, "Pending");
  ASSERT_EQ(waiting.spec.pod_sets.size(), 1U);
  EXPECT_EQ(waiting.spec.pod_sets[0].count, 8);
  EXPECT_EQ(waiting.spec.pod_sets[0].min_count, 4);
  EXPECT_TRUE(seen_with(8, "Succeeded").complete);
  EXPECT_TRUE(seen_with(7, "Succeeded").complete) << "one was lost with its node";
  EXPECT_FALSE(seen_with(3, "Succeeded").complete);
  EXPECT_FALSE(seen_with(7, "Running").complete);
  group.set("podGroup", *Json::parse(R"({"spec":{"minMember":8,"queue":"research"}})"));
  EXPECT_EQ(seen_with(8, "Pending").spec.pod_sets[0].min_count, 0);
  EXPECT_FALSE(seen_with(7, "Succeeded").complete);
}

// S-387: pods of another revision run in addition to those of the first, and count.
TEST_F(PodIntegration, SurgePodNeedsQuotaLikeAnyPod) {
  const Labels service{{"serving.kserve.io/inferenceservice", "llama2"}};
  for (int i = 0; i < 4; ++i) {
    server_.put(pod(fmt::format("one-{}", i), kOne, "apps/v1 ReplicaSet llama2-predictor-00001", service, 2));
  }
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(is(fmt::format("one-{}", i), Phase::kAdmitted)) << i;
  server_.put(pod("two-0", kTwo, "apps/v1 ReplicaSet llama2-predictor-00002", service, 2));
  ASSERT_TRUE(is("two-0", Phase::kPending)) << "all eight GPUs are in use";
  server_.remove("team/one-3");
  EXPECT_TRUE(is("two-0", Phase::kAdmitted)) << "the old revision released quota";
  EXPECT_EQ(workload("uid-one-0")->phase, Phase::kAdmitted);
}

// S-389: a retry has the queue position of its run, and a step without GPUs waits for none.
TEST_F(PodIntegration, RetryKeepsItsQuota) {
  const Labels run{{"workflows.argoproj.io/workflow", "train"}, {"pipeline/runid", "7"}};
  server_.put(pod("big", kOne, "apps/v1 ReplicaSet serve", {}, 8));
  ASSERT_TRUE(is("big", Phase::kAdmitted));
  server_.put(pod("try-0", kOne, "argoproj.io/v1alpha1 Workflow train", run, 4));
  ASSERT_TRUE(is("try-0", Phase::kPending));
  server_.put(pod("other", kTwo, "apps/v1 ReplicaSet other", {}, 8));
  ASSERT_TRUE(is("other", Phase::kPending));
  server_.remove("team/big");
  ASSERT_TRUE(is("try-0", Phase::kAdmitted));
  end("try-0", "Failed");
  ASSERT_TRUE(qm::testing::wait_until([&] { return workload("uid-other")->phase == Phase::kAdmitted; }));
  // The next attempt is created last, and precedes workloads that arrived after the run.
  server_.put(pod("late", kTwo, "apps/v1 ReplicaSet late", {}, 8));
  ASSERT_TRUE(is("late", Phase::kPending));
  server_.put(pod("try-1", kThree, "argoproj.io/v1alpha1 Workflow train", run, 4));
  ASSERT_TRUE(is("try-1", Phase::kPending));
  EXPECT_EQ(workload("uid-try-1")->spec.submitted, *from_rfc3339(kOne));
  server_.put(pod("check", kThree, "argoproj.io/v1alpha1 Workflow train", run, 0));
  EXPECT_TRUE(is("check", Phase::kAdmitted)) << "a step without GPUs needs no quota";
  server_.remove("team/other");
  EXPECT_TRUE(is("try-1", Phase::kAdmitted));
  EXPECT_EQ(workload("uid-late")->phase, Phase::kPending);
}

// S-387: the service of a manifest; a new storageUri creates another revision with pods of the same requests.
TEST_F(PodIntegration, ServedModelAndNextRevision) {
  struct Case {
    std::string file, service;
    int gpus;
    std::int64_t cpu_milli, memory_gib;
  };
  cover_everything();
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(Case{"kserve-embedder.yaml", "embedder", 2, 6000, 24},
                                  Case{"001-kserve-llama2-inference.yaml", "llama2-inference", 1, 4000, 16});
    const auto loaded = config::load_path(manifests.dir + c.file);
    const Json& model = loaded.objects.at(0).document.content.path("spec.predictor.model");
    const auto first = c.service + "-1", second = c.service + "-2", others = c.service + "-others";
    const auto revision = [&](const std::string& name, const char* created) {
      Json out = pod(name, created, fmt::format("apps/v1 ReplicaSet {}-predictor", name),
                     {{"serving.kserve.io/inferenceservice", c.service}}, 0);
      out.set("spec").set("containers").items_mut()[0].set("resources", model["resources"]);
      return out;
    };
    server_.put(revision(first, kOne));
    ASSERT_TRUE(is(first, Phase::kAdmitted));
    const auto shape = workload("uid-" + first)->spec.pod_sets.at(0).shape;
    EXPECT_EQ(shape.gpu.whole, c.gpus);
    EXPECT_EQ(shape.cpu_milli, c.cpu_milli);
    EXPECT_EQ(shape.memory_bytes, c.memory_gib << 30);
    server_.put(pod(others, kOne, "apps/v1 ReplicaSet others", {}, 8 - c.gpus));
    ASSERT_TRUE(is(others, Phase::kAdmitted));
    server_.put(revision(second, kTwo));
    ASSERT_TRUE(is(second, Phase::kPending)) << "the surge has no quota while both are to run";
    EXPECT_EQ(workload("uid-" + first)->phase, Phase::kAdmitted);
    server_.remove("team/" + others);
    EXPECT_TRUE(is(second, Phase::kAdmitted));
    for (const auto& name : {first, second}) {
      server_.remove("team/" + name);
      ASSERT_TRUE(is(name, Phase::kCancelled)) << name;
    }
  }
}

// S-278: a step of a pipeline is one workload with its limits.
TEST_F(PodIntegration, PipelineStepIsOneWorkload) {
  Json step = pod("train", kOne, "argoproj.io/v1alpha1 Workflow run", {{"pipeline/runid", "7"}}, 4);
  step.set("spec").set("containers").items_mut()[0].set("resources").set("limits").set("memory", "32G");
  cover_everything();
  server_.put(step);
  ASSERT_TRUE(is("train", Phase::kAdmitted));
  const auto spec = workload("uid-train")->spec;
  EXPECT_EQ(spec.total_pods(), 1);
  EXPECT_EQ(spec.total_gpu_milli(), 4000);
  EXPECT_EQ(spec.pod_sets[0].shape.memory_bytes, 32'000'000'000);
}

TEST_F(PodIntegration, PodsOfSuspendableOwnerAreNotCountedTwice) {
  Json rank = pod("rank-0", kOne, "kubeflow.org/v1 PyTorchJob train", {}, 8);
  rank.set("spec").erase("schedulingGates");
  rank.set("metadata").set("annotations").set("quartermaster.dev/workload", "uid-of-train");
  server_.put(rank);
  server_.put(pod("alone", kTwo, "apps/v1 ReplicaSet serve", {}, 8));
  ASSERT_TRUE(is("alone", Phase::kAdmitted));
  EXPECT_FALSE(workload("uid-of-train"));
}

}  // namespace pods_test
}  // namespace qm::admission
