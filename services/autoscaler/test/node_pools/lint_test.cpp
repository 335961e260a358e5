// Findings about NodePools, workloads and scalers that are read together.
#include "qm/autoscaler/node_pools/lint.hpp"

#include "qm/testing/manifests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace qm::autoscaler {
namespace pool_lint_test {

std::vector<config::Object> objects_in(const std::string& text) {
  auto loaded = config::load_text(text, "objects.yaml");
  for (const auto& d : loaded.diagnostics) {
    if (d.severity == config::Diagnostic::Severity::kError) ADD_FAILURE() << d.to_string();
  }
  return std::move(loaded.objects);
}

std::vector<std::string> codes_of(const std::vector<PoolFinding>& findings) {
  std::vector<std::string> out;
  for (const auto& f : findings) out.push_back(f.code + " " + f.object);
  return out;
}

/// The findings with this code.
std::vector<PoolFinding> only(const std::string& code, const std::vector<config::Object>& objects) {
  auto out = lint_pools(objects);
  std::erase_if(out, [&](const PoolFinding& f) { return f.code != code; });
  return out;
}

struct PoolText {
  std::string name, capacity = "[on-demand]", types = "[g5.xlarge, g5.2xlarge, g6.xlarge]", zones, disruption, metadata;
};
std::string text_of(const PoolText& pool) {
  std::string out = fmt::format(
      "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {}}}\nspec:\n  limits: {{nvidia.com/gpu: 8}}\n",
      pool.name);
  if (!pool.disruption.empty()) out += fmt::format("  disruption: {}\n", pool.disruption);
  out += "  template:\n";
  if (!pool.metadata.empty()) out += fmt::format("    metadata: {}\n", pool.metadata);
  out +=
      "    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: science}\n"
      "      taints: [{key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}]\n      requirements:\n";
  out += fmt::format("      - {{key: karpenter.sh/capacity-type, operator: In, values: {}}}\n", pool.capacity);
  out += fmt::format("      - {{key: node.kubernetes.io/instance-type, operator: In, values: {}}}\n", pool.types);
  if (!pool.zones.empty())
    out += fmt::format("      - {{key: topology.kubernetes.io/zone, operator: In, values: {}}}\n", pool.zones);
  return out;
}

// S-210: fewer than 3 types or 2 zones with spot capacity alone.
TEST(PoolLint, ReportsSpotPoolsWithFewTypesOrZones) {
  const std::string spot = "[spot]", two = "[eu-west-1a, eu-west-1b]";
  EXPECT_TRUE(lint_pools(objects_in(text_of({"wide", spot, "[g4dn.xlarge, g5.xlarge, g6.xlarge]", two}))).empty());
  const auto types = lint_pools(objects_in(text_of({"few", spot, "[g5.xlarge, g5.2xlarge]", two})));
  ASSERT_EQ(codes_of(types), std::vector<std::string>{"SPOT_NARROW NodePool few"});
  EXPECT_EQ(types[0].source, "objects.yaml:2");
  EXPECT_EQ(types[0].message,
            "it has spot capacity alone and allows 2 instance types (g5.2xlarge, g5.xlarge) in 2 zones (eu-west-1a, "
            "eu-west-1b), so that one shortage stops its launches");
  EXPECT_EQ(types[0].remedy, "allow at least 3 instance types, of several families and sizes, and 2 zones");
  const auto zones =
      lint_pools(objects_in(text_of({"one", spot, "[g4dn.xlarge, g5.xlarge, g6.xlarge]", "[eu-west-1a]"})));
  ASSERT_EQ(codes_of(zones), std::vector<std::string>{"SPOT_NARROW NodePool one"});
  EXPECT_NE(zones[0].message.find("3 instance types in 1 zone (eu-west-1a)"), std::string::npos) << zones[0].message;
  EXPECT_TRUE(lint_pools(objects_in(text_of({"any", spot, "[g4dn.xlarge, g5.xlarge, g6.xlarge]"}))).empty());
  EXPECT_TRUE(lint_pools(objects_in(text_of({"mixed", "[spot, on-demand]", "[g5.xlarge]", two}))).empty())
      << "on-demand capacity is left";
}

// S-211: the delay of the training pool is below that of an inference pool.
TEST(PoolLint, ReportsTrainingThatIsConsolidatedSoonerThanInference) {
  const auto pool = [](const std::string& name, const std::string& after, const std::string& metadata = "") {
    return text_of({.name = name,
                    .disruption = fmt::format("{{consolidationPolicy: WhenEmpty, consolidateAfter: {}}}", after),
                    .metadata = metadata});
  };
  const std::string inference = pool("gpu-inference", "30m") + pool("chat", "45m", "{labels: {workload: inference}}");
  const auto found = lint_pools(objects_in(pool("gpu-training", "2m") + inference));
  ASSERT_EQ(codes_of(found), std::vector<std::string>{"TRAINING_CONSOLIDATED_SOONER NodePool gpu-training"});
  EXPECT_EQ(found[0].field, "spec.disruption.consolidateAfter");
  EXPECT_EQ(
      found[0].message,
      "its nodes are consolidated after 2m, those of the inference NodePool chat after 45m, and training loses more "
      "by a restart");
  EXPECT_EQ(found[0].remedy, "set at least 45m here, or a shorter delay for chat");
  for (const char* fine : {"45m", "1h", "Never"})
    EXPECT_TRUE(lint_pools(objects_in(pool("gpu-training", fine) + inference)).empty()) << fine;
  EXPECT_TRUE(lint_pools(objects_in(pool("notebooks", "2m") + inference)).empty());
}

// S-212: pools of which nothing bounds the cost are flagged; the reference has one.
TEST(PoolLint, ReportsPoolsWithoutALimit) {
  for (const auto& manifests : qm::testing::manifest_folders()) {
    const auto file = manifests.pick("nodepool-windows.yaml", "004-nodepool-gpu-training-protected.yaml");
    const auto found = only("SPEND_UNLIMITED", config::load_path(manifests.dir + file).objects);
    ASSERT_EQ(found.size(), 1U) << manifests.name();
    EXPECT_EQ(found[0].message, "it has no limits, so that nothing bounds what it can cost");
    const auto tiers = manifests.pick("nodepool-edge-tiers.yaml", "004-nodepool-tiers-g5-g4dn.yaml");
    EXPECT_TRUE(only("SPEND_UNLIMITED", config::load_path(manifests.dir + tiers).objects).empty());
  }
  const auto mixed = lint_pools(objects_in(text_of({.name = "mixed", .types = "[g5.xlarge, r5.large]"})));
  ASSERT_EQ(mixed.size(), 1U);
  EXPECT_EQ(
      mixed[0].message,
      "its limits of nvidia.com/gpu do not count 1 of its 2 instance types, such as r5.large, so that nothing bounds "
      "what it can cost");
}

struct JobText {
  std::string runtime = "4h", annotations, labels, object_annotations,
              tolerations = "[{key: nvidia.com/gpu, operator: Exists}]", selector = "{}";
};
std::string text_of(const JobText& job) {
  std::string own = job.object_annotations;
  if (!job.runtime.empty())
    own += fmt::format("{}quartermaster.dev/expected-runtime: {}", own.empty() ? "" : ", ", job.runtime);
  return fmt::format(R"(---
apiVersion: batch/v1
kind: Job
metadata: {{name: train, namespace: ml, annotations: {{{}}}, labels: {{{}}}}}
spec:
  template:
    metadata: {{annotations: {{{}}}}}
    spec:
      restartPolicy: Never
      tolerations: {}
      nodeSelector: {}
      containers: [{{name: t, image: i, resources: {{limits: {{nvidia.com/gpu: 2}}}}}}]
)",
                     own, job.labels, job.annotations, job.tolerations, job.selector);
}

