#include "qm/config/manifest.hpp"
#include "qm/model/moves.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::config {
namespace job_test {

using namespace std::chrono_literals;

WorkloadSpec sample() {
  WorkloadSpec spec;
  spec.ns = Namespace("research");
  spec.name = "train";
  spec.queue = "research";
  spec.priority_class = "training";
  spec.team = Team("vision");
  spec.expected_runtime = 6h;
  spec.checkpoints = true;
  spec.labels = {{"app", "train"},
                 {std::string(words::kQueueLabel), "research"},
                 {std::string(words::kPriorityClassLabel), "training"},
                 {std::string(words::kTeamLabel), "vision"}};
  PodSet set;
  set.count = 4;
  set.shape.cpu_milli = 96'500;
  set.shape.memory_bytes = 1000LL << 30;
  set.shape.gpu.whole = 8;
  set.shape.gpu.models = {"A100", "H100"};
  set.shape.node_selector = {{"zone", "a"}};
  set.shape.tolerations = {
      {"nvidia.com/gpu", "Exists", "", "NoSchedule"}, {"", "Exists", "", ""}, {"k", "Equal", "v", ""}};
  set.shape.extended = {{"rdma/ib", 4}};
  spec.pod_sets = {set};
  return spec;
}

/// The labels of the pods, which equal those of the spec, are passed in addition to its shape.
Result<WorkloadSpec> there_and_back(const WorkloadSpec& spec) {
  auto back = workload_from_job(job_from_workload(spec, {}));
  if (!back) return back;
  EXPECT_EQ(back->pod_sets[0].rules.empty(), back->labels.empty());
  back->pod_sets[0].rules.clear();
  return back;
}

TEST(Job, ThereAndBack) {
  const WorkloadSpec spec = sample();
  const auto back = there_and_back(spec);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, spec);
}

TEST(Job, PodsThatAreNotToBeDisrupted) {
  for (const char* reported : {"true", "false"}) {
    auto job = job_from_workload(sample(), {{std::string(words::kDoNotDisrupt), reported}});
    const auto spec = workload_from_job(job);
    ASSERT_TRUE(spec) << spec.error().to_string();
    EXPECT_EQ(spec->labels.contains(words::kDoNotDisrupt.data()), reported == std::string("true"));
    EXPECT_EQ(stays_where_it_is("Job", spec->labels), reported == std::string("true"));
  }
}

TEST(Job, ThereAndBackForEveryWayToAskForGpus) {
  for (const GpuShape& gpu :
       {GpuShape{}, GpuShape{.whole = 1}, GpuShape{.milli = 250}, GpuShape{.mig_profile = "1g.10gb", .mig_count = 2}}) {
    WorkloadSpec spec = sample();
    spec.pod_sets[0].shape.gpu = gpu;
    spec.checkpoints = false;
    spec.expected_runtime = Duration(1'500'001);
    const auto back = there_and_back(spec);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(*back, spec);
  }
}

TEST(Job, ThereAndBackWithATopology) {
  for (const PodSetTopology& topology :
       {PodSetTopology{"zone", "", "rack", 2, "all"}, PodSetTopology{"", "rack", "", 0, ""},
        PodSetTopology{"", "", "", 0, "", true}, PodSetTopology{"", "", "", 0, "", false, true}}) {
    WorkloadSpec spec = sample();
    spec.pod_sets[0].topology = topology;
    const auto back = there_and_back(spec);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(*back, spec);
  }
}

