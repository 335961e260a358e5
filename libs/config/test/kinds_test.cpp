// Each typed kind: the effect of each field, and the error for an invalid value.
#include "qm/config/manifest.hpp"

#include <gtest/gtest.h>

namespace qm::config {
namespace kinds_test {

using namespace std::chrono_literals;

constexpr const char* kQueue = R"(apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: q
spec:
  cohortName: c
  queueingStrategy: StrictFIFO
  stopPolicy: None
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: h100
      resources:
      - name: nvidia.com/gpu
        nominalQuota: 16
        borrowingLimit: 32
        lendingLimit: 8
  preemption:
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
    borrowWithinCohort:
      policy: Never
  fairSharing:
    weight: 1
)";
constexpr const char* kLocal = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata:
  namespace: ns
  name: l
spec:
  clusterQueue: q
  stopPolicy: None
)";
constexpr const char* kCohort = R"(apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata:
  name: c
spec:
  parentName: root
  resourceGroups:
  - coveredResources: ["cpu"]
    flavors:
    - name: f
      resources:
      - name: cpu
        nominalQuota: 5
)";
constexpr const char* kFlavor = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: f
spec:
  nodeLabels:
    gpu: h100
  nodeTaints:
  - key: t
    value: v
    effect: NoSchedule
  tolerations:
  - key: t
    operator: Exists
)";
constexpr const char* kWorkloadPriority = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata:
  name: p
value: 100
)";
constexpr const char* kPriority = R"(apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: p
value: 100
globalDefault: false
)";
constexpr const char* kPool = R"(apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: pool
spec:
  weight: 10
  template:
    metadata:
      labels:
        workload: training
    spec:
      requirements:
      - key: karpenter.sh/capacity-type
        operator: In
        values: ["spot"]
      taints:
      - key: nvidia.com/gpu
        effect: NoSchedule
      nodeClassRef:
        name: gpu
      expireAfter: 720h
  limits:
    nvidia.com/gpu: 64
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 30m
    budgets:
    - nodes: "10%"
)";
constexpr const char* kPrices = R"(apiVersion: quartermaster.dev/v1alpha1
kind: PricePlan
metadata:
  name: list
spec:
  prices:
  - instanceType: p5.48xlarge
    capacityType: spot
    zone: us-east-1a
    usdPerHour: "98.32"
)";
constexpr const char* kCheckpoint = R"(apiVersion: quartermaster.dev/v1alpha1
kind: CheckpointPolicy
metadata:
  name: p
spec:
  selector: team=a
  mode: http
  port: 8480
  expected: 40s
)";

constexpr const char* kBudget = R"(apiVersion: quartermaster.dev/v1alpha1
kind: Budget
metadata:
  name: research
spec:
  clusterQueue: research
  unit: GPUHours
  amount: 1000
  period: Month
  utcOffset: "+02:00"
  carryOverPercent: 20
  policy: Soft
  defaultRun: 2h
)";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The one typed value of a text that must load without diagnostics.
template <class T>
T typed(const std::string& text) {
  const Loaded loaded = load_text(text, "f.yaml");
  for (const Diagnostic& diagnostic : loaded.diagnostics) ADD_FAILURE() << diagnostic.to_string();
  if (loaded.objects.size() != 1 || !std::holds_alternative<T>(loaded.objects[0].typed)) {
    ADD_FAILURE() << "not the kind that was meant";
    return T{};
  }
  return std::get<T>(loaded.objects[0].typed);
}

std::string complaints(const std::string& text) {
  std::string out;
  for (const Diagnostic& diagnostic : load_text(text, "f.yaml").diagnostics) {
    out += (out.empty() ? "" : "\n") + diagnostic.to_string();
  }
  return out;
}