const std::string kProtected = "karpenter.sh/do-not-disrupt: \"true\"";
const std::string kConsolidating =
    text_of(PoolText{.name = "shared",
                     .disruption = "{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m}",
                     .metadata = "{labels: {site: lab}}"});

std::vector<PoolFinding> unprotected(const JobText& job, const std::string& pools = kConsolidating) {
  return only("TRAINING_NOT_PROTECTED", objects_in(pools + text_of(job)));
}

// S-254: more than an hour on a consolidating pool without do-not-disrupt.
TEST(PoolLint, ReportsLongTrainingThatConsolidationMayEvict) {
  const auto found = unprotected({});
  ASSERT_EQ(codes_of(found), std::vector<std::string>{"TRAINING_NOT_PROTECTED Job ml/train"});
  EXPECT_EQ(found[0].message,
            "pods with 2 GPUs run 4h, nothing protects them, and consolidation of NodePool shared "
            "(WhenEmptyOrUnderutilized after 1m) may evict them");
  EXPECT_EQ(
      found[0].remedy,
      "set karpenter.sh/do-not-disrupt: \"true\" in the pod template, or consolidationPolicy: WhenEmpty in the NodePool");
  EXPECT_TRUE(unprotected({.annotations = kProtected}).empty());
  EXPECT_TRUE(unprotected({.annotations = "karpenter.sh/do-not-disrupt: 4h"}).empty());
  const auto partly = unprotected({.annotations = "karpenter.sh/do-not-disrupt: 30m"});
  ASSERT_EQ(partly.size(), 1U);
  EXPECT_NE(partly[0].message.find("do-not-disrupt protects the first 30m of it"), std::string::npos);
  const auto misplaced = unprotected({.object_annotations = kProtected});
  ASSERT_EQ(misplaced.size(), 1U);
  EXPECT_NE(misplaced[0].message.find("of the object does not reach its pods"), std::string::npos);
}

