// The rules for pods, one case in each row: the parts of the pod, and the rules that it breaks.
// S-370 S-371 S-372 S-373 S-375
#include "subjects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace rules_test {

/// A pod that breaks no rule, except by the parts that a row replaces.
struct Parts {
  std::string resources = R"({"requests":{"nvidia.com/gpu":1,"cpu":4,"memory":"16Gi"},"limits":{"nvidia.com/gpu":1}})";
  std::string tolerations = R"([{"key":"nvidia.com/gpu","operator":"Exists"}])";
  std::string placed = R"("nodeSelector":{"nvidia.com/gpu.product":"H100"})";
  std::string init = "[]";
  std::string labels = R"({"team":"research"})";
};
Json pod_of(const Parts& p) {
  return parsed(fmt::format(R"({{"metadata":{{"labels":{}}},"spec":{{"initContainers":{},"tolerations":{},{}{}
      "containers":[{{"name":"side"}},{{"name":"train","resources":{}}}]}}}})",
                            p.labels, p.init, p.tolerations, p.placed, p.placed.empty() ? "" : ",", p.resources));
}

Settings settings() {
  Settings out;
  out.required_labels = {{"team", {}}};
  return out;
}

std::string broken(const Parts& parts) {
  const auto pod = pod_of(parts);
  Labels labels;
  for (const auto& [key, value] : pod["metadata"]["labels"].members()) labels[key] = value.string();
  std::string out;
  for (const auto& finding : violations(labels, pod["spec"], settings())) out += finding.rule + " ";
  return out;
}

TEST(PodRules, AcceptsValidPod) {
  EXPECT_EQ(broken({}), "");
  EXPECT_EQ(broken({.resources = R"({"limits":{"cpu":1}})", .tolerations = "[]", .placed = "", .labels = "{}"}), "")
      << "pods without GPUs are not checked";
}

TEST(PodRules, GpuRequestsEqualLimits) {  // S-370
  const auto with = [](const char* gpu) {
    return broken({.resources = fmt::format(R"({{"requests":{{"cpu":1,"memory":1,{}}})", gpu)});
  };
  EXPECT_EQ(with(R"("nvidia.com/gpu":1},"limits":{"nvidia.com/gpu":2})"), "gpu-requests ");
  EXPECT_EQ(with(R"("nvidia.com/gpu":1},"limits":{"nvidia.com/gpu":"1"})"), "");
  EXPECT_EQ(with(R"("nvidia.com/gpu":1},"limits":{})"), "gpu-requests ") << "a request without a limit";
  EXPECT_EQ(with(R"("a":1},"limits":{"nvidia.com/gpu":2})"), "") << "an absent request is the limit";
  EXPECT_EQ(with(R"("nvidia.com/mig-1g.10gb":1},"limits":{"nvidia.com/mig-1g.10gb":2})"), "gpu-requests ");
}

TEST(PodRules, RefusesFractionalGpus) {  // S-375
  const auto limit = [](const char* amount) {
    return broken({.resources = fmt::format(R"({{"requests":{{"cpu":1,"memory":1}},"limits":{{"nvidia.com/gpu":{}}}}})",
                                            amount)});
  };
  EXPECT_EQ(limit("0.5"), "gpu-whole ");
  EXPECT_EQ(limit(R"("0.5")"), "gpu-whole ");
  EXPECT_EQ(limit(R"("500m")"), "gpu-whole ");
  EXPECT_EQ(limit(R"("half")").substr(0, 10), "gpu-whole ");
  EXPECT_EQ(limit(R"("2")"), "");
  EXPECT_EQ(limit(R"("1e0")"), "");
}

