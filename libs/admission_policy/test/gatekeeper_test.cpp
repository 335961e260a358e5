// The rego policy for Gatekeeper agrees with the webhook, on fifty pods and as many again: evaluated by Open Policy
// Agent, where it is installed (tools/peers/opa.sh).
// S-023
#include "qm/admission_policy/policy.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"
#include "subjects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

namespace qm::admission_policy {
namespace gatekeeper_test {

const std::string kFolder = std::string(QM_SOURCE_DIR) + "/deploy/policies/";
const std::set<std::string> kShipped{"gpu-whole", "gpu-requests",    "gpu-share",     "gpu-toleration",
                                     "gpu-node",  "required-labels", "toleration-key"};

std::string opa() {
  const char* named = std::getenv("QM_OPA");
  const std::string path = named != nullptr ? named : std::string(QM_SOURCE_DIR) + "/build/peers/opa/opa";
  return std::filesystem::exists(path) ? path : std::string();
}

struct Shipped {
  std::string rego;
  Json parameters;
};
Shipped shipped() {
  Shipped out;
  for (const auto& object : config::load_path(kFolder + "gpu-pods.yaml").objects) {
    const auto& content = object.document.content;
    if (object.document.kind == "ConstraintTemplate") out.rego = content["spec"]["targets"].at(0)["rego"].string();
    if (object.document.kind == "QuartermasterGpuPods") out.parameters = content["spec"]["parameters"];
  }
  return out;
}
Settings settings_of(const Json& parameters) {
  Settings out;
  for (const auto& label : parameters["requiredLabels"].items()) {
    auto& next = out.required_labels.emplace_back();
    next.key = label["key"].string();
    for (const auto& value : label["values"].items()) next.values.push_back(value.string());
  }
  return out;
}

/// A pod that follows most rules and breaks some.
Json pod_of(std::mt19937& random, int number) {
  const auto one_of = [&](std::vector<const char*> words) { return parsed(words[random() % words.size()]); };
  auto pod =
      parsed(R"({"metadata":{"labels":{"cost-center":"7","product":"p","environment":"dev","workload-type":"training"}},
      "spec":{"containers":[{"name":"side"}]}})");
  pod.set("metadata").set("name", fmt::format("pod-{}", number));
  if (random() % 3 == 0) {
    auto& labels = pod.set("metadata").set("labels");
    if (random() % 2 == 0) labels.erase("product");
    if (random() % 2 == 0) labels.set("workload-type", one_of({"\"serving\"", "\"batch\"", "\"\""}));
    if (random() % 2 == 0) labels.set("cost-center", "${CC_CODE}");
  }
  auto& spec = pod.set("spec");
  const auto tolerations =
      one_of({R"([{"key":"nvidia.com/gpu","operator":"Exists"}])", R"([{"key":"nvidia.com/gpu","value":"present"}])",
              R"([{"key":"nvidia.com/gpu","operator":"Equal","value":"h100"}])", R"([{"operator":"Exists"}])",
              R"([{"key":"","operator":"Exists","effect":"NoSchedule"}])", R"([{"key":"other","operator":"Exists"}])",
              "null"});
  if (!tolerations.is_null()) spec.set("tolerations", tolerations);
  const auto selector =
      one_of({R"({"nvidia.com/gpu.product":"H100"})", R"({"kubernetes.io/os":"linux"})", "null", "{}"});
  if (!selector.is_null()) spec.set("nodeSelector", selector);
  const auto terms = one_of(
      {"null", "null", R"([{"matchExpressions":[{"key":"gpu","operator":"In","values":["a"]}]}])",
       R"([{"matchExpressions":[{"key":"gpu","operator":"Exists"}]},{"matchExpressions":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]}]}])",
       R"([{"matchExpressions":[{"key":"gpu","operator":"DoesNotExist"}]}])", "[]"});
  if (!terms.is_null()) {
    spec.set("affinity")
        .set("nodeAffinity")
        .set("requiredDuringSchedulingIgnoredDuringExecution")
        .set("nodeSelectorTerms", terms);
  }
  const auto resources = [&] {
    return one_of({R"({"requests":{"cpu":"4","memory":"16Gi","nvidia.com/gpu":1},"limits":{"nvidia.com/gpu":"1"}})",
                   R"({"requests":{"cpu":"4","memory":"16Gi","nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"2"}})",
                   R"({"requests":{"cpu":"4","memory":"16Gi","nvidia.com/gpu":"1"}})",
                   R"({"limits":{"nvidia.com/gpu":1}})",
                   R"({"requests":{"cpu":"4"},"limits":{"memory":"1Gi","nvidia.com/mig-1g.10gb":1}})",
                   R"({"requests":{"cpu":"4","memory":"16Gi"},"limits":{"nvidia.com/gpu":"500m"}})",
                   R"({"requests":{"cpu":"4","memory":"16Gi"},"limits":{"nvidia.com/gpu":0.5}})",
                   R"({"requests":{"cpu":"4","memory":"16Gi"},"limits":{"nvidia.com/gpu":0}})",
                   R"({"requests":{"cpu":"4","memory":"16Gi"},"limits":{"quartermaster.dev/gpu-milli":500}})",
                   R"({"requests":{"cpu":"4","memory":"16Gi"}})",
                   R"({"requests":{"cpu":"1","memory":"1Gi","nvidia.com/gpu":"2"},"limits":{"nvidia.com/gpu":"2k"}})"});
  };
  spec.set("containers").push_back(Json::object({{"name", "main"}, {"resources", resources()}}));
  if (random() % 4 == 0)
    spec.set("initContainers", Json::array({Json::object({{"name", "first"}, {"resources", resources()}})}));
  if (random() % 8 == 0) {  // with requirements that are not resolved to a share
    pod.set("metadata").set("annotations", parsed(R"({"quartermaster.dev/gpu-memory":"10Gi"})"));
    spec.set("containers", parsed(R"([{"name":"main"}])")).erase("initContainers");
    spec.set("nodeSelector", parsed(R"({"nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3"})"));
  }
  return pod;
}