TEST(PoolLint, OnlyLongTrainingNeedsProtection) {
  EXPECT_TRUE(unprotected({.runtime = "1h"}).empty());
  EXPECT_EQ(unprotected({.runtime = "61m"}).size(), 1U);
  EXPECT_TRUE(unprotected({.runtime = ""}).empty()) << "nothing shows that it is training";
  const auto undeclared = unprotected({.runtime = "", .labels = "workload-type: training"});
  ASSERT_EQ(undeclared.size(), 1U);
  EXPECT_NE(undeclared[0].message.find("train for an undeclared time"), std::string::npos);
}

TEST(PoolLint, OnlyPoolsThatMayHoldThePodsCount) {
  EXPECT_TRUE(unprotected({.tolerations = "[]"}).empty()) << "the taint of the pool keeps it away";
  EXPECT_EQ(unprotected({.selector = "{site: lab}"}).size(), 1U);
  EXPECT_TRUE(unprotected({.selector = "{site: office}"}).empty());
  EXPECT_TRUE(unprotected({.selector = "{karpenter.sh/nodepool: other}"}).empty());
  for (const char* calm : {"{consolidationPolicy: WhenEmpty, consolidateAfter: 1m}", "{consolidateAfter: Never}",
                           "{consolidateAfter: 1m, budgets: [{nodes: \"0\", reasons: [Underutilized]}]}"}) {
    EXPECT_TRUE(unprotected({}, text_of(PoolText{.name = "calm", .disruption = calm})).empty()) << calm;
  }
  EXPECT_EQ(unprotected({}, text_of(PoolText{.name = "nightly",
                                             .disruption = "{consolidateAfter: 1m, budgets: [{nodes: "
                                                           "\"0\", schedule: 0 8 * * *, duration: 9h}]}"}))
                .size(),
            1U)
      << "at other hours it is consolidated";
}

TEST(PoolLint, TheReferencePodsAreProtected) {
  for (const auto& manifests : qm::testing::manifest_folders()) {
    if (manifests.own) continue;
    auto objects = config::load_path(manifests.dir + "004-nodepool-gpu-spot-inference.yaml").objects;
    for (const char* file : {"004-pod-long-training-job.yaml", "004-job-distributed-training.yaml"}) {
      for (auto& object : config::load_path(manifests.dir + file).objects) {
        object.document.content.set("metadata").set("annotations").set(words::kExpectedRuntime, "72h");
        objects.push_back(std::move(object));
      }
    }
    EXPECT_TRUE(only("TRAINING_NOT_PROTECTED", objects).empty());
    for (auto& object : objects) {
      if (object.document.kind == "Pod")
        object.document.content.set("metadata").set("annotations").set(words::kDoNotDisrupt, "false");
    }
    EXPECT_EQ(only("TRAINING_NOT_PROTECTED", objects).size(), 1U);
  }
}

std::string scaler(const std::string& kind, const std::string& metrics) {
  const bool hpa = kind == "HorizontalPodAutoscaler";
  return fmt::format(
      "---\napiVersion: {}\nkind: {}\nmetadata: {{name: s, namespace: web}}\nspec:\n  scaleTargetRef: "
      "{{apiVersion: apps/v1, kind: Deployment, name: llm}}\n  {}: 9\n{}",
      hpa ? "autoscaling/v2" : "keda.sh/v1alpha1", kind, hpa ? "maxReplicas" : "maxReplicaCount", metrics);
}
std::string deployment(int gpus) {
  return fmt::format(R"(---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm, namespace: web}}
spec:
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec: {{containers: [{{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: {}}}}}}}]}}
)",
                     gpus);
}
constexpr const char* kHpaCpu =
    "  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]\n";
constexpr const char* kHpaBoth =
    "  metrics: [{type: ContainerResource, containerResource: {name: memory, container: c, target: {type: Utilization, "
    "averageUtilization: 70}}}, {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]\n";