TEST(Job, ATopologyThatMakesNoSenseIsRefusedByItsAnnotation) {
  const auto refused = [](const std::map<std::string, std::string>& annotations) {
    WorkloadSpec spec = sample();
    std::map<std::string, std::string> all;
    for (const auto& [word, value] : annotations) all["kueue.x-k8s.io/podset-" + word] = value;
    const auto read = workload_from_job(job_from_workload(spec, all));
    return read ? std::string("read") : read.error().to_string();
  };
  const auto shows = [](const std::string& what, const std::string& part) {
    return what.find(part) != std::string::npos ? std::string("says so") : what;
  };
  EXPECT_EQ(refused({{"required-topology", "rack"}, {"slice-required-topology", "host"}, {"slice-size", "4"}}), "read");
  EXPECT_EQ(refused({{"podset-index-label", "x"}}), "read");
  EXPECT_EQ(shows(refused({{"required-topology", "rack"}, {"preferred-topology", "rack"}}),
                  "spec.template.metadata.annotations.kueue.x-k8s.io/podset-preferred-topology cannot be combined"),
            "says so");
  EXPECT_EQ(shows(refused({{"preferred-topology", "rack"}, {"unconstrained-topology", "true"}}),
                  "podset-unconstrained-topology cannot be combined"),
            "says so");
  EXPECT_EQ(shows(refused({{"slice-required-topology", "rack"}}), "needs podset-slice-size"), "says so");
  EXPECT_EQ(shows(refused({{"slice-size", "2"}}), "needs podset-slice-required-topology"), "says so");
  EXPECT_EQ(
      shows(refused({{"slice-required-topology", "rack"}, {"slice-size", "two"}}), "\"two\" is not a number of pods"),
      "says so");
  EXPECT_EQ(shows(refused({{"group-name", "all"}}), "needs a topology level"), "says so");
  const auto alone = workload_from_job(job_from_workload(sample(), {{"quartermaster.dev/exclusive-nodes", "yes"}}));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().to_string().find("\"yes\" is neither true nor false"), std::string::npos)
      << alone.error().to_string();
}

TEST(Job, WhatWeCreateIsSuspendedIndexedAndOurs) {
  const Json job = job_from_workload(sample(), {{"note", "x"}});
  EXPECT_TRUE(job.path("spec.suspend").boolean());
  EXPECT_EQ(job.path("spec.completionMode").string(), "Indexed");
  EXPECT_EQ(job.path("spec.parallelism").integer(), 4);
  EXPECT_EQ(job.path("spec.completions").integer(), 4);
  EXPECT_GT(job.path("spec.backoffLimit").integer(), 6);
  const Json& pod = job.path("spec.template");
  EXPECT_EQ(pod.path("spec.schedulerName").string(), words::kScheduler);
  EXPECT_EQ(pod["metadata"]["annotations"]["note"].string(), "x");
  EXPECT_FALSE(pod["metadata"]["annotations"][words::kCheckpoint].string().empty());
  const Json& resources = pod["spec"]["containers"].at(0)["resources"];
  EXPECT_EQ(resources["requests"], resources["limits"]);
  EXPECT_EQ(resources["requests"]["cpu"].string(), "96500m");
  EXPECT_EQ(resources["requests"]["memory"].string(), "1000Gi");
  EXPECT_EQ(job_from_workload(sample(), {{std::string(words::kCheckpoint), "http://mine"}})
                .path("spec.template")["metadata"]["annotations"][words::kCheckpoint]
                .string(),
            "http://mine");
}

Json parse(std::string_view text) {
  auto parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return std::move(*parsed);
}

TEST(Job, TakesWhatTheServerAdds) {
  Json job = job_from_workload(sample(), {});
  job.set("metadata").set("uid", "u-1").set("creationTimestamp", "2026-11-21T09:14:29Z");
  job.set("status").set("active", 4);
  const auto spec = workload_from_job(job);
  ASSERT_TRUE(spec) << spec.error().to_string();
  EXPECT_EQ(spec->uid, WorkloadUid("u-1"));
  EXPECT_EQ(spec->submitted, *from_rfc3339("2026-11-21T09:14:29Z"));
}

