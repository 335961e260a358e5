// Manifests, our own and the reference ones where they are available, through the user-facing API, up to their effect
// in the engine.
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/queues.hpp"
#include "qm/admission/queries/workloads.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::admission {
namespace reference_manifests_test {

/// The files of a folder, and the names in them.
struct QueueFiles {
  std::string flavor, queue, local_queue;
  std::string queue_name, ns;
  std::string classes, more_classes, pod_classes;
};

class ReferenceManifests : public ::testing::TestWithParam<qm::testing::Manifests> {
 protected:
  [[nodiscard]] static const QueueFiles& files() {
    static const QueueFiles own{"resourceflavor-a100-hdr.yaml",
                                "clusterqueue-genomics.yaml",
                                "localqueue-sequencing.yaml",
                                "genomics",
                                "genomics-lab",
                                "workloadpriorityclass-hours.yaml",
                                "workloadpriorityclass-products.yaml",
                                "priorityclass-tiers.yaml"};
    static const QueueFiles reference{"001-resourceflavor-h100-nvlink.yaml",
                                      "001-clusterqueue-research.yaml",
                                      "001-localqueue-research.yaml",
                                      "research-queue",
                                      "ml-research",
                                      "001-workloadpriorityclass-scheduling.yaml",
                                      "001-workloadpriorityclass-cost.yaml",
                                      "002-priorityclass-inference-batch.yaml"};
    return GetParam().own ? own : reference;
  }
  static std::string local_queue(const std::string& cluster_queue) {
    return fmt::format(
        "{{kind: LocalQueue, apiVersion: kueue.x-k8s.io/v1beta1, metadata: {{name: q, namespace: a}}, "
        "spec: {{clusterQueue: {}}}}}",
        cluster_queue);
  }
  /// Applies a file without changes; returns its warnings.
  std::vector<std::string> apply(const std::string& name) {
    const auto objects = objects_from_manifest(qm::testing::read_file(GetParam().dir + name), name);
    EXPECT_TRUE(objects) << (objects ? "" : objects.error().to_string());
    if (!objects) return {};
    const std::vector<Command> batch{*objects};
    (void)engine_.step(batch, now_);
    engine_.commit();
    return objects->warnings;
  }
  /// The ClusterQueue selects no namespace, so it would admit nothing; its users have to set {}.
  void apply_open_queue() {
    apply(files().queue);
    auto object = config::load_path(GetParam().dir + files().queue).objects.at(0).document.content;
    object.set("spec").set("namespaceSelector", Json::object());
    apply_text(object.dump());
  }
  /// Objects that the manifests need in addition.
  void apply_text(const std::string& text) {
    const auto objects = objects_from_manifest(text, "extra.yaml");
    ASSERT_TRUE(objects) << objects.error().to_string();
    const std::vector<Command> batch{*objects};
    (void)engine_.step(batch, now_);
    engine_.commit();
  }
  void admit(const std::string& uid) {
    const std::vector<Command> batch{
        PlacementUpdated{WorkloadUid(uid), workload(uid).attempt, Answer::kReserved, "r", {}, {}}};
    (void)engine_.step(batch, now_);
    engine_.commit();
  }
  void see(const std::string& uid, const std::string& ns, const std::string& priority_class) {
    JobUpdated seen;
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

  Engine engine_;
  Instant now_ = from_micros(1'000'000);
};

// S-087: a job that names no queue gets the LocalQueue of the namespace, and so its ClusterQueue.
TEST_P(ReferenceManifests, JobWithoutQueueUsesResearchLocal) {
  apply(files().flavor);
  apply_open_queue();
  apply(files().local_queue);
  see("train", files().ns, "");
  EXPECT_EQ(workload("train").cluster_queue, QueueName(files().queue_name));
  EXPECT_EQ(workload("train").phase, Phase::kQuotaReserved);
  see("stray", "elsewhere", "");
  EXPECT_EQ(workload("stray").cluster_queue, QueueName());
}

// S-269: one gang on several nodes; no member starts where one GPU is missing.
TEST_P(ReferenceManifests, GangOf64NeverStartsOn63) {
  struct Case {
    std::string file;
    int pods, gpus;
  };
  const auto c =
      GetParam().pick(Case{"pytorchjob-variant-caller.yaml", 6, 24}, Case{"001-pytorchjob-llama2.yaml", 8, 64});
  const auto queue_of = [&](int gpus) {
    apply_text("{kind: ResourceFlavor, apiVersion: kueue.x-k8s.io/v1beta1, metadata: {name: any}}");
    apply_text(
        fmt::format("{{kind: ClusterQueue, apiVersion: kueue.x-k8s.io/v1beta1, metadata: {{name: {}}}, "
                    "spec: {{namespaceSelector: {{}}, resourceGroups: [{{coveredResources: [nvidia.com/gpu], flavors: "
                    "[{{name: any, resources: [{{name: nvidia.com/gpu, nominalQuota: {}}}]}}]}}]}}}}",
                    files().queue_name, gpus));
  };
  queue_of(c.gpus - 1);
  auto object = config::load_path(GetParam().dir + c.file).objects.at(0).document.content;
  object.set("metadata").set("uid", "gang");
  object.set("spec").set("runPolicy").set("suspend", true);
  ASSERT_TRUE(is_managed(object));
  const auto seen = parse_job(object);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(seen->spec.total_pods(), c.pods);
  const auto intents_of = [&](const Engine::Command& command) {
    const std::vector<Command> batch{command};
    const auto out = engine_.step(batch, now_);
    engine_.commit();
    std::string kinds;
    for (const auto& intent : out.intents) kinds += intent.kind + " ";
    return kinds;
  };
  EXPECT_EQ(intents_of(*seen), "event.create ") << "the queue is a ClusterQueue by name";
  EXPECT_EQ(workload("gang").phase, Phase::kPending);
  EXPECT_TRUE(workload("gang").usage.empty()) << "not a GPU of it";
  // Quota for all, but a cluster without free capacity: still no member starts.
  queue_of(c.gpus);
  ASSERT_EQ(workload("gang").phase, Phase::kQuotaReserved);
  EXPECT_EQ(workload("gang").usage.at({FlavorName("any"), "nvidia.com/gpu"}), c.gpus * 1000);
  const auto short_by_one = fmt::format("{} GPUs are free", c.gpus - 1);
  EXPECT_EQ(intents_of(PlacementUpdated{WorkloadUid("gang"), 1, Answer::kShort, {}, short_by_one, {}}), "");
  EXPECT_EQ(workload("gang").phase, Phase::kQuotaReserved);
  EXPECT_EQ(intents_of(PlacementUpdated{WorkloadUid("gang"), 1, Answer::kReserved, "r", {}, {}}), "job.unsuspend ");
}

// S-089: both places of the value are accepted; the one that Kueue does not have causes a warning for each class.
TEST_P(ReferenceManifests, PriorityClassesWithValueInSpecAreAcceptedWithWarning) {
  struct Case {
    int with_spec;  ///< classes in the file
    std::string high, low;
    int high_value, low_value;
  };
  const auto c = GetParam().pick(Case{1, "interactive", "overnight", 5000, 40},
                                 Case{2, "critical-inference", "spot-training", 1000, 100});
  const auto warnings = apply(files().classes);
  EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(),
                          [](const std::string& w) { return w.find("value") != std::string::npos; }),
            c.with_spec)
      << warnings.size();
  const auto upstream = objects_from_manifest(
      "apiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\n"
      "metadata: {name: top}\nvalue: 7\n",
      "top.yaml");
  ASSERT_TRUE(upstream);
  EXPECT_TRUE(upstream->warnings.empty());
  ASSERT_EQ(upstream->priority_classes.size(), 1U);
  EXPECT_EQ(upstream->priority_classes[0].value, 7);
  see("serve", "a", c.high);
  see("train", "a", c.low);
  EXPECT_EQ(workload("serve").spec.priority, c.high_value);
  EXPECT_EQ(workload("train").spec.priority, c.low_value);
}

