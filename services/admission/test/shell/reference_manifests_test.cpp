// Reference manifests through the door that people use, down to what the engine makes of them.
#include "qm/admission/engine.hpp"
#include "qm/admission/translate.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace qm::admission {
namespace {

constexpr const char* kLocalQueue = R"(
kind: LocalQueue
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: q, namespace: a}
spec: {clusterQueue: research-queue}
)";

class ReferenceManifests : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = qm::testing::shared_dir();
    if (!shared || !std::filesystem::is_directory(*shared + "/manifests")) GTEST_SKIP() << qm::testing::no_shared();
    dir_ = *shared + "/manifests/";
  }
  /// Applies a file as it lies there; its warnings.
  std::vector<std::string> apply(const std::string& name) {
    const auto objects = objects_from_manifest(qm::testing::read_file(dir_ + name), name);
    EXPECT_TRUE(objects) << (objects ? "" : objects.error().to_string());
    if (!objects) return {};
    const std::vector<Command> batch{*objects};
    (void)engine_.step(batch, now_);
    engine_.commit();
    return objects->warnings;
  }
  /// The reference ClusterQueue selects no namespace, and so nothing would ever be admitted; its users have to say {}.
  void apply_open_queue() {
    apply("001-clusterqueue-research.yaml");
    auto object = config::load_path(dir_ + "001-clusterqueue-research.yaml").objects.at(0).document.content;
    object.set("spec").set("namespaceSelector", Json::object());
    apply_text(object.dump());
  }
  /// Objects that the manifests need beside them.
  void apply_text(const std::string& text) {
    const auto objects = objects_from_manifest(text, "beside.yaml");
    ASSERT_TRUE(objects) << objects.error().to_string();
    const std::vector<Command> batch{*objects};
    (void)engine_.step(batch, now_);
    engine_.commit();
  }
  void admit(const std::string& uid) {
    const std::vector<Command> batch{
        PlacementHeard{WorkloadUid(uid), workload(uid).attempt, Answer::kReserved, "r", {}, {}}};
    (void)engine_.step(batch, now_);
    engine_.commit();
  }
  void see(const std::string& uid, const std::string& ns, const std::string& priority_class) {
    JobSeen seen;
    seen.spec.uid = WorkloadUid(uid);
    seen.spec.ns = Namespace(ns);
    seen.spec.name = uid;
    seen.spec.priority_class = priority_class;
    PodSet pods;
    pods.shape.gpu.whole = 1;
    seen.spec.pod_sets.push_back(pods);
    const std::vector<Command> batch{seen};
    (void)engine_.step(batch, now_);
    engine_.commit();
  }
  [[nodiscard]] const Workload& workload(const std::string& uid) const { return *engine_.find(WorkloadUid(uid)); }

  std::string dir_;
  Engine engine_;
  Instant now_ = from_micros(1'000'000);
};

// S-087: a job that names no queue lands in the namespace's LocalQueue, and so in research-queue.
TEST_F(ReferenceManifests, AJobWithoutAQueueLandsInResearchLocal) {
  apply("001-resourceflavor-h100-nvlink.yaml");
  apply_open_queue();
  apply("001-localqueue-research.yaml");
  see("train", "ml-research", "");
  EXPECT_EQ(workload("train").cluster_queue, QueueName("research-queue"));
  EXPECT_EQ(workload("train").phase, Phase::kQuotaReserved);
  see("stray", "elsewhere", "");
  EXPECT_EQ(workload("stray").cluster_queue, QueueName());
}