TEST(Kinds, EachFieldOfAClusterQueueHasAnEffect) {
  const auto with = [](std::string_view from, std::string_view to) {
    return typed<ClusterQueue>(replaced(kQueue, from, to));
  };
  const auto queue = typed<ClusterQueue>(kQueue);
  EXPECT_EQ(queue.name, QueueName("q"));
  EXPECT_EQ(queue.fair_weight_milli, 1000);
  EXPECT_EQ(with("name: q", "name: r").name, QueueName("r"));
  EXPECT_EQ(with("cohortName: c", "cohortName: d").cohort, "d");
  EXPECT_EQ(with("StrictFIFO", "BestEffortFIFO").queueing_strategy, "BestEffortFIFO");
  EXPECT_EQ(with("stopPolicy: None", "stopPolicy: Hold").stop_policy, "Hold");
  EXPECT_EQ(with("nominalQuota: 16", "nominalQuota: 17").groups[0].flavors[0].nominal.at("nvidia.com/gpu").units(), 17);
  EXPECT_EQ(with("borrowingLimit: 32", "borrowingLimit: 33")
                .groups[0]
                .flavors[0]
                .borrowing_limit.at("nvidia.com/gpu")
                .units(),
            33);
  EXPECT_TRUE(with("        borrowingLimit: 32\n", "").groups[0].flavors[0].borrowing_limit.empty());
  EXPECT_EQ(with("lendingLimit: 8", "lendingLimit: 0").groups[0].flavors[0].lending_limit.at("nvidia.com/gpu").units(),
            0);
  EXPECT_EQ(with("name: h100", "name: a100").groups[0].flavors[0].flavor, FlavorName("a100"));
  EXPECT_EQ(with("reclaimWithinCohort: Any", "reclaimWithinCohort: LowerPriority").reclaim_within_cohort,
            "LowerPriority");
  EXPECT_EQ(with("withinClusterQueue: LowerPriority", "withinClusterQueue: Never").within_cluster_queue, "Never");
  EXPECT_EQ(with("policy: Never", "policy: LowerPriority").borrow_within_cohort, "LowerPriority");
  EXPECT_EQ(with("weight: 1", "weight: 1.5").fair_weight_milli, 1500);
  EXPECT_EQ(with("weight: 1", "weight: \"250m\"").fair_weight_milli, 250);
  const auto beta1 = replaced(replaced(kQueue, "v1beta2", "v1beta1"), "cohortName", "cohort");
  EXPECT_EQ(typed<ClusterQueue>(beta1).cohort, "c");
}

TEST(Kinds, EachFieldOfTheOtherQueueKindsHasAnEffect) {
  EXPECT_EQ(typed<LocalQueue>(kLocal).ns, Namespace("ns"));
  EXPECT_EQ(typed<LocalQueue>(replaced(kLocal, "  namespace: ns\n", "")).ns, Namespace("default"));
  EXPECT_EQ(typed<LocalQueue>(replaced(kLocal, "clusterQueue: q", "clusterQueue: r")).cluster_queue, QueueName("r"));
  EXPECT_EQ(typed<LocalQueue>(replaced(kLocal, "None", "HoldAndDrain")).stop_policy, "HoldAndDrain");
  EXPECT_EQ(typed<LocalQueue>(replaced(kLocal, "name: l", "name: m")).name, "m");

  EXPECT_EQ(typed<Cohort>(kCohort).parent, "root");
  EXPECT_EQ(typed<Cohort>(replaced(kCohort, "parentName: root", "parentName: top")).parent, "top");
  EXPECT_EQ(typed<Cohort>(replaced(kCohort, "nominalQuota: 5", "nominalQuota: 500m"))
                .groups[0]
                .flavors[0]
                .nominal.at("cpu")
                .milli(),
            500);

  EXPECT_EQ(typed<ResourceFlavor>(kFlavor).node_labels, (Labels{{"gpu", "h100"}}));
  EXPECT_EQ(typed<ResourceFlavor>(replaced(kFlavor, "gpu: h100", "gpu: a100")).node_labels, (Labels{{"gpu", "a100"}}));
  EXPECT_EQ(typed<ResourceFlavor>(replaced(kFlavor, "NoSchedule", "NoExecute")).node_taints,
            (std::vector<Taint>{{"t", "v", "NoExecute"}}));
  EXPECT_EQ(typed<ResourceFlavor>(replaced(kFlavor, "operator: Exists", "value: w")).tolerations,
            (std::vector<Toleration>{{"t", "", "w", ""}}));
  EXPECT_EQ(typed<ResourceFlavor>(replaced(kFlavor, "operator: Exists", "operator: ''\n    effect: ''\n    value: ''"))
                .tolerations,
            (std::vector<Toleration>{{"t", "", "", ""}}))
      << "as if it were not given";

  EXPECT_EQ(typed<PriorityClass>(kWorkloadPriority).value, 100);
  EXPECT_TRUE(typed<PriorityClass>(kWorkloadPriority).workload_only);
  EXPECT_EQ(typed<PriorityClass>(replaced(kWorkloadPriority, "100", "-7")).value, -7);
  EXPECT_FALSE(typed<PriorityClass>(kPriority).workload_only);
  EXPECT_EQ(typed<PriorityClass>(replaced(kPriority, "100", "200")).value, 200);
  EXPECT_TRUE(typed<PriorityClass>(replaced(kPriority, "false", "true")).global_default);
  EXPECT_EQ(typed<PriorityClass>(replaced(kPriority, "100", "2000001000")).value, 2000001000)
      << "as system-node-critical";
}

