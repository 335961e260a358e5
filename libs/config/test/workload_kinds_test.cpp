// Every kind that becomes a workload, one small object each, and those of the manifests.
#include "qm/config/workload_kinds.hpp"

#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

namespace qm::config {
namespace workload_kinds_test {

/// "head 1x0, worker 3-5x8": pods and the GPUs of each; "3-5" if at least three are required.
std::string show(const WorkloadSpec& spec) {
  std::string out;
  for (const auto& set : spec.pod_sets) {
    const auto least = set.min_count > 0 ? fmt::format("{}-", set.min_count) : std::string();
    out += fmt::format("{}{} {}{}x{}", out.empty() ? "" : ", ", set.name, least, set.count, set.shape.gpu.whole);
  }
  return out;
}

Json object_of(const std::string& yaml) {
  const auto loaded = load_text(yaml, "test.yaml");
  EXPECT_EQ(loaded.objects.size(), 1U);
  return loaded.objects.empty() ? Json() : loaded.objects[0].document.content;
}

WorkloadSpec read(const std::string& yaml) {
  const auto spec = workload_from_object(object_of(yaml));
  EXPECT_TRUE(spec) << spec.error().to_string();
  return spec ? *spec : WorkloadSpec{};
}

std::string pods(int gpus) {
  const auto limits = gpus > 0 ? fmt::format("{{nvidia.com/gpu: {}}}", gpus) : "{cpu: 1}";
  return "{spec: {containers: [{name: a, image: a, resources: {limits: " + limits + "}}]}}";
}

/// `head` is "{apiVersion: ..., kind: ...}"; the rest follows it.
std::string with(std::string_view head, std::string_view spec) {
  return fmt::format(
      "{}, metadata: {{name: a, namespace: team, labels: {{kueue.x-k8s.io/queue-name: q}}}}, spec: {}}}\n",
      head.substr(0, head.size() - 1), spec);
}

TEST(WorkloadKinds, EachHasItsPodSets) {
  const struct {
    std::string yaml, sets;
  } cases[]{{with("{apiVersion: batch/v1, kind: Job}", "{parallelism: 4, completions: 2, template: " + pods(1) + "}"),
             "main 2x1"},
            {with("{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet}",
                  "{replicatedJobs: [{name: driver, template: {spec: {template: " + pods(0) +
                      "}}}, {name: w, replicas: 3, template: {spec: {parallelism: 2, template: " + pods(8) + "}}}]}"),
             "driver 1x0, w 6x8"},
            {with("{apiVersion: kubeflow.org/v1, kind: PyTorchJob}",
                  "{elasticPolicy: {minReplicas: 2}, pytorchReplicaSpecs: {Worker: {replicas: 3, template: " + pods(8) +
                      "}, Master: {template: " + pods(8) + "}}}"),
             "master 1x8, worker 2-3x8"},
            {with("{apiVersion: kubeflow.org/v2beta1, kind: MPIJob}",
                  "{mpiReplicaSpecs: {Worker: {replicas: 2, template: " + pods(8) +
                      "}, Launcher: {template: " + pods(0) + "}}}"),
             "launcher 1x0, worker 2x8"},
            {with("{apiVersion: kubeflow.org/v1, kind: TFJob}",
                  "{tfReplicaSpecs: {PS: {replicas: 2, template: " + pods(0) + "}, Chief: {template: " + pods(1) +
                      "}, Worker: {replicas: 4, template: " + pods(1) + "}}}"),
             "chief 1x1, ps 2x0, worker 4x1"},
            {with("{apiVersion: ray.io/v1, kind: RayCluster}",
                  "{enableInTreeAutoscaling: true, headGroupSpec: {template: " + pods(0) +
                      "}, workerGroupSpecs: [{groupName: Big, replicas: 2, minReplicas: 1, numOfHosts: 2, template: " +
                      pods(4) + "}, {groupName: none, replicas: 0, template: " + pods(1) + "}]}"),
             "head 1x0, big 2-4x4"},
            {with("{apiVersion: ray.io/v1, kind: RayJob}", "{rayClusterSpec: {headGroupSpec: {template: " + pods(0) +
                                                               "}, workerGroupSpecs: [{groupName: w, replicas: 3, "
                                                               "template: " +
                                                               pods(2) + "}]}, submitterPodTemplate: " + pods(0) + "}"),
             "head 1x0, w 3x2, submitter 1x0"},
            {with("{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet}",
                  "{replicas: 2, leaderWorkerTemplate: {size: 4, leaderTemplate: " + pods(1) +
                      ", workerTemplate: " + pods(8) + "}}"),
             "leader 2x1, worker 6x8"},
            {with("{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet}",
                  "{leaderWorkerTemplate: {size: 4, workerTemplate: " + pods(8) + "}}"),
             "main 4x8"},
            {with("{apiVersion: apps/v1, kind: Deployment}", "{replicas: 3, template: " + pods(1) + "}"), "main 3x1"},
            {with("{apiVersion: apps/v1, kind: StatefulSet}", "{template: " + pods(2) + "}"), "main 1x2"},
            {with("{apiVersion: batch/v1, kind: CronJob}",
                  "{jobTemplate: {spec: {parallelism: 2, template: " + pods(1) + "}}}"),
             "main 2x1"},
            {with("{apiVersion: v1, kind: Pod}",
                  "{containers: [{name: a, image: a, resources: {limits: {nvidia.com/gpu: 1}}}]}"),
             "main 1x1"}};
  for (const auto& one : cases) {
    const auto spec = read(one.yaml);
    EXPECT_EQ(show(spec), one.sets) << one.yaml;
    EXPECT_EQ(spec.queue, "q");
    EXPECT_EQ(spec.ns, Namespace("team"));
    EXPECT_EQ(spec.kind, object_of(one.yaml)["kind"].string());
  }
}

TEST(WorkloadKinds, RequestsOfAPodAreWhatKubernetesCounts) {
  const auto spec = read(
      with("{apiVersion: kubeflow.org/v1, kind: PyTorchJob}", R"({pytorchReplicaSpecs: {Worker: {replicas: 2, template:
    {spec: {overhead: {cpu: 250m}, priorityClassName: high,
            initContainers: [{name: fetch, resources: {requests: {cpu: 6}}},
                             {name: side, restartPolicy: Always, resources: {requests: {cpu: 1}}}],
            containers: [{name: a, resources: {requests: {cpu: 2, memory: 1Gi}, limits: {nvidia.com/gpu: 1}}}]}}}}})"));
  ASSERT_EQ(spec.pod_sets.size(), 1U);
  EXPECT_EQ(spec.pod_sets[0].shape.cpu_milli, 6250) << "the first step alone asks for six";
  EXPECT_EQ(spec.pod_sets[0].shape.memory_bytes, 1LL << 30);
  EXPECT_EQ(spec.priority_class, "high");
}

