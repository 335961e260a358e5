// The rules that depend on the cluster: pools, shares of a node, shared GPUs, compliance; as configured by a policy
// file.
// S-009 S-011 S-012 S-021 S-022 S-133 S-135 S-136 S-137 S-144 S-378
#include "qm/admission_policy/policy_file.hpp"
#include "qm/testing/testing.hpp"
#include "subjects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace pools_test {

constexpr const char* kPolicy = R"(apiVersion: policy.quartermaster.dev/v1alpha1
kind: WebhookPolicy
metadata: {name: test}
spec:
  pools:
  - name: online
    nodeSelector: {node.kubernetes.io/gpu-pool: inference-online}
    taint: gpu-online
    node: {gpus: 1, cpu: "8", memory: 32Gi}
    serves: [inference]
  - name: training
    nodeSelector: {node.kubernetes.io/gpu-pool: training}
    taint: gpu-training
    node: {gpus: 8, cpu: "96", memory: 1152Gi}
    serves: [training]
  - name: sliced
    nodeSelector: {pool: sliced}
    node: {gpus: 1, cpu: "8", memory: 32Gi}
    sharing: time-slicing
    replicas: 4
    failRequestsGreaterThanOne: true
  - name: mps
    nodeSelector: {pool: mps}
    sharing: mps
    replicas: 8
    namespaces: [team]
  - name: sliced-mig
    nodeSelector: {pool: sliced-mig}
    sharing: time-slicing
    replicas: 4
    namespaces: [team]
  priorities:
    classes:
    - {name: production-inference, namespaces: [production], workloadTypes: [inference]}
  namespaces:
    refused: [default]
)";

Settings settings() {
  Settings out;
  EXPECT_TRUE(read_policy(kPolicy, "policy.yaml", out));
  return out;
}

struct Pod {
  std::string type, placed, cpu = "1", memory = "1Gi", gpu = R"("nvidia.com/gpu":1)";
  std::string labels, tolerations, more;
  std::string ns = "team";
  View::Namespace home;
  /// The rules that refuse it.
  std::string broken() const {
    const auto pod = parsed(fmt::format(
        R"({{"metadata":{{"name":"p","labels":{{"workload-type":"{}"{}}}}},"spec":{{"tolerations":[{{"key":"nvidia.com/gpu",
        "operator":"Exists"}}{}],"nodeSelector":{{{}}}{},"containers":[{{"name":"m","resources":{{"requests":{{"cpu":"{}",
        "memory":"{}"}},"limits":{{{}}}}}}}]}}}})",
        type, labels, tolerations, placed, more, cpu, memory, gpu));
    EXPECT_TRUE(pod.is_object()) << pod.string();
    View view;
    view.namespaces[ns] = home;
    std::string out;
    verdict = validate(created(pod, "Pod", ns.c_str()), settings(), view);
    for (const auto& finding : verdict.refusals) out += finding.rule + " ";
    return out;
  }
  mutable Verdict verdict;
};
const std::string kOnline = R"("node.kubernetes.io/gpu-pool":"inference-online")";
const std::string kTraining = R"("node.kubernetes.io/gpu-pool":"training")";
const std::string kSliced = R"("pool":"sliced")";
View::Namespace labelled(Labels labels) { return {std::move(labels), {}}; }
const View::Namespace kShares = labelled({{"quartermaster.dev/shared-gpus", "true"}});

TEST(PoolRules, CpuAndMemoryAreProportionalToGpus) {  // S-012
  const auto asks = [](const char* placed, const char* cpu, const char* memory, const char* gpu) {
    return Pod{.placed = placed, .cpu = cpu, .memory = memory, .gpu = gpu}.broken();
  };
  const char* one = R"("nvidia.com/gpu":1)";
  const char* four = R"("nvidia.com/gpu":4)";
  EXPECT_EQ(asks(kOnline.c_str(), "8", "32Gi", one), "");
  EXPECT_EQ(asks(kOnline.c_str(), "8001m", "32Gi", one), "gpu-proportion ");
  EXPECT_EQ(asks(kOnline.c_str(), "8", "33Gi", one), "gpu-proportion ");
  EXPECT_EQ(asks(kTraining.c_str(), "48", "576Gi", four), "") << "half of the GPUs, half of the node";
  EXPECT_EQ(asks(kTraining.c_str(), "49", "1Gi", four), "gpu-proportion ");
  EXPECT_EQ(asks(kTraining.c_str(), "12", "1Gi", R"("nvidia.com/mig-7g.80gb":1)"), "") << "all of its GPU's slices";
  EXPECT_EQ(asks(kTraining.c_str(), "12", "1Gi", R"("nvidia.com/mig-1g.10gb":1)"), "gpu-proportion ");
  EXPECT_EQ(asks(R"("somewhere":"else")", "512", "1Ti", one), "") << "unknown amounts are not checked";
  Pod big{.placed = R"("node.kubernetes.io/instance-type":"g5.2xlarge")", .cpu = "64"};
  ASSERT_EQ(big.broken(), "gpu-proportion ") << "the catalog knows its 8 vCPU";
  EXPECT_EQ(big.verdict.refusals[0].message,
            "the pod requests 64 cpu with 1 of the 1 GPUs of a g5.2xlarge, whose share is 8");
  EXPECT_EQ(
      asks(R"("node.kubernetes.io/instance-type":"g5.2xlarge")", "9223372036854775807", "9223372036854775807Ei", one),
      "gpu-proportion ")
      << "and no number is too large to be compared";
}