TEST(Job, Defaults) {
  const auto spec = workload_from_job(parse(R"({"metadata":{"generateName":"j-"},
    "spec":{"completions":2,"parallelism":5,"template":{"spec":{"priorityClassName":"p","containers":[{}]}}}})"));
  ASSERT_TRUE(spec) << spec.error().to_string();
  EXPECT_EQ(spec->name, "j-");
  EXPECT_EQ(spec->ns, Namespace("default"));
  EXPECT_EQ(spec->team, Team("default")) << "the namespace pays where no team is named";
  EXPECT_EQ(spec->priority_class, "p");
  EXPECT_EQ(spec->queue, "");
  EXPECT_EQ(spec->total_pods(), 2) << "no more pods run than completions are wanted";
  EXPECT_EQ(spec->pod_sets[0].shape, PodShape{});
}

TEST(Job, MorePodsMayHaveToSucceedThanRunAtOnce) {
  WorkloadSpec spec = sample();
  spec.pod_sets[0].completions = 10;
  const Json job = job_from_workload(spec, {});
  EXPECT_EQ(job.path("spec.parallelism").integer(), 4);
  EXPECT_EQ(job.path("spec.completions").integer(), 10);
  const auto back = there_and_back(spec);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, spec);
  EXPECT_TRUE(back->pod_sets[0].is_work_queue());
  EXPECT_FALSE(sample().pod_sets[0].is_work_queue());
}

TEST(Job, ReportsTheError) {
  const auto refused = [](std::string_view text) {
    const auto spec = workload_from_job(parse(text));
    EXPECT_FALSE(spec) << text;
    return spec ? std::string() : spec.error().to_string();
  };
  const auto expect = [&](std::string_view text, std::string_view field) {
    const auto spec = workload_from_job(parse(text));
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, Code::kInvalid);
    EXPECT_EQ(spec.error().field, field) << refused(text);
    EXPECT_FALSE(spec.error().remedy.empty());
  };
  expect(R"([])", "");
  expect(R"({"spec":{"template":{"spec":{"containers":[]}}}})", "metadata");
  expect(R"({"metadata":{},"spec":{"template":{"spec":{"containers":[]}}}})", "metadata.name");
  expect(R"({"metadata":{"name":"a"},"spec":{"template":{"spec":{}}}})", "spec.template.spec.containers");
  expect(R"({"metadata":{"name":"a"},"spec":{"parallelism":-1,"template":{"spec":{"containers":[]}}}})",
         "spec.parallelism");
  expect(R"({"metadata":{"name":"a","annotations":{"quartermaster.dev/expected-runtime":"soon"}},
             "spec":{"template":{"spec":{"containers":[]}}}})",
         "metadata.annotations.quartermaster.dev/expected-runtime");
  expect(
      R"({"metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"x"}}}]}}}})",
      "spec.template.spec.containers[0].resources.requests.cpu");
}

// Values that the API server accepts and Kubernetes treats as absent.
TEST(JobReading, EmptyTextsAreAsIfNotGiven) {
  const auto spec = workload_from_job(parse(R"({
    "metadata":{"name":"a","generateName":"","annotations":{"quartermaster.dev/expected-runtime":"","kueue.x-k8s.io/queue-name":""},
                "labels":{"kueue.x-k8s.io/queue-name":"q","team":""}},
    "spec":{"template":{"metadata":{"annotations":{"kueue.x-k8s.io/podset-required-topology":"",
        "kueue.x-k8s.io/podset-slice-size":"","quartermaster.dev/gpu-memory":"","quartermaster.dev/exclusive-nodes":""},
        "labels":{"team":"","kueue.x-k8s.io/queue-name":""}},
      "spec":{"priorityClassName":"","containers":[{"restartPolicy":""}]}}}})"));
  ASSERT_TRUE(spec) << spec.error().to_string();
  EXPECT_EQ(spec->queue, "q");
  EXPECT_EQ(spec->priority_class, "");
  EXPECT_TRUE(spec->pod_sets.at(0).topology.none());
}