TEST(WorkloadKinds, TheQueueAndThePriorityMayStandWhereTheyDo) {
  const auto job = [](const char* metadata, const char* policy, const char* of_pods) {
    return read(fmt::format(
        "{{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {{name: a{}}}, spec: {{runPolicy: {{schedulingPolicy: {{{}}}}}, "
        "pytorchReplicaSpecs: {{Master: {{template: {{metadata: {{{}}}, spec: {{containers: [{{name: a}}]}}}}}}}}}}}}",
        metadata, policy, of_pods));
  };
  EXPECT_EQ(job(", annotations: {kueue.x-k8s.io/queue-name: q}", "", "").queue, "q");
  EXPECT_EQ(job("", "", "labels: {kueue.x-k8s.io/queue-name: q}").queue, "q");
  EXPECT_EQ(job("", "", "annotations: {kueue.x-k8s.io/queue-name: q}").queue, "q");
  EXPECT_EQ(job("", "", "").queue, "");
  EXPECT_EQ(job("", "priorityClass: high", "").priority_class, "high");
  EXPECT_EQ(job(", labels: {kueue.x-k8s.io/priority-class: top}", "priorityClass: high", "").priority_class, "top");
}

TEST(WorkloadKinds, AJobMayDoWithFewer) {
  EXPECT_EQ(
      show(read(
          "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {kueue.x-k8s.io/job-min-parallelism: "
          "\"3\"}}, spec: {parallelism: 8, template: " +
          pods(1) + "}}")),
      "main 3-8x1");
}