// S-078: both labels of the flavor are in the node selector of workloads that are admitted to it.
TEST_P(ReferenceManifests, AdmittedPodsGetFlavorLabels) {
  apply(files().flavor);
  apply_open_queue();
  apply(files().local_queue);
  see("train", files().ns, "");
  admit("train");
  ASSERT_EQ(workload("train").phase, Phase::kAdmitted);
  const auto both = GetParam().pick(
      Labels{{"nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"}, {"fabric.example.org/rate", "hdr"}},
      Labels{{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}, {"gpu.nvidia.com/nvlink-enabled", "true"}});
  EXPECT_EQ(pod_effect(workload("train"), "main", engine_).node_selector, both);
  const auto reported = to_event(workload("train"), engine_);
  const auto& selector = reported.spec().pod_sets(0).shape().node_selector();
  EXPECT_EQ(Labels(selector.begin(), selector.end()), both);
}

// S-079: accepted unchanged, and the stored object equals the file.
TEST_P(ReferenceManifests, ClusterQueueRoundTrips) {
  EXPECT_EQ(apply(files().queue),
            (std::vector<std::string>{fmt::format("ClusterQueue/{}: spec.namespaceSelector is not set, so nothing is "
                                                  "admitted; {{}} selects every namespace",
                                                  files().queue_name)}));
  const auto* queue = engine_.tables().cluster_queues.find(QueueName(files().queue_name));
  ASSERT_NE(queue, nullptr);
  const auto file = config::load_path(GetParam().dir + files().queue);
  ASSERT_EQ(file.objects.size(), 1U);
  EXPECT_EQ(*Json::parse(queue->source), file.objects[0].document.content);
}