TEST(PoolRules, OneMatchingAlternativeIsEnough) {
  const auto types = [](const char* cpu) {
    return Pod{
        .cpu = cpu,
        .more = R"(,"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":
                 [{"matchExpressions":[{"key":"node.kubernetes.io/instance-type","operator":"In",
                 "values":["g5.2xlarge","g5.16xlarge"]}]}]}}})"}
        .broken();
  };
  EXPECT_EQ(types("64"), "");
  EXPECT_EQ(types("65"), "gpu-proportion ");
}

TEST(PoolRules, TrainingAndOnlineInferenceAreSeparated) {
  EXPECT_EQ((Pod{.type = "training", .placed = kTraining}.broken()), "");
  EXPECT_EQ((Pod{.type = "training", .placed = kOnline}.broken()), "pool-purpose ");
  EXPECT_EQ((Pod{.type = "inference", .placed = kTraining}.broken()), "pool-purpose ");
  EXPECT_EQ((Pod{.type = "training", .placed = kTraining, .tolerations = R"(,{"key":"gpu-online","operator":"Exists"})"}
                 .broken()),
            "pool-purpose ")
      << "a toleration of another pool's taint is refused";
  EXPECT_EQ((Pod{.type = "inference", .placed = kOnline, .tolerations = R"(,{"key":"gpu-online","operator":"Exists"})"}
                 .broken()),
            "");
  EXPECT_EQ((Pod{.placed = R"("pool":"mps")", .ns = "other", .home = kShares}.broken()), "pool-purpose ")
      << "it belongs to team";
}

TEST(PoolRules, TolerationNeedsKey) {  // S-011
  EXPECT_EQ((Pod{.placed = kOnline, .tolerations = R"(,{"operator":"Exists"})"}.broken()), "toleration-key ");
  EXPECT_EQ((Pod{.placed = kOnline, .tolerations = R"(,{"operator":"Exists","effect":"NoSchedule"})"}.broken()),
            "toleration-key ");
}

TEST(SharedGpus, StayWithinOneNamespaceUnlessAllowed) {  // S-135
  EXPECT_EQ((Pod{.placed = kSliced}.broken()), "gpu-sharing ");
  EXPECT_EQ((Pod{.placed = kSliced, .home = kShares}.broken()), "");
  EXPECT_EQ((Pod{.placed = R"("pool":"mps")"}.broken()), "") << "the pool is this namespace's alone";
  EXPECT_EQ((Pod{.placed = R"("x":"y")", .gpu = R"("nvidia.com/gpu.shared":1)"}.broken()), "gpu-sharing ");
  EXPECT_EQ((Pod{.placed = R"("nvidia.com/gpu.sharing-strategy":"mps")"}.broken()), "gpu-sharing ");
  EXPECT_EQ((Pod{.placed = R"("nvidia.com/gpu.product":"A100-SXM4-SHARED")"}.broken()), "gpu-sharing ");
  EXPECT_EQ((Pod{.placed = R"("nvidia.com/gpu.sharing-strategy":"none")"}.broken()), "");
}