// S-217: a GPU Deployment that follows CPU or memory alone.
TEST(PoolLint, ReportsGpuDeploymentsThatScaleOnCpuOrMemoryAlone) {
  const auto found = [](const std::string& kind, const std::string& metrics, int gpus = 1) {
    return only("GPU_SCALED_ON_CPU", objects_in(deployment(gpus) + scaler(kind, metrics)));
  };
  const std::string hpa = "HorizontalPodAutoscaler", keda = "ScaledObject";
  const auto cpu = found(hpa, kHpaCpu);
  ASSERT_EQ(codes_of(cpu), std::vector<std::string>{"GPU_SCALED_ON_CPU HorizontalPodAutoscaler web/s"});
  EXPECT_EQ(cpu[0].field, "spec.metrics");
  EXPECT_EQ(
      cpu[0].message,
      "the replicas of Deployment web/llm, whose pods have 1 GPU, follow cpu alone, which does not show the load of "
      "a GPU");
  const auto both = found(hpa, kHpaBoth, 2);
  ASSERT_EQ(both.size(), 1U);
  EXPECT_NE(both[0].message.find("2 GPUs, follow cpu and memory alone"), std::string::npos) << both[0].message;
  EXPECT_EQ(found(hpa, "").size(), 1U) << "without metrics it scales on CPU";
  EXPECT_TRUE(found(hpa, kHpaCpu, 0).empty()) << "no GPUs";
  EXPECT_TRUE(found(hpa,
                    "  metrics: [{type: Pods, pods: {metric: {name: gpu_utilization}, target: {type: AverageValue, "
                    "averageValue: \"70\"}}}, {type: Resource, resource: {name: cpu, target: {type: Utilization, "
                    "averageUtilization: 70}}}]\n")
                  .empty())
      << "one signal of the GPU is enough";
  EXPECT_EQ(found(keda, "  triggers: [{type: cpu, metadata: {value: \"60\"}}, {type: cron, metadata: {}}]\n").size(),
            1U);
  EXPECT_TRUE(found(keda, "  triggers: [{type: prometheus, metadata: {}}]\n").empty());
}

// S-217: own manifests have such a scaler; the reference ones scale on GPU utilization.
TEST(PoolLint, OfTheManifestsOnlyOneScalesAGpuDeploymentOnCpu) {
  for (const auto& manifests : qm::testing::manifest_folders()) {
    std::vector<config::Object> objects;
    const std::vector<std::string> files =
        manifests.pick(std::vector<std::string>{"deployment-transcriber.yaml", "hpa-transcriber.yaml"},
                       std::vector<std::string>{"004-deployment-hpa-llm-inference.yaml", "001-hpa-llm-inference.yaml"});
    for (const auto& file : files)
      std::ranges::move(config::load_path(manifests.dir + file).objects, std::back_inserter(objects));
    EXPECT_EQ(
        codes_of(only("GPU_SCALED_ON_CPU", objects)),
        manifests.pick(std::vector<std::string>{"GPU_SCALED_ON_CPU HorizontalPodAutoscaler edge-serving/transcriber"},
                       std::vector<std::string>{}))
        << manifests.name();
  }
}

// S-214: two NodePools of the reference have the names of others, and another content.
TEST(PoolLint, ReportsNamesThatAreUsedTwice) {
  const auto same = text_of(PoolText{.name = "a"});
  EXPECT_TRUE(lint_pools(objects_in(same + same)).empty()) << "equal objects are no conflict";
  const auto found = lint_pools(objects_in(same + text_of(PoolText{.name = "a", .types = "[p5.48xlarge]"})));
  ASSERT_EQ(codes_of(found), std::vector<std::string>{"NAME_REUSED NodePool a"});
  EXPECT_NE(found[0].message.find("objects.yaml:2 has another object of this name"), std::string::npos)
      << found[0].message;
  for (const auto& manifests : qm::testing::manifest_folders()) {
    if (manifests.own) continue;
    std::vector<config::Object> objects;
    for (const char* file : {"001-nodepool-gpu-training.yaml", "004-nodepool-gpu-training.yaml",
                             "001-nodepool-gpu-inference.yaml", "004-nodepool-gpu-inference.yaml"})
      std::ranges::move(config::load_path(manifests.dir + file).objects, std::back_inserter(objects));
    EXPECT_EQ(codes_of(only("NAME_REUSED", objects)),
              (std::vector<std::string>{"NAME_REUSED NodePool gpu-training", "NAME_REUSED NodePool gpu-inference"}));
  }
}

}  // namespace pool_lint_test
}  // namespace qm::autoscaler