TEST(JobReading, ZeroPodsAskForNothing) {
  for (const char* numbers : {R"("parallelism":0,"completions":4)", R"("parallelism":4,"completions":0)"}) {
    const auto spec = workload_from_job(parse(fmt::format(
        R"({{"metadata":{{"name":"a"}},"spec":{{{},"template":{{"spec":{{"containers":[]}}}}}}}})", numbers)));
    ASSERT_TRUE(spec) << spec.error().to_string();
    EXPECT_TRUE(spec->pod_sets.empty()) << numbers;
  }
  const auto many = workload_from_job(parse(
      R"({"metadata":{"name":"a"},"spec":{"parallelism":2,"completions":2147483647,"template":{"spec":{"containers":[]}}}})"));
  ASSERT_TRUE(many) << many.error().to_string();
  EXPECT_EQ(many->total_pods(), 2);
}

TEST(PodShape, SumsAsTheScheduler) {
  const auto shape = shape_from_pod_spec(parse(R"({
    "initContainers": [
      {"resources": {"requests": {"cpu": "10", "memory": "1Gi"}}},
      {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}}},
      {"resources": {"requests": {"memory": "9Gi"}}}],
    "containers": [
      {"resources": {"requests": {"cpu": "1500m", "memory": "3Gi"}, "limits": {"nvidia.com/gpu": 2}}},
      {"resources": {"requests": {"cpu": 2, "memory": "4Gi", "nvidia.com/gpu": "1"}, "limits": {"cpu": 8}}}],
    "overhead": {"cpu": "250m", "memory": "120Mi"}})"));
  ASSERT_TRUE(shape) << shape.error().to_string();
  // cpu: the first init container's 10 exceed 1.5 + 2 + 0.5 sidecar; memory: 9 + 2 sidecar exceed 3 + 4 + 2.
  EXPECT_EQ(shape->cpu_milli, 10'250);
  EXPECT_EQ(shape->memory_bytes, (11LL << 30) + (120LL << 20));
  EXPECT_EQ(shape->gpu.whole, 3) << "a limit replaces the request";
}

TEST(PodShape, HugeAmountsAreSummedLikeOthers) {
  for (const char* amount : {"170000000000000000000000000000", "9223372036854775807Ei", "1e29"}) {
    const auto shape =
        shape_from_pod_spec(parse(fmt::format(R"({{"containers":[{{"resources":{{"requests":{{"cpu":"{0}",
        "memory":"{0}"}}}}}},{{"resources":{{"requests":{{"cpu":"{0}","memory":"{0}"}}}}}}]}})",
                                              amount)));
    ASSERT_TRUE(shape) << amount;
    EXPECT_GT(shape->cpu_milli, std::int64_t{1} << 60) << amount;
    EXPECT_GT(shape->memory_bytes, std::int64_t{1} << 60) << amount;
  }
}

TEST(PodShape, PodLevelResourcesReplaceTheSum) {
  const auto shape = shape_from_pod_spec(parse(R"({"resources":{"requests":{"cpu":"4"}},
    "containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]})"));
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->cpu_milli, 4000);
  EXPECT_EQ(shape->memory_bytes, 1LL << 30);
}

TEST(PodShape, ALimitOfThePodAsAWholeIsItsRequest) {
  const auto shape = shape_from_pod_spec(parse(R"({"resources":{"limits":{"cpu":"20","memory":"8Gi"}},
    "containers":[{"resources":{"requests":{"memory":"1Gi"},"limits":{"nvidia.com/gpu":1}}}]})"));
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->cpu_milli, 20'000) << "no container requests any";
  EXPECT_EQ(shape->memory_bytes, 1LL << 30) << "what the containers request comes before the limit";
  EXPECT_EQ(shape->gpu.whole, 1);
}

TEST(PodShape, HugeCountsOfGpusAreOutOfRangeAndNoFractions) {
  const auto shape = shape_from_pod_spec(
      parse(R"({"containers":[{"resources":{"limits":{"nvidia.com/gpu":"9223372036854775807"}}}]})"));
  ASSERT_FALSE(shape);
  EXPECT_NE(shape.error().message.find("is out of range"), std::string::npos) << shape.error().message;
}