std::set<std::string> ours(const Json& pod, const Settings& settings) {
  Labels labels;
  for (const auto& [key, value] : pod["metadata"]["labels"].members()) labels.emplace(key, value.string());
  std::set<std::string> out;
  for (const auto& finding : violations(labels, pod["spec"], settings, pod["metadata"]["annotations"])) {
    if (kShipped.contains(finding.rule)) out.insert(finding.rule);
  }
  return out;
}

TEST(Gatekeeper, AgreesOnEveryPod) {  // S-023
  const auto program = opa();
  if (program.empty()) GTEST_SKIP() << "no opa: tools/peers/opa.sh get builds it";
  const auto given = shipped();
  ASSERT_FALSE(given.rego.empty());
  const testing::TempDir dir;
  std::ofstream(dir.path() + "/policy.rego") << given.rego << R"(
results[i] = rules {
  pod := input.pods[i]
  found := violation with input as {"review": {"object": pod}, "parameters": input.parameters}
  rules := [v.details.rule | v := found[_]]
}
)";
  std::mt19937 random(20260822);
  auto pods = Json::array();
  for (int i = 0; i < 200; ++i) pods.push_back(pod_of(random, i));
  std::ofstream(dir.path() + "/input.json") << Json::object({{"pods", pods}, {"parameters", given.parameters}}).dump();
  const auto command = fmt::format(
      "{} eval --v0-compatible --format json --data {}/policy.rego --input {}/input.json "
      "data.quartermaster.gpupods.results >{}/out.json 2>&1",
      program, dir.path(), dir.path(), dir.path());
  ASSERT_EQ(std::system(command.c_str()), 0) << testing::read_file(dir.path() + "/out.json");
  const auto reported = parsed(testing::read_file(dir.path() + "/out.json"));
  const auto& results = reported["result"].at(0)["expressions"].at(0)["value"];
  ASSERT_EQ(results.size(), pods.size()) << reported.dump().substr(0, 2000);
  const auto settings = settings_of(given.parameters);
  std::size_t refused = 0, differ = 0;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    std::set<std::string> theirs;
    for (const auto& rule : results[std::to_string(i)].items()) theirs.insert(rule.string());
    const auto own = ours(pods.at(i), settings);
    EXPECT_EQ(fmt::format("{}", fmt::join(theirs, " ")), fmt::format("{}", fmt::join(own, " "))) << pods.at(i).dump();
    differ += theirs == own ? 0 : 1;
    refused += own.empty() ? 0 : 1;
    seen.insert(own.begin(), own.end());
    if (differ > 3) break;
  }
  EXPECT_EQ(seen, kShipped) << "every rule is broken by some pod";
  EXPECT_LT(refused, pods.size()) << "and some pods break none";
}

}  // namespace gatekeeper_test
}  // namespace qm::admission_policy