// S-269: one gang of 64 on eight nodes, of which nothing starts where there are 63.
TEST_F(ReferenceManifests, AGangOf64NeverStartsIn63) {
  const auto queue_of = [&](int gpus) {
    apply_text("{kind: ResourceFlavor, apiVersion: kueue.x-k8s.io/v1beta1, metadata: {name: any}}");
    apply_text(
        fmt::format("{{kind: ClusterQueue, apiVersion: kueue.x-k8s.io/v1beta1, metadata: {{name: research-queue}}, "
                    "spec: {{namespaceSelector: {{}}, resourceGroups: [{{coveredResources: [nvidia.com/gpu], flavors: "
                    "[{{name: any, resources: [{{name: nvidia.com/gpu, nominalQuota: {}}}]}}]}}]}}}}",
                    gpus));
  };
  queue_of(63);
  auto object = config::load_path(dir_ + "001-pytorchjob-llama2.yaml").objects.at(0).document.content;
  object.set("metadata").set("uid", "llama2");
  object.set("spec").set("runPolicy").set("suspend", true);
  ASSERT_TRUE(is_ours(object));
  const auto seen = job_seen(object);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(seen->spec.total_pods(), 8);
  const auto intents_of = [&](const Engine::Command& command) {
    const std::vector<Command> batch{command};
    const auto out = engine_.step(batch, now_);
    engine_.commit();
    std::string kinds;
    for (const auto& intent : out.intents) kinds += intent.kind + " ";
    return kinds;
  };
  EXPECT_EQ(intents_of(*seen), "event.create ") << "the queue is a ClusterQueue by name";
  EXPECT_EQ(workload("llama2").phase, Phase::kPending);
  EXPECT_TRUE(workload("llama2").usage.empty()) << "not a GPU of it";
  // Quota for all, and a cluster without room: still nothing starts.
  queue_of(64);
  ASSERT_EQ(workload("llama2").phase, Phase::kQuotaReserved);
  EXPECT_EQ(workload("llama2").usage.at({FlavorName("any"), "nvidia.com/gpu"}), 64'000);
  EXPECT_EQ(intents_of(PlacementHeard{WorkloadUid("llama2"), 1, Answer::kShort, {}, "63 GPUs are free", {}}), "");
  EXPECT_EQ(workload("llama2").phase, Phase::kQuotaReserved);
  EXPECT_EQ(intents_of(PlacementHeard{WorkloadUid("llama2"), 1, Answer::kReserved, "r", {}, {}}), "job.unsuspend ");
}

// S-089: both ways to write a value are taken; the one that Kueue does not have brings a warning each.
TEST_F(ReferenceManifests, PriorityClassesWithTheValueInSpecAreTakenWithAWarning) {
  const auto warnings = apply("001-workloadpriorityclass-scheduling.yaml");
  EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(),
                          [](const std::string& w) { return w.find("value") != std::string::npos; }),
            2)
      << warnings.size();
  const auto upstream = objects_from_manifest(
      "apiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\n"
      "metadata: {name: top}\nvalue: 7\n",
      "top.yaml");
  ASSERT_TRUE(upstream);
  EXPECT_TRUE(upstream->warnings.empty());
  ASSERT_EQ(upstream->priority_classes.size(), 1U);
  EXPECT_EQ(upstream->priority_classes[0].value, 7);
  see("serve", "a", "critical-inference");
  see("train", "a", "spot-training");
  EXPECT_EQ(workload("serve").spec.priority, 1000);
  EXPECT_EQ(workload("train").spec.priority, 100);
}

// S-078: both labels of the flavor stand in the node selector of what is admitted under it.
TEST_F(ReferenceManifests, AdmittedPodsGetTheLabelsOfTheirFlavor) {
  apply("001-resourceflavor-h100-nvlink.yaml");
  apply_open_queue();
  apply("001-localqueue-research.yaml");
  see("train", "ml-research", "");
  admit("train");
  ASSERT_EQ(workload("train").phase, Phase::kAdmitted);
  const Labels both{{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}, {"gpu.nvidia.com/nvlink-enabled", "true"}};
  EXPECT_EQ(pod_effect(workload("train"), "main", engine_).node_selector, both);
  const auto said = to_event(workload("train"), engine_);
  const auto& told = said.spec().pod_sets(0).shape().node_selector();
  EXPECT_EQ(Labels(told.begin(), told.end()), both);
}

// S-079: taken unchanged, and what is kept of it says what the file says.
TEST_F(ReferenceManifests, AClusterQueueIsKeptAsItWasWritten) {
  EXPECT_EQ(apply("001-clusterqueue-research.yaml"),
            (std::vector<std::string>{"ClusterQueue/research-queue: spec.namespaceSelector is not given, so nothing is "
                                      "admitted; {} takes every namespace"}));
  const auto* queue = engine_.tables().cluster_queues.find(QueueName("research-queue"));
  ASSERT_NE(queue, nullptr);
  const auto file = config::load_path(dir_ + "001-clusterqueue-research.yaml");
  ASSERT_EQ(file.objects.size(), 1U);
  EXPECT_EQ(*Json::parse(queue->source), file.objects[0].document.content);
}