// S-103, S-105: Volcano's Queue, unchanged; two of its fields are unknown to Volcano, and have an effect here.
TEST_P(ReferenceManifests, VolcanoQueueRoundTripsAndSharesItsPool) {
  struct Case {
    std::string file, name;
    int capability;
  };
  const auto c = GetParam().pick(Case{"volcano-queue-imaging.yaml", "imaging", 18},
                                 Case{"001-volcano-queue.yaml", "research-queue", 32});
  EXPECT_EQ(apply(c.file),
            (std::vector<std::string>{
                "Queue/" + c.name +
                    ": spec.preemptable is not a field of Volcano; false protects all jobs of the queue "
                    "from preemption",
                "Queue/" + c.name +
                    ": spec.preemptionPolicy is not a field of Volcano; it selects the victims among the jobs of the "
                    "queue"}));
  const auto file = config::load_path(GetParam().dir + c.file);
  const auto* queue = engine_.tables().cluster_queues.find(QueueName(c.name));
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
)");
  apply_text(local_queue(c.name));
  for (int i = 0; i < 40; ++i) see(fmt::format("job-{:02}", i), "a", "");
  const auto holding = [&] {
    return std::ranges::count_if(engine_.tables().workloads, [](const auto& row) { return row.second.holds_quota(); });
  };
  EXPECT_EQ(holding(), c.capability) << "in a cluster of 96";
  EXPECT_DOUBLE_EQ(queue_view(engine_.state(), *queue).dominant_share.value_or(0), c.capability / 96.0);
}

// S-388: an object that is applied twice exists once, and nothing has changed.
TEST_P(ReferenceManifests, ReapplyChangesNothing) {
  const auto apply_all = [&] {
    for (const auto& name : {files().flavor, files().queue, files().local_queue, files().classes, files().pod_classes})
      apply(name);
    return engine_.digest();
  };
  const auto first = apply_all();
  EXPECT_EQ(apply_all(), first);
}