TEST(SharedGpus, AreNotForProductionWithPromise) {  // S-136 S-144
  const auto on = [](const char* pool, const char* labels) {
    return Pod{.type = "inference", .placed = fmt::format(R"("pool":"{}")", pool), .labels = labels, .home = kShares}
        .broken();
  };
  EXPECT_EQ(on("sliced", R"(,"environment":"production","latency-slo-ms":"100")"), "gpu-sharing ");
  EXPECT_EQ(on("mps", R"(,"environment":"prod","slo":"strict")"), "gpu-sharing ");
  EXPECT_EQ(on("sliced", R"(,"environment":"dev","latency-slo-ms":"100")"), "") << "development";
  EXPECT_EQ(on("sliced", R"(,"environment":"production")"), "") << "time-shared work without a promise";
  Pod mig{.type = "inference",
          .placed = R"("pool":"sliced-mig")",
          .gpu = R"("nvidia.com/mig-1g.10gb":1)",
          .labels = R"(,"environment":"production")"};
  EXPECT_EQ(mig.broken(), "gpu-sharing ") << "shares of MIG instances are for research";
}

TEST(SharedGpus, AreNotForTraining) {  // S-137
  Pod pod{.type = "training", .placed = kSliced, .home = kShares};
  ASSERT_EQ(pod.broken(), "gpu-sharing ");
  EXPECT_EQ(pod.verdict.refusals[0].message.substr(0, 20), "SHARED_GPU_FOR_PROD:");
}

TEST(SharedGpus, SeveralAreRefusedAsByDevicePlugin) {  // S-133
  Pod two{.placed = kSliced, .gpu = R"("nvidia.com/gpu":2)", .home = kShares};
  ASSERT_EQ(two.broken(), "gpu-sharing ");
  EXPECT_EQ(two.verdict.refusals[0].container, "m");
  EXPECT_EQ((Pod{.placed = R"("pool":"mps")", .gpu = R"("nvidia.com/gpu":2)"}.broken()), "") << "its flag is false";
}

TEST(Compliance, RequiresWholeGpusOrMigAndNoSpot) {  // S-378
  const auto pci = labelled({{"compliance", "pci-dss"}, {"quartermaster.dev/shared-gpus", "true"}});
  EXPECT_EQ((Pod{.placed = kOnline, .home = pci}.broken()), "");
  EXPECT_EQ((Pod{.placed = R"("x":"y")", .gpu = R"("nvidia.com/mig-1g.10gb":1)", .home = pci}.broken()), "");
  EXPECT_EQ((Pod{.placed = kSliced, .home = pci}.broken()), "compliance ");
  EXPECT_EQ((Pod{.placed = R"("x":"y")", .gpu = R"("quartermaster.dev/gpu-milli":500)", .home = pci}.broken()),
            "compliance ");
  const auto spot = kOnline + R"(,"karpenter.sh/capacity-type":"spot")";
  EXPECT_EQ((Pod{.placed = spot, .home = pci}.broken()), "compliance ");
  EXPECT_EQ((Pod{.placed = spot, .home = labelled({{"compliance", "hipaa"}})}.broken()), "") << "spot by policy";
  EXPECT_EQ((Pod{.placed = spot}.broken()), "");
}

TEST(Compliance, IsAuditedAndDefaultsMissingFields) {  // S-378
  const auto pci = labelled({{"compliance", "pci-dss"}, {"policy.quartermaster.dev/compliance", "mutate"}});
  Pod refused{.placed = kSliced, .home = pci};
  refused.broken();
  EXPECT_EQ(refused.verdict.audit, (Labels{{"compliance", "pci-dss"}, {"decision", "refused by gpu-sharing"}}));
  Pod fine{.placed = kOnline, .home = pci};
  fine.broken();
  EXPECT_EQ(fine.verdict.audit.at("decision"), "allowed");

  View view;
  view.namespaces["team"] = pci;
  const auto bare =
      parsed(R"({"metadata":{"name":"p"},"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":1}}}]}})");
  const auto mutated = mutate(created(bare), settings(), view);
  EXPECT_EQ(mutated["spec"]["nodeSelector"].dump(), R"({"karpenter.sh/capacity-type":"on-demand"})");
}

TEST(TenancyRules, GpuPodsRequireGpuNamespace) {
  EXPECT_EQ((Pod{.placed = kOnline, .ns = "default"}.broken()), "gpu-namespace ");
  auto with = settings();
  with.facts.namespace_labels = {{"tenant", ""}};
  const auto pod = parsed(R"({"metadata":{},"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":1}}}]}})");
  View view;
  const auto refused = [&] {
    const auto verdict = validate(created(pod), with, view);
    return std::ranges::any_of(verdict.refusals, [](const Finding& f) { return f.rule == "gpu-namespace"; });
  };
  EXPECT_TRUE(refused());
  view.namespaces["team"].labels["tenant"] = "a";
  EXPECT_FALSE(refused());
}