/// From user reports: CPUs that are requested for the pod as a whole.
TEST(PodShape, ReportedPodsWithResourcesAsAWholeCountTheirCpus) {
  const auto shared = testing::shared_dir();
  if (!shared) GTEST_SKIP() << testing::no_shared();
  for (const char* file : {"job-lim.yaml", "job-req.yaml"}) {
    const auto loaded = load_path(*shared + "/field/f32-pod-level-resources/" + file);
    ASSERT_EQ(loaded.objects.size(), 1U) << file;
    const auto& spec = std::get<WorkloadSpec>(loaded.objects[0].typed);
    EXPECT_EQ(spec.pod_sets.at(0).shape.cpu_milli, 20'000) << file;
    EXPECT_EQ(spec.pod_sets.at(0).shape.gpu.whole, 1) << file;
  }
}

TEST(PodShape, AffinityIsReadWhereItEqualsASelector) {
  const auto with = [](std::string_view expressions) {
    return *shape_from_pod_spec(parse(fmt::format(
        R"({{"containers":[],"nodeSelector":{{"s":"1"}},"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":
           {{"nodeSelectorTerms":[{{"matchExpressions":[{}]}}]}}}}}}}})",
        expressions)));
  };
  const PodShape both = with(R"({"key":"zone","operator":"In","values":["a"]},
                                {"key":"nvidia.com/gpu.product","operator":"In","values":["H100","A100"]})");
  EXPECT_EQ(both.node_selector, (Labels{{"s", "1"}, {"zone", "a"}}));
  EXPECT_EQ(both.gpu.models, (std::vector<std::string>{"A100", "H100"}));
  const PodShape no = with(R"({"key":"zone","operator":"NotIn","values":["a"]})");
  EXPECT_EQ(no.node_selector, (Labels{{"s", "1"}}));
}

// S-375: half a GPU is refused.
TEST(PodShape, RefusesGpuRequestsThatCannotBe) {
  const auto refused = [](std::string_view limits) {
    const auto shape =
        shape_from_pod_spec(parse(fmt::format(R"({{"containers":[{{"resources":{{"limits":{}}}}}]}})", limits)));
    EXPECT_FALSE(shape) << limits;
    return shape ? std::string() : shape.error().message;
  };
  EXPECT_EQ(
      refused(R"({"nvidia.com/gpu":"500m"})"),
      "containers[0].resources.limits.nvidia.com/gpu 500m of nvidia.com/gpu has a fraction, and devices are counted in whole numbers");
  EXPECT_EQ(refused(R"({"quartermaster.dev/gpu-milli":1000})"),
            "containers 1k of quartermaster.dev/gpu-milli is more than the 999 thousandths of a share");
  EXPECT_EQ(refused(R"({"nvidia.com/mig-1g.10gb":1,"nvidia.com/mig-2g.20gb":1})"),
            "containers requests two MIG profiles, 1g.10gb and 2g.20gb");
  EXPECT_EQ(refused(R"({"nvidia.com/gpu":1,"nvidia.com/mig-2g.20gb":1})"),
            "containers requests GPUs in more than one way: 1 whole, 0 thousandths of a share, 1 MIG instances");
}

TEST(Job, WhatIsNotTakenIsNamed) {
  const Loaded loaded = load_text(R"(apiVersion: batch/v1
kind: Job
metadata:
  name: a
  annotations: {owner: me}
spec:
  backoffLimit: 3
  template:
    metadata: {labels: {x: z}}
    spec:
      volumes: []
      affinity:
        podAffinity: {}
      containers:
      - name: c
        image: i
)",
                                  "f.yaml");
  ASSERT_EQ(loaded.objects.size(), 1u);
  EXPECT_TRUE(loaded.diagnostics.empty()) << loaded.diagnostics[0].to_string();
  EXPECT_EQ(
      loaded.objects[0].document.carried,
      (std::vector<std::string>{"metadata.annotations.owner", "spec.backoffLimit", "spec.template.metadata.labels",
                                "spec.template.spec.volumes", "spec.template.spec.affinity.podAffinity",
                                "spec.template.spec.containers[0].name", "spec.template.spec.containers[0].image"}));
}

}  // namespace job_test
}  // namespace qm::config