// S-103, S-105: Volcano's Queue, unchanged; two of its fields are not Volcano's, and have an effect here.
TEST_F(ReferenceManifests, AVolcanoQueueIsKeptAndSharesOutItsPool) {
  EXPECT_EQ(
      apply("001-volcano-queue.yaml"),
      (std::vector<std::string>{
          "Queue/research-queue: spec.preemptable is no field of Volcano's; here false keeps all jobs of the queue "
          "from being victims",
          "Queue/research-queue: spec.preemptionPolicy is no field of Volcano's; here it says which jobs of the "
          "queue give way"}));
  const auto file = config::load_path(dir_ + "001-volcano-queue.yaml");
  const auto* queue = engine_.tables().cluster_queues.find(QueueName("research-queue"));
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(*Json::parse(queue->source), file.objects.at(0).document.content);
  apply_text(R"(
kind: ResourceFlavor
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: any}
---
kind: Cohort
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: cluster, annotations: {quartermaster.dev/queue-rules: capacity}}
spec:
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 96}]}]
---
kind: LocalQueue
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: q, namespace: a}
spec: {clusterQueue: research-queue}
)");
  for (int i = 0; i < 40; ++i) see(fmt::format("job-{:02}", i), "a", "");
  const auto holding = [&] {
    return std::ranges::count_if(engine_.tables().workloads, [](const auto& row) { return row.second.holds_quota(); });
  };
  EXPECT_EQ(holding(), 32) << "its capability, in a cluster of 96";
  EXPECT_DOUBLE_EQ(engine_.view(*queue).dominant_share.value_or(0), 32.0 / 96);
}

// S-388: what is applied twice is there once, and nothing has changed.
TEST_F(ReferenceManifests, ApplyingAgainChangesNothing) {
  const auto apply_all = [&] {
    for (const char* name :
         {"001-resourceflavor-h100-nvlink.yaml", "001-clusterqueue-research.yaml", "001-localqueue-research.yaml",
          "001-workloadpriorityclass-scheduling.yaml", "002-priorityclass-inference-batch.yaml"})
      apply(name);
    return engine_.digest();
  };
  const auto first = apply_all();
  EXPECT_EQ(apply_all(), first);
}

// S-092: two files of classes make four, and jobs wait in the order of their values.
TEST_F(ReferenceManifests, FourClassesOfTwoFilesOrderWhatWaits) {
  apply("001-workloadpriorityclass-scheduling.yaml");
  apply("001-workloadpriorityclass-cost.yaml");
  EXPECT_EQ(engine_.tables().priority_classes.size(), 4U);
  apply_open_queue();
  apply_text(kLocalQueue);
  for (const char* name : {"spot-training", "research-training", "critical-inference", "production-inference"})
    see(name, "a", name);
  EXPECT_LE(engine_.position(workload("critical-inference")), 2);
  EXPECT_LE(engine_.position(workload("production-inference")), 2);
  EXPECT_GE(engine_.position(workload("spot-training")), 3);
  EXPECT_GE(engine_.position(workload("research-training")), 3);
}

// S-116: batch gives way to inference and never the other way round; AdmissionPreemption has it for any priorities.
TEST_F(ReferenceManifests, BatchGivesWayToInferenceAndNeverTheReverse) {
  EXPECT_TRUE(apply("002-priorityclass-inference-batch.yaml").empty());
  apply_text(R"(
kind: ResourceFlavor
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: any}
---
kind: ClusterQueue
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: research-queue}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: any
      resources: [{name: nvidia.com/gpu, nominalQuota: 1}]
)");
  apply_text(kLocalQueue);
  see("sweep", "a", "batch");
  admit("sweep");
  ASSERT_EQ(workload("sweep").phase, Phase::kAdmitted);
  EXPECT_EQ(workload("sweep").spec.priority, 100);
  see("serve", "a", "inference");
  EXPECT_EQ(workload("serve").spec.priority, 1'000'000);
  EXPECT_EQ(workload("sweep").phase, Phase::kEvicting);
  const std::vector<Command> gone{PlacementHeard{WorkloadUid("sweep"), 1, Answer::kReleased, "", {}, {}}};
  (void)engine_.step(gone, now_);
  engine_.commit();
  admit("serve");
  see("another-sweep", "a", "batch");
  EXPECT_EQ(workload("serve").phase, Phase::kAdmitted);
  EXPECT_EQ(workload("another-sweep").phase, Phase::kPending);
}

// S-117: pod priority classes stand beside those that jobs queue by, also under the same name.
TEST_F(ReferenceManifests, ClassesOfBothKindsMayShareAName) {
  EXPECT_TRUE(apply("003-priorityclass-production-training.yaml").empty());
  see("early", "a", "production-inference");
  EXPECT_EQ(workload("early").spec.priority, 1000);
  apply("001-workloadpriorityclass-cost.yaml");  // has one of that name, too
  const auto& classes = engine_.tables().priority_classes;
  EXPECT_EQ(classes.size(), 4U);
  EXPECT_TRUE(classes.contains({"production-inference", true}));
  EXPECT_TRUE(classes.contains({"production-inference", false}));
  see("train", "a", "training-experiments");
  EXPECT_EQ(workload("train").spec.priority, 100);
}

}  // namespace
}  // namespace qm::admission