TEST(WorkloadKinds, WhatCannotBeReadIsRefusedByName) {
  const auto refused = [](const std::string& yaml) {
    const auto spec = workload_from_object(object_of(yaml));
    return spec ? std::string() : spec.error().field + ": " + spec.error().message;
  };
  EXPECT_EQ(refused("{apiVersion: v1, kind: Service, metadata: {name: a}}"), "kind: v1 Service is not a workload");
  EXPECT_EQ(refused("{apiVersion: example.org/v1, kind: MPIJob, metadata: {name: a}}"),
            "kind: example.org/v1 MPIJob is not a workload");
  EXPECT_EQ(refused(with("{apiVersion: kubeflow.org/v1, kind: PyTorchJob}", "{}")), "spec: spec has no pod template");
  EXPECT_EQ(refused(with("{apiVersion: kubeflow.org/v1, kind: PyTorchJob}", "{pytorchReplicaSpecs: {Worker: {}}}")),
            "spec.pytorchReplicaSpecs.Worker.template: spec.pytorchReplicaSpecs.Worker.template is missing");
  EXPECT_EQ(refused(with("{apiVersion: apps/v1, kind: Deployment}", "{replicas: 1000000, template: " + pods(1) + "}")),
            "spec.template: spec.template makes 1000000 pods, which is out of range");
  EXPECT_NE(refused(with("{apiVersion: ray.io/v1, kind: RayJob}", "{clusterSelector: {a: b}}")).find("headGroupSpec"),
            std::string::npos);
}

TEST(WorkloadKinds, EndsAndRunningPods) {
  const auto& pytorch = *workload_kind("kubeflow.org/v1", "PyTorchJob");
  const auto status = [](const char* text) { return *Json::parse(fmt::format(R"({{"status":{}}})", text)); };
  EXPECT_TRUE(is_complete(status(R"({"conditions":[{"type":"Succeeded","status":"True"}]})"), pytorch));
  EXPECT_FALSE(is_complete(status(R"({"conditions":[{"type":"Succeeded","status":"False"}]})"), pytorch));
  EXPECT_TRUE(is_failed(status(R"({"conditions":[{"type":"Failed","status":"True"}]})"), pytorch));
  EXPECT_EQ(pytorch.active(status(R"({"replicaStatuses":{"Master":{"active":1},"Worker":{"active":3,"failed":1}}})")),
            4);
  const auto& ray = *workload_kind("ray.io/v1", "RayJob");
  EXPECT_TRUE(is_complete(status(R"({"jobStatus":"SUCCEEDED"})"), ray));
  EXPECT_TRUE(is_failed(status(R"({"jobDeploymentStatus":"Failed"})"), ray));
  EXPECT_EQ(ray.active(status(R"({"jobDeploymentStatus":"Running"})")), 1);
  EXPECT_EQ(ray.active(status(R"({"jobDeploymentStatus":"Suspended"})")), 0);
  const auto& cluster = *workload_kind("ray.io/v1", "RayCluster");
  EXPECT_FALSE(is_complete(status(R"({"state":"ready"})"), cluster)) << "it has no end of its own";
  EXPECT_EQ(cluster.active(status(R"({"state":"suspended","availableWorkerReplicas":3})")), 0);
  EXPECT_EQ(cluster.active(status(R"({"state":"ready"})")), 1);
  EXPECT_EQ(
      workload_kind("jobset.x-k8s.io/v1alpha2", "JobSet")->active(status(R"({"replicatedJobsStatus":[{"active":2}]})")),
      2);
}

TEST(WorkloadKinds, PodsOfOneRunAreKnown) {
  const auto pod = [](const char* metadata) { return *Json::parse(fmt::format(R"({{"metadata":{}}})", metadata)); };
  const auto step = pod(R"({"labels":{"workflows.argoproj.io/workflow":"sweep"}})");
  EXPECT_EQ(run_of_pod(step), "workflows.argoproj.io/workflow=sweep");
  EXPECT_EQ(run_of_pod(pod(R"({"labels":{"workflows.argoproj.io/workflow":"w","pipeline/runid":"7"}})")),
            "pipeline/runid=7");
  EXPECT_EQ(
      run_of_pod(
          pod(R"({"ownerReferences":[{"apiVersion":"tekton.dev/v1","kind":"TaskRun","uid":"u","controller":true}]})")),
      "uid=u");
  EXPECT_EQ(run_of_pod(pod(
                R"({"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","uid":"u","controller":true}]})")),
            "");
  EXPECT_TRUE(is_made_by_framework(step));
  EXPECT_TRUE(is_made_by_framework(pod(R"({"labels":{"serving.kserve.io/inferenceservice":"llama2"}})")));
  EXPECT_TRUE(is_made_by_framework(pod(R"({"labels":{"seldon-deployment-id":"m"}})")));
  EXPECT_FALSE(is_made_by_framework(pod(R"({"labels":{"app":"m"}})")));
}