TEST(Kinds, EachFieldOfANodePoolHasAnEffect) {
  const auto with = [](std::string_view from, std::string_view to) {
    return typed<NodePool>(replaced(kPool, from, to));
  };
  const auto pool = typed<NodePool>(kPool);
  EXPECT_EQ(pool.api_version, "v1");
  EXPECT_EQ(pool.node_class, "gpu");
  EXPECT_EQ(with("weight: 10", "weight: 11").weight, 11);
  EXPECT_EQ(with("workload: training", "workload: serving").labels, (Labels{{"workload", "serving"}}));
  EXPECT_EQ(with("[\"spot\"]", "[\"spot\", \"on-demand\"]").requirements[0].values.size(), 2u);
  EXPECT_EQ(with("operator: In", "operator: NotIn").requirements[0].op, "NotIn");
  EXPECT_EQ(with("key: karpenter.sh/capacity-type", "key: zone").requirements[0].key, "zone");
  EXPECT_EQ(with("effect: NoSchedule", "effect: NoSchedule\n        value: x").taints[0].value, "x");
  EXPECT_EQ(with("name: gpu", "name: other").node_class, "other");
  EXPECT_EQ(pool.scaling_group, "");
  EXPECT_EQ(with("  name: pool", "  name: pool\n  annotations:\n    quartermaster.dev/auto-scaling-group: gpus")
                .scaling_group,
            "gpus");
  EXPECT_EQ(with("720h", "1h30m").expire_after, 90min);
  EXPECT_EQ(with("720h", "Never").expire_after, Duration::max());
  EXPECT_EQ(with("gpu: 64", "gpu: 65").limits.at("nvidia.com/gpu").units(), 65);
  EXPECT_EQ(with("WhenEmpty", "WhenEmptyOrUnderutilized").consolidation_policy, "WhenEmptyOrUnderutilized");
  EXPECT_EQ(with("30m", "Never").consolidate_after, Duration::max());
  EXPECT_EQ(with("\"10%\"", "\"3\"").budgets[0].nodes, "3");
  EXPECT_EQ(with("\"10%\"", "\"0\"\n      schedule: 0 9 * * *\n      duration: 8h").budgets[0].duration, 8h);
  // None listed: Karpenter's default. An empty list: no limit.
  const std::string budgets = "    budgets:\n    - nodes: \"10%\"\n";
  EXPECT_EQ(with(budgets, "").budgets.at(0).nodes, "10%");
  EXPECT_TRUE(with(budgets, "    budgets: []\n").budgets.empty());
  EXPECT_EQ(pool.termination_grace, std::nullopt);
  EXPECT_EQ(with("720h", "720h\n      terminationGracePeriod: 30m").termination_grace, 30min);
  EXPECT_EQ(with("720h", "720h\n      startupTaints:\n      - key: cni\n        effect: NoExecute").startup_taints,
            (std::vector<Taint>{{"cni", "", "NoExecute"}}));
  EXPECT_EQ(with("      labels:\n        workload", "      annotations:\n        a: b\n      labels:\n        workload")
                .annotations,
            (Labels{{"a", "b"}}));

  // The older version: another name of the policy, expiry under disruption.
  std::string beta = replaced(kPool, "karpenter.sh/v1", "karpenter.sh/v1beta1");
  beta = replaced(replaced(beta, "      expireAfter: 720h\n", ""), "WhenEmpty", "WhenUnderutilized");
  beta = replaced(beta, "consolidateAfter: 30m", "expireAfter: 24h");
  EXPECT_EQ(typed<NodePool>(beta).consolidation_policy, "WhenEmptyOrUnderutilized");
  EXPECT_EQ(typed<NodePool>(beta).expire_after, 24h);
}