TEST(TenancyRules, PriorityClassesAreLimitedToNamespacesAndTypes) {
  const auto named = [](const char* name, const char* type, const char* ns) {
    return Pod{
        .type = type, .placed = R"("x":"y")", .more = fmt::format(R"(,"priorityClassName":"{}")", name), .ns = ns}
        .broken();
  };
  EXPECT_EQ(named("production-inference", "inference", "production"), "");
  EXPECT_EQ(named("production-inference", "training", "production"), "gpu-priority ");
  EXPECT_EQ(named("production-inference", "inference", "team"), "gpu-priority ");
  EXPECT_EQ(named("batch", "training", "team"), "") << "no finding for others";
  EXPECT_EQ(named("system-cluster-critical", "training", "team"), "gpu-priority ");
  EXPECT_EQ((Pod{.type = "training",
                 .placed = R"("x":"y")",
                 .labels = R"(,"kueue.x-k8s.io/priority-class":"production-inference")",
                 .ns = "production"}
                 .broken()),
            "gpu-priority ");
}

TEST(TenancyRules, PodGetsPriorityClassOfWorkloadType) {
  auto with = settings();
  with.rules = {{"gpu-priority", Mode::kMutate}};
  with.facts.default_priority = {{"training", "low"}};
  const auto made = [&](const char* spec) {
    const auto pod = parsed(fmt::format(R"({{"metadata":{{"labels":{{"workload-type":"training"}}}},"spec":{{{}
        "containers":[{{"resources":{{"limits":{{"nvidia.com/gpu":1}}}}}}]}}}})",
                                        spec));
    const auto out = mutate(created(pod), with, {})["spec"];
    return out["priorityClassName"].string() + " " + out["priority"].dump();
  };
  EXPECT_EQ(made(R"("priority":0,"preemptionPolicy":"PreemptLowerPriority",)"), "low null")
      << "the priority is resolved again with the class";
  EXPECT_EQ(made(R"("priorityClassName":"own","priority":5,)"), "own 5");
}

TEST(RequiredLabels, EachMissingLabelIsNamed) {  // S-021 S-022
  Settings set;
  set.required_labels = {
      {"cost-center", {}}, {"product", {}}, {"environment", {}}, {"workload-type", {"inference", "training", "batch"}}};
  set.rules = {{"gpu-share", Mode::kOff}, {"gpu-toleration", Mode::kOff}, {"gpu-node", Mode::kOff}};
  const auto judged = [&](const Labels& labels) {
    auto pod = parsed(R"({"metadata":{},"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":1}}}]}})");
    for (const auto& [key, value] : labels) pod.set("metadata").set("labels").set(key, value);
    std::string out;
    for (const auto& finding : validate(created(pod), set, {}).refusals) out += finding.message + "; " + finding.remedy;
    return out;
  };
  const Labels all{{"cost-center", "7"}, {"product", "p"}, {"environment", "dev"}, {"workload-type", "training"}};
  EXPECT_EQ(judged(all), "");
  for (const auto& [key, value] : all) {
    auto some = all;
    some.erase(key);
    EXPECT_NE(judged(some).find("lacks the label " + key), std::string::npos) << key;
  }
  auto other = all;
  other["workload-type"] = "serving";
  EXPECT_NE(judged(other).find("one of inference, training, batch"), std::string::npos);
  other = all;
  other["cost-center"] = "${CC_CODE}";
  EXPECT_NE(judged(other).find("cost-center=${CC_CODE} is not allowed"), std::string::npos)
      << "an unexpanded placeholder";
}

TEST(RequiredRequests, GpuPodMustRequestCpuAndMemory) {  // S-009
  const auto with = [](const char* requests) {
    const auto pod = parsed(fmt::format(
        R"({{"containers":[{{"resources":{{"requests":{{{}}},"limits":{{"nvidia.com/gpu":1}}}}}}]}})", requests));
    std::string out;
    for (const auto& f : violations({}, pod, {})) out += f.rule == "gpu-share" ? f.message : "";
    return out;
  };
  EXPECT_EQ(with(R"("cpu":1,"memory":"1Gi")"), "");
  EXPECT_EQ(with(R"("cpu":1)"), "container \"?\" requests GPUs but no memory");
  EXPECT_EQ(with(""), "container \"?\" requests GPUs but neither cpu nor memory");
}

}  // namespace pools_test
}  // namespace qm::admission_policy