// S-092: the classes of two files all exist, and jobs are queued by their values.
TEST_P(ReferenceManifests, FourClassesOfTwoFilesOrderPendingWorkloads) {
  using Names = std::vector<std::string>;
  const auto high =
      GetParam().pick(Names{"interactive", "assistant"}, Names{"critical-inference", "production-inference"});
  const auto low =
      GetParam().pick(Names{"overnight", "ablation", "screening"}, Names{"spot-training", "research-training"});
  apply(files().classes);
  apply(files().more_classes);
  EXPECT_EQ(engine_.tables().priority_classes.size(), high.size() + low.size());
  apply_open_queue();
  apply_text(local_queue(files().queue_name));
  for (const auto& name : low) see(name, "a", name);
  for (const auto& name : high) see(name, "a", name);
  for (const auto& name : high) EXPECT_LE(queue_position(engine_.state(), workload(name)), 2) << name;
  for (const auto& name : low) EXPECT_GE(queue_position(engine_.state(), workload(name)), 3) << name;
}

// S-116: inference preempts batch and never the other way round; AdmissionPreemption checks this for all priorities.
TEST_P(ReferenceManifests, InferencePreemptsBatchAndNeverTheReverse) {
  struct Case {
    std::string high, low;
    int high_value, low_value;
  };
  const auto c = GetParam().pick(Case{"realtime", "bulk", 2'500'000, 300}, Case{"inference", "batch", 1'000'000, 100});
  EXPECT_TRUE(apply(files().pod_classes).empty());
  apply_text(R"(
kind: ResourceFlavor
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: any}
---
kind: ClusterQueue
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: serving-and-batch}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: any
      resources: [{name: nvidia.com/gpu, nominalQuota: 1}]
)");
  apply_text(local_queue("serving-and-batch"));
  see("sweep", "a", c.low);
  admit("sweep");
  ASSERT_EQ(workload("sweep").phase, Phase::kAdmitted);
  EXPECT_EQ(workload("sweep").spec.priority, c.low_value);
  see("serve", "a", c.high);
  EXPECT_EQ(workload("serve").spec.priority, c.high_value);
  EXPECT_EQ(workload("sweep").phase, Phase::kEvicting);
  const std::vector<Command> gone{PlacementUpdated{WorkloadUid("sweep"), 1, Answer::kReleased, "", {}, {}}};
  (void)engine_.step(gone, now_);
  engine_.commit();
  admit("serve");
  see("another-sweep", "a", c.low);
  EXPECT_EQ(workload("serve").phase, Phase::kAdmitted);
  EXPECT_EQ(workload("another-sweep").phase, Phase::kPending);
}

// S-117: pod priority classes are independent of workload priority classes, even with the same name.
TEST_P(ReferenceManifests, ClassesOfBothKindsMayShareName) {
  struct Case {
    std::string file, shared, other;
    int value, other_value;
    std::size_t classes;  ///< in both files
  };
  const auto c = GetParam().pick(
      Case{"priorityclass-products.yaml", "assistant", "notebooks", 4100, 20, 5},
      Case{"003-priorityclass-production-training.yaml", "production-inference", "training-experiments", 1000, 100, 4});
  EXPECT_TRUE(apply(c.file).empty());
  see("early", "a", c.shared);
  EXPECT_EQ(workload("early").spec.priority, c.value);
  apply(files().more_classes);  // has one of that name, too
  const auto& classes = engine_.tables().priority_classes;
  EXPECT_EQ(classes.size(), c.classes);
  EXPECT_TRUE(classes.contains({c.shared, true}));
  EXPECT_TRUE(classes.contains({c.shared, false}));
  see("train", "a", c.other);
  EXPECT_EQ(workload("train").spec.priority, c.other_value);
}

QM_FOR_EACH_MANIFESTS(ReferenceManifests);

}  // namespace reference_manifests_test
}  // namespace qm::admission