TEST(PodRules, GpuPodsMustTolerateTaint) {  // S-371
  const auto with = [](const char* list) { return broken({.tolerations = list}); };
  EXPECT_EQ(with("[]"), "gpu-toleration ");
  EXPECT_EQ(with(R"([{"key":"gpu-online","operator":"Exists"}])"), "gpu-toleration ");
  EXPECT_EQ(with(R"([{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}])"), "");
  EXPECT_EQ(with(R"([{"key":"nvidia.com/gpu","operator":"Equal","value":"present"}])"), "");
  EXPECT_EQ(with(R"([{"key":"nvidia.com/gpu","value":"true"}])"), "");
  EXPECT_EQ(with(R"([{"key":"nvidia.com/gpu","operator":"Equal","value":"h100"}])"), "gpu-toleration ");
  EXPECT_EQ(with(R"([{"operator":"Exists"}])"), "toleration-key ") << "tolerates all taints, also of unhealthy nodes";
  EXPECT_EQ(broken({.resources = R"({"requests":{"cpu":1,"memory":1},"limits":{"nvidia.com/mig-1g.10gb":1}})",
                    .tolerations = "[]"}),
            "gpu-toleration ")
      << "a MIG instance is a GPU too";
}

TEST(PodRules, GpuPodsMustSelectNodes) {  // S-372
  const auto with = [](const char* placed) { return broken({.placed = placed}); };
  const auto affinity = [&](const char* terms) {
    return with(fmt::format(R"("affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":
        {{"nodeSelectorTerms":{}}}}}}})",
                            terms)
                    .c_str());
  };
  EXPECT_EQ(with(""), "gpu-node ");
  EXPECT_EQ(with(R"("nodeSelector":{"node-type":"gpu-inference"})"), "");
  EXPECT_EQ(with(R"("nodeSelector":{"kubernetes.io/os":"linux"})"), "gpu-node ") << "every node has it";
  EXPECT_EQ(affinity(R"([{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["H100"]}]}])"),
            "");
  EXPECT_EQ(affinity(R"([{"matchExpressions":[{"key":"nvidia.com/gpu.present","operator":"Exists"}]},
                         {"matchExpressions":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]}]}])"),
            "gpu-node ")
      << "the second term may match";
  EXPECT_EQ(affinity(R"([{"matchExpressions":[{"key":"gpu","operator":"DoesNotExist"}]}])"), "gpu-node ");
  EXPECT_EQ(with(R"("affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[]}})"), "gpu-node ");
}

TEST(PodRules, CheckEveryContainer) {  // S-373
  const auto pod =
      pod_of({.resources = R"({"requests":{"nvidia.com/gpu":1,"cpu":1,"memory":1},"limits":{"nvidia.com/gpu":2}})",
              .init = R"([{"name":"fetch"},{"name":"warm","resources":{"limits":{"nvidia.com/gpu":"0.5"}}}])"});
  const auto found = violations({{"team", "x"}}, pod["spec"], settings());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].message,
            R"(init container "warm" requests 0.5 of nvidia.com/gpu, and GPUs are counted in whole numbers)");
  EXPECT_EQ(found[0].field, "initContainers[1].resources.limits");
  EXPECT_EQ(found[1].message, R"(container "train" requests 1 of nvidia.com/gpu and has the limit 2)");
  EXPECT_EQ(found[1].field, "containers[1].resources.requests");
  EXPECT_EQ(found[2].message, R"(init container "warm" requests GPUs but neither cpu nor memory)");
}

TEST(PodRules, RequireLabelsWithTheirValues) {
  Settings set;
  set.required_labels = {{"cost-center", {}}, {"workload-type", {"inference", "training"}}};
  const auto pod = pod_of({});
  const auto found = violations({{"workload-type", "gaming"}}, pod["spec"], set);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].to_string(), "the pod lacks the label cost-center (required-labels): set cost-center");
  EXPECT_EQ(
      found[1].to_string(),
      "the pod's label workload-type=gaming is not allowed (required-labels): set workload-type: one of inference, "
      "training");
  EXPECT_TRUE(violations({{"cost-center", "7"}, {"workload-type", "training"}}, pod["spec"], set).empty());
}

}  // namespace rules_test
}  // namespace qm::admission_policy