// S-267 S-269 S-273 S-275: the pod counts of gangs.
TEST(WorkloadKinds, OfTheReferenceManifests) {
  struct Gang {
    std::string file, sets;
    std::int64_t gpus;
  };
  struct Case {
    std::vector<Gang> gangs;
    std::string with_queue, queue, with_memory;
    std::int64_t memory_gib;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto spec_of = [&](const std::string& file) {
      const auto loaded = load_path(manifests.dir + file);
      EXPECT_FALSE(loaded.objects.empty()) << file;
      const auto spec = workload_from_object(loaded.objects.at(0).document.content);
      EXPECT_TRUE(spec) << file << ": " << spec.error().to_string();
      return spec ? *spec : WorkloadSpec{};
    };
    const auto c = manifests.pick(Case{{{"mpijob-fabric-check.yaml", "launcher 1x0, worker 3x4", 12},
                                        {"pytorchjob-variant-caller.yaml", "master 1x4, worker 5x4", 24},
                                        {"pytorchjob-speech-tuning.yaml", "master 1x2, worker 1-2x2", 6},
                                        {"job-reconstruction.yaml", "main 6x2", 12},
                                        {"jobset-ocean.yaml", "coupler 1x0, tiles 6x8", 48},
                                        {"rayjob-replay.yaml", "head 1x0, rollouts 2-5x1", 5},
                                        {"leaderworkerset-shards.yaml", "main 6x8", 48},
                                        {"cronjob-evaluation.yaml", "main 2x1", 2},
                                        {"deployment-transcriber.yaml", "main 2x1", 2},
                                        {"pod-cuda-vector-add.yaml", "main 1x1", 1},
                                        {"pod-two-steps.yaml", "main 1x3", 3},
                                        {"pod-annealing.yaml", "main 1x2", 2}},
                                       "pytorchjob-variant-caller.yaml",
                                       "genomics",
                                       "pytorchjob-speech-tuning.yaml",
                                       48},
                                  Case{{{"001-mpijob-nccl-test.yaml", "launcher 1x0, worker 2x8", 16},
                                        {"001-pytorchjob-llama2.yaml", "master 1x8, worker 7x8", 64},
                                        {"003-pytorchjob-llm-finetuning.yaml", "master 1x8, worker 3x8", 32},
                                        {"004-job-distributed-training.yaml", "main 4x1", 4},
                                        {"004-deployment-gpu-inference-server.yaml", "main 3x1", 3},
                                        {"003-pod-gpu.yaml", "main 1x1", 1},
                                        {"004-pod-long-training-job.yaml", "main 1x4", 4},
                                        {"004-pod-training-job-do-not-disrupt.yaml", "main 1x1", 1}},
                                       "001-pytorchjob-llama2.yaml",
                                       "research-queue",
                                       "003-pytorchjob-llm-finetuning.yaml",
                                       64});
    for (const auto& one : c.gangs) {
      const auto spec = spec_of(one.file);
      EXPECT_EQ(show(spec), one.sets) << one.file;
      EXPECT_EQ(spec.total_gpu_milli(), one.gpus * 1000) << one.file;
    }
    EXPECT_EQ(spec_of(c.with_queue).queue, c.queue) << "an annotation of the first template";
    EXPECT_EQ(spec_of(c.with_memory).pod_sets[1].shape.memory_bytes, c.memory_gib << 30);
  }
}

// The requests of a pod: its containers together, or an init container that requests more alone.
TEST(WorkloadKinds, APodOfTwoStepsTakesTheLargerOfEachResource) {
  const auto loaded = load_path(testing::data_dir() + "/manifests/pod-two-steps.yaml");
  ASSERT_EQ(loaded.objects.size(), 1U);
  const auto spec = workload_from_object(loaded.objects[0].document.content);
  ASSERT_TRUE(spec) << spec.error().to_string();
  EXPECT_EQ(spec->pod_sets[0].shape.cpu_milli, 5000) << "unpacking takes more than 2.1";
  EXPECT_EQ(spec->pod_sets[0].shape.memory_bytes, 10LL << 30) << "and less than 10 GiB";
}

}  // namespace workload_kinds_test
}  // namespace qm::config