TEST(Kinds, EachFieldOfOurOwnKindsHasAnEffect) {
  const auto price = [](std::string_view from, std::string_view to) {
    return typed<PricePlan>(replaced(kPrices, from, to)).entries.at(0);
  };
  EXPECT_EQ(price("98.32", "98.33").rate.per_hour.nano(), 98'330'000'000);
  EXPECT_EQ(price("\"98.32\"", "12.5").rate.per_hour.nano(), 12'500'000'000);
  EXPECT_EQ(price("p5.48xlarge", "g5.xlarge").instance_type, "g5.xlarge");
  EXPECT_EQ(price("instanceType: p5.48xlarge\n    ", "").instance_type, "") << "left out is any";
  EXPECT_EQ(price("capacityType: spot", "capacityType: on-demand").capacity_type, "on-demand");
  EXPECT_EQ(price("us-east-1a", "us-east-1b").zone, "us-east-1b");

  const auto policy = typed<CheckpointPolicy>(kCheckpoint);
  EXPECT_EQ(policy.mode, "http");
  EXPECT_TRUE(policy.selector.matches({{"team", "a"}}));
  EXPECT_FALSE(typed<CheckpointPolicy>(replaced(kCheckpoint, "team=a", "team=b")).selector.matches({{"team", "a"}}));
  EXPECT_EQ(typed<CheckpointPolicy>(replaced(kCheckpoint, "8480", "9000")).port, 9000);
  EXPECT_EQ(typed<CheckpointPolicy>(replaced(kCheckpoint, "40s", "2m")).expected, 2min);

  const auto budget = [](std::string_view from, std::string_view to) {
    return typed<Budget>(replaced(kBudget, from, to));
  };
  const auto whole = typed<Budget>(kBudget);
  EXPECT_EQ(whole.cluster_queue, QueueName("research"));
  EXPECT_TRUE(whole.team.empty());
  EXPECT_TRUE(whole.ns.empty());
  EXPECT_EQ(budget("clusterQueue: research", "team: a").team, Team("a"));
  EXPECT_EQ(budget("clusterQueue: research", "namespace: a").ns, Namespace("a"));
  EXPECT_EQ(whole.unit, "GPUHours");
  EXPECT_EQ(budget("GPUHours", "USD").unit, "USD");
  EXPECT_EQ(whole.amount, Money::nano(1'000'000'000'000));
  EXPECT_EQ(budget("1000", "\"0.5\"").amount, Money::nano(500'000'000));
  EXPECT_EQ(budget("Month", "Week").period, "Week");
  EXPECT_EQ(whole.utc_offset, 2h);
  EXPECT_EQ(budget("+02:00", "-05:30").utc_offset, -(5h + 30min));
  EXPECT_EQ(budget("  utcOffset: \"+02:00\"\n", "").utc_offset, 0h);
  EXPECT_EQ(whole.carry_over_percent, 20);
  EXPECT_EQ(budget("  carryOverPercent: 20\n", "").carry_over_percent, 0) << "nothing is carried over unless it is set";
  EXPECT_EQ(whole.policy, "Soft");
  EXPECT_EQ(budget("  policy: Soft\n", "").policy, "Hard");
  EXPECT_EQ(whole.default_run, 2h);
  EXPECT_EQ(budget("  defaultRun: 2h\n", "").default_run, 1h);
}

TEST(Kinds, EverySupportedKindIsListed) {
  EXPECT_EQ(
      typed_kinds(),
      (std::vector<std::string>{
          "batch/v1 Job", "karpenter.k8s.aws/v1 EC2NodeClass", "karpenter.k8s.aws/v1beta1 EC2NodeClass",
          "karpenter.sh/v1 NodePool", "karpenter.sh/v1beta1 NodePool", "kueue.x-k8s.io/v1beta1 ClusterQueue",
          "kueue.x-k8s.io/v1beta1 Cohort", "kueue.x-k8s.io/v1beta1 LocalQueue", "kueue.x-k8s.io/v1beta1 ResourceFlavor",
          "kueue.x-k8s.io/v1beta1 WorkloadPriorityClass", "kueue.x-k8s.io/v1beta2 ClusterQueue",
          "kueue.x-k8s.io/v1beta2 Cohort", "kueue.x-k8s.io/v1beta2 LocalQueue", "kueue.x-k8s.io/v1beta2 ResourceFlavor",
          "kueue.x-k8s.io/v1beta2 WorkloadPriorityClass", "quartermaster.dev/v1alpha1 Budget",
          "quartermaster.dev/v1alpha1 CheckpointPolicy", "quartermaster.dev/v1alpha1 PricePlan",
          "scheduling.k8s.io/v1 PriorityClass"}));
}

struct Wrong {
  const char* text;
  const char* from;
  const char* to;
  const char* complaint;
};

class Complaints : public ::testing::TestWithParam<Wrong> {};

TEST_P(Complaints, NameFileLineFieldAndRemedy) {
  const Wrong& row = GetParam();
  const std::string text = replaced(row.text, row.from, row.to);
  EXPECT_EQ(complaints(text), row.complaint);
  const Loaded loaded = load_text(text, "f.yaml");
  EXPECT_EQ(loaded.objects.empty(), !loaded.ok()) << "a document with an error is not applied, one with a warning is";
}

INSTANTIATE_TEST_SUITE_P(
    Errors, Complaints,
    ::testing::Values(
        Wrong{kQueue, "cohortName: c", "cohortName: ''",
              "f.yaml:6: spec.cohortName: must not be empty; set a value, or remove the field"},
        Wrong{kQueue, "cohortName: c", "cohort: c",
              "f.yaml:6: spec.cohort: does not exist in this version of the API; rename it to cohortName"},
        Wrong{
            kQueue, "StrictFIFO", "Fifo",
            "f.yaml:7: spec.queueingStrategy: \"Fifo\" is not one of the allowed values; use one of StrictFIFO, BestEffortFIFO"},
        Wrong{
            kQueue, "nominalQuota: 16", "nominalQuota: 16GB",
            "f.yaml:15: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: \"16GB\" is not a valid quantity: \"GB\" is not a "
            "valid suffix; write a number with an optional suffix such as 100m, 1.5, 8Gi or 1e3"},
        Wrong{kQueue, "nominalQuota: 16", "nominalQuota: -1",
              "f.yaml:15: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: -1 is negative; use 0 or more"},
        Wrong{
            kQueue, "        nominalQuota: 16\n", "",
            "f.yaml:14: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: is missing; add the field nominalQuota"},
        Wrong{
            kQueue, "lendingLimit: 8", "lendingLimit: 17",
            "f.yaml:17: spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: 17 is more than the nominalQuota 16; lower lendingLimit to the nominalQuota, or raise nominalQuota"},
        Wrong{
            kQueue, "- name: nvidia.com/gpu", "- name: cpu",
            "f.yaml:13: spec.resourceGroups[0].flavors[0].resources: \"cpu\" is not listed in coveredResources of its group; add it to "
            "coveredResources, or remove it here\n"
            "f.yaml:13: spec.resourceGroups[0].flavors[0].resources: \"nvidia.com/gpu\" is listed in coveredResources and has no quota in this flavor; add a nominalQuota for it, which may be 0"},
        Wrong{
            kQueue, "  cohortName: c\n", "",
            "f.yaml:12: spec.resourceGroups[0].flavors[0].resources: has a borrowingLimit, and the ClusterQueue has no cohort; set the cohort of the ClusterQueue, or remove the limit"},
        Wrong{
            kQueue,
            "reclaimWithinCohort: Any\n    withinClusterQueue: LowerPriority\n    borrowWithinCohort:\n      policy: Never",
            "borrowWithinCohort:\n      policy: LowerPriority",
            "f.yaml:19: spec.preemption.borrowWithinCohort: needs reclaimWithinCohort, which is Never; set reclaimWithinCohort to LowerPriority or Any, or remove borrowWithinCohort"},
        Wrong{
            kQueue, "coveredResources: [\"nvidia.com/gpu\"]", "coveredResources: nvidia.com/gpu",
            "f.yaml:10: spec.resourceGroups[0].coveredResources: is text, not a list; write a list: one line that starts with \"- \" for each item"},
        Wrong{
            kQueue, "name: q", "name: Queue_1",
            "f.yaml:4: metadata.name: \"Queue_1\" is not a valid name: character 1 is \"Q\"; use at most 253 lowercase letters, digits, \"-\" and \".\", with a letter or digit at both ends; for example \"queue-1\""},
        Wrong{kQueue, "  name: q\n", "  labels: {}\n", "f.yaml:3: metadata.name: is missing; add the field name"},
        Wrong{kLocal, "  clusterQueue: q\n", "", "f.yaml:6: spec.clusterQueue: is missing; add the field clusterQueue"},
        Wrong{kLocal, "clusterQueue: q", "clusterQueue: 7",
              "f.yaml:7: spec.clusterQueue: is a number, not text; put the value in quotes"},
        Wrong{kLocal, "namespace: ns", "namespace: n",
              "f.yaml:4: metadata.namespace: is a boolean, not text; put the value in quotes"},
        Wrong{kLocal, "v1beta1\nkind: LocalQueue", "v1beta1",
              "f.yaml:1: kind: is missing; add the kind of this kueue.x-k8s.io/v1beta1 object"},
        Wrong{
            kLocal, "v1beta1", "v1alpha1",
            "f.yaml:1: apiVersion: kueue.x-k8s.io/v1alpha1 LocalQueue is not a known version of kueue.x-k8s.io; use kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2"},
        Wrong{kLocal, "kind: LocalQueue", "kind: LocalQueu",
              "f.yaml:2: kind: LocalQueu is not a known kind of kueue.x-k8s.io/v1beta1; did you mean LocalQueue?"},
        Wrong{kLocal, "kueue.x-k8s.io", "kueue.x-k8.io",
              "f.yaml:1: apiVersion: kueue.x-k8.io is not a known API group; did you mean kueue.x-k8s.io/v1beta1?"},
        Wrong{kLocal, "apiVersion: kueue.x-k8s.io/v1beta1\n", "",
              "f.yaml:1: apiVersion: is missing; add apiVersion: kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2"},
        Wrong{
            kLocal, "apiVersion: kueue.x-k8s.io/v1beta1", "apiVersion: v1",
            "f.yaml:1: apiVersion: LocalQueue is not a known kind of v1; LocalQueue is a kind of kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2"},
        Wrong{
            kLocal, "namespace: ns", "namespace: my.ns",
            "f.yaml:4: metadata.namespace: \"my.ns\" is not a valid name: character 3 is \".\"; use at most 63 lowercase letters, digits and \"-\", with a letter or digit at both ends; for example \"my-ns\""},
        Wrong{
            kQueue, "nominalQuota: 16", "nominalQuota: \"9999999999999999999999\"",
            "f.yaml:15: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: 9999999999999999999999 of nvidia.com/gpu is out of range; use at most 9223372036854775"},
        Wrong{kPool, "weight: 10", "weight: 1.5",
              "f.yaml:6: spec.weight: 1.5 has a fraction; write a whole number from 1 to 100"},
        Wrong{kCohort, "parentName: root", "parentName: c",
              "f.yaml:6: spec.parentName: c is its own parent; name another Cohort, or remove the field"},
        Wrong{kFlavor, "gpu: h100", "gpu: true",
              "f.yaml:7: spec.nodeLabels.gpu: is a boolean, not text; put the value in quotes"},
        Wrong{
            kFlavor, "effect: NoSchedule", "effect: Never",
            "f.yaml:11: spec.nodeTaints[0].effect: \"Never\" is not one of the allowed values; use one of NoSchedule, PreferNoSchedule, NoExecute"},
        Wrong{kWorkloadPriority, "value: 100", "value: 3000000000",
              "f.yaml:5: value: 3000000000 is out of range; write a whole number from -2147483648 to 2147483647"},
        Wrong{kWorkloadPriority, "value: 100\n", "", "f.yaml:1: value: is missing; add the field value"},
        Wrong{kPriority, "value: 100", "value: high",
              "f.yaml:5: value: is text, not a whole number; write a whole number from -2147483648 to 2147483647"},
        Wrong{kPriority, "globalDefault: false", "globalDefault: \"false\"",
              "f.yaml:6: globalDefault: is text, not a boolean; write true or false, without quotes"},
        Wrong{kPool, "weight: 10", "weight: 101",
              "f.yaml:6: spec.weight: 101 is out of range; write a whole number from 1 to 100"},
        Wrong{
            kPool, "        values: [\"spot\"]\n", "",
            "f.yaml:13: spec.template.spec.requirements[0].values: operator In needs values; list the values that may be chosen"},
        Wrong{
            kPool, "operator: In", "operator: Exists",
            "f.yaml:15: spec.template.spec.requirements[0].values: operator Exists does not allow values; remove them, or use In"},
        Wrong{
            kPool, "operator: In", "operator: Gt",
            "f.yaml:15: spec.template.spec.requirements[0].values: operator Gt needs one whole number; write it as in values: "
            "[\"4\"]"},
        Wrong{
            kPool, "WhenEmpty", "WhenUnderutilized",
            "f.yaml:25: spec.disruption.consolidationPolicy: \"WhenUnderutilized\" is not one of the allowed values; use one of WhenEmpty, "
            "WhenEmptyOrUnderutilized, Balanced"},
        Wrong{
            kPool, "30m", "30 minutes",
            "f.yaml:26: spec.disruption.consolidateAfter: \"30 minutes\" is not a duration: its unit is not one of ns, us, ms, s, m, "
            "h; write a duration such as 30m or 720h, or Never"},
        Wrong{
            kPool, "\"10%\"", "\"110%\"",
            "f.yaml:28: spec.disruption.budgets[0].nodes: \"110%\" is not a valid number of nodes; write a number such as \"2\", or a "
            "share such as \"10%\""},
        Wrong{kPool, "\"10%\"", "\"1\"\n      schedule: 0 9 * * *",
              "f.yaml:28: spec.disruption.budgets[0]: schedule and duration need each other; set both, or neither"},
        Wrong{
            kPrices, "\"98.32\"", "ninety",
            "f.yaml:10: spec.prices[0].usdPerHour: \"ninety\" is not a valid amount in dollars: it has other characters than digits; "
            "write a decimal number such as 98.32, with at most nine digits behind the point"},
        Wrong{kPrices, "\"98.32\"", "-1", "f.yaml:10: spec.prices[0].usdPerHour: -1.00 is negative; use 0 or more"},
        Wrong{kPrices, "    usdPerHour: \"98.32\"\n", "",
              "f.yaml:7: spec.prices[0].usdPerHour: is missing; add the field usdPerHour"},
        Wrong{
            kPrices, "PricePlan", "PriceList",
            "f.yaml:2: kind: PriceList is not a known kind of quartermaster.dev/v1alpha1; use one of PricePlan, CheckpointPolicy, Budget"},
        Wrong{
            kCheckpoint, "team=a", "team in a",
            "f.yaml:6: spec.selector: label selector \"team in a\": expected \"(\" before the values at position 9; write it as "
            "in a=b,c!=d,e in (f,g),h,!i"},
        Wrong{kCheckpoint, "8480", "0", "f.yaml:8: spec.port: 0 is out of range; write a whole number from 1 to 65535"},
        Wrong{kBudget, "  clusterQueue: research\n", "",
              "f.yaml:5: spec: has no scope; set one of clusterQueue, team and namespace"},
        Wrong{kBudget, "  unit:", "  team: a\n  unit:",
              "f.yaml:5: spec: has more than one scope; set one of clusterQueue, team and namespace"},
        Wrong{kBudget, "GPUHours", "GPUh",
              "f.yaml:7: spec.unit: \"GPUh\" is not one of the allowed values; use one of GPUHours, USD"},
        Wrong{kBudget, "1000", "100000001",
              "f.yaml:8: spec.amount: 100000001 is more than can be counted; give at most 100000000"},
        Wrong{kBudget, "1000", "-1", "f.yaml:8: spec.amount: -1.00 is negative; use 0 or more"},
        Wrong{kBudget, "Month", "Quarter",
              "f.yaml:9: spec.period: \"Quarter\" is not one of the allowed values; use one of Year, Month, Week, Day"},
        Wrong{
            kBudget, "+02:00", "CET",
            "f.yaml:10: spec.utcOffset: \"CET\" is not a valid offset from UTC; write it as +02:00 or -05:30, at most 14 hours"},
        Wrong{kBudget, "20", "101",
              "f.yaml:11: spec.carryOverPercent: 101 is out of range; write a whole number from 0 to 100"},
        Wrong{kBudget, "2h", "0s",
              "f.yaml:13: spec.defaultRun: is out of range; give more than zero, and at most a year"}));

INSTANTIATE_TEST_SUITE_P(
    Warnings, Complaints,
    ::testing::Values(
        Wrong{kQueue, "stopPolicy: None", "stopPolic: Hold",
              "f.yaml:8: warning: spec.stopPolic: unknown field, it has no effect; did you mean "
              "stopPolicy?"},
        Wrong{kQueue, "stopPolicy: None", "color: red",
              "f.yaml:8: warning: spec.color: unknown field, it has no effect; remove it"},
        Wrong{kWorkloadPriority, "value: 100", "spec:\n  value: 100",
              "f.yaml:5: warning: spec: is not a field of WorkloadPriorityClass; its value is used; move value and "
              "description to the top level, where an API server expects them"},
        Wrong{
            kPool, "      nodeClassRef:\n        name: gpu\n", "",
            "f.yaml:11: warning: spec.template.spec.nodeClassRef: is missing; the class \"default\" is used; name the node "
            "class, as an API server demands"},
        Wrong{
            kLocal, "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\n", "",
            "f.yaml:1: warning: has neither apiVersion nor kind, it has no effect; add both if it is meant as an object"}));

TEST(Kinds, WhatIsNotTakenIsNamed) {
  const Loaded loaded = load_text(replaced(replaced(kQueue, "stopPolicy: None", "namespaceSelector: {}"), "  name: q",
                                           "  name: q\n  labels: {a: b}"),
                                  "f.yaml");
  ASSERT_EQ(loaded.objects.size(), 1u);
  EXPECT_EQ(loaded.objects[0].document.carried,
            (std::vector<std::string>{"metadata.labels", "spec.namespaceSelector"}));
  EXPECT_TRUE(loaded.diagnostics.empty());
}

TEST(Kinds, OneBadDocumentDoesNotHideTheOthers) {
  const std::string text =
      std::string(kLocal) + "---\n" + replaced(kPriority, "value: 100", "value: x") + "---\n" + kFlavor;
  const Loaded loaded = load_text(text, "f.yaml");
  EXPECT_FALSE(loaded.ok());
  ASSERT_EQ(loaded.objects.size(), 2u);
  EXPECT_EQ(loaded.objects[0].document.kind, "LocalQueue");
  EXPECT_EQ(loaded.objects[1].document.kind, "ResourceFlavor");
}

TEST(Kinds, AnObjectGivenTwiceIsAWarning) {
  EXPECT_EQ(
      complaints(std::string(kLocal) + "---\n" + kLocal),
      "f.yaml:10: warning: metadata.name: LocalQueue l is also given in f.yaml:1; keep one of them; the later one counts");
}

TEST(ParseDuration, AsGo) {
  const std::vector<std::pair<const char*, Duration>> rows{{"0", 0us},
                                                           {"1us", 1us},
                                                           {"1500ns", 1us},
                                                           {"30s", 30s},
                                                           {"1.5s", 1500ms},
                                                           {"1h30m", 90min},
                                                           {"720h", 720h},
                                                           {"-5m", -5min},
                                                           {"+5m", 5min},
                                                           {".5h", 30min},
                                                           {"1h0m0.000001s", 1h + 1us},
                                                           {"3µs", 3us}};
  for (const auto& [text, expected] : rows) {
    const auto parsed = parse_duration(text);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(*parsed, expected) << text;
  }
  for (const char* bad :
       {"", "-", "5", "h", "5 m", "1d", "1h-5m", "1..5s", "Never", "9999999999h", "1234567890123456789h"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

}  // namespace kinds_test
}  // namespace qm::config
