// The workloads of the manifests and the rules for GPU pods, compared with a recorded matrix: most break one rule,
// and most of those are fixed from the defaults of a namespace. The matrix of our own manifests is in their folder;
// the other one is in the reference data.
// S-267 S-269 S-273 S-374 S-382 S-392 S-393
#include "qm/admission_policy/policy.hpp"
#include "qm/admission_policy/policy_file.hpp"
#include "qm/admission_policy/templates.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

namespace qm::admission_policy {
namespace matrix_test {

constexpr const char* kNamespace = "reference";

/// The reference rules in one mode, as in a policy file.
Settings rules(const std::string& mode) {
  Settings out;
  const auto read =
      read_policy("apiVersion: policy.quartermaster.dev/v1alpha1\nkind: WebhookPolicy\nspec:\n  mode: " + mode + R"(
  requiredLabels:
  - key: cost-center
  - key: product
  - key: environment
  - {key: workload-type, values: [inference, training, batch]}
)",
                  "matrix.yaml", out);
  EXPECT_TRUE(read) << read.error().to_string();
  return out;
}

/// A namespace with defaults.
View home() {
  View out;
  auto& defaults = out.namespaces[kNamespace];
  defaults.labels = {{"cost-center", "42"}, {"product", "p"}, {"environment", "prod"}, {"workload-type", "training"}};
  defaults.annotations = {{std::string(kCpuPerGpu), "8"},
                          {std::string(kMemoryPerGpu), "64Gi"},
                          {std::string(kGpuNodes), "nvidia.com/gpu.present=true"}};
  return out;
}

struct Row {
  std::string manifest, workload, resource;
  std::int64_t replicas = 0, gpus = 0, total = 0;
  std::map<std::string, std::string> rules;  ///< pass or fail
  std::string literal, all;                  ///< allow or deny
};
std::vector<Row> table(const qm::testing::Manifests& manifests) {
  std::istringstream text(qm::testing::read_file(
      manifests.dir + manifests.pick("workload-policy.csv", "../tables/seed-workload-policy-matrix.csv")));
  std::string line;
  std::getline(text, line);
  std::vector<Row> out;
  while (std::getline(text, line)) {
    std::vector<std::string> c;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) c.push_back(cell);
    EXPECT_EQ(c.size(), manifests.pick(14U, 15U)) << line;
    if (c.size() < 14) continue;
    out.push_back({c[0],
                   c[2],
                   c[4],
                   std::stol(c[3]),
                   std::stol(c[5]),
                   std::stol(c[6]),
                   {{"gpu-requests", c[7]},
                    {"gpu-share", c[8]},
                    {"gpu-toleration", c[9]},
                    {"gpu-node", c[10]},
                    {"required-labels", c[11]}},
                   c[12],
                   c[13]});
  }
  return out;
}

/// The pod templates of a manifest that use GPUs, by their names in the table.
std::map<std::string, PodTemplate> gpu_pods(const std::string& path) {
  std::map<std::string, PodTemplate> out;
  for (const auto& object : config::load_path(path).objects) {
    for (auto& pod : pod_templates(object.document.content)) {
      if (pod.gpus() == 0) continue;
      const auto& name = object.document.name;
      std::string called =
          pod.part.empty() || object.document.kind == "InferenceService" ? name : name + "/" + pod.part;
      if (object.document.kind.empty()) called = pod.spec["containers"].at(0)["name"].string() + " (fragment)";
      out.emplace(called, std::move(pod));
    }
  }
  return out;
}

/// The GPU resource that a pod requests, the first by name; empty if it requests none.
std::string gpu_resource(const PodTemplate& pod) {
  std::set<std::string> names;
  for (const auto* list : {"initContainers", "containers"}) {
    for (const auto& container : pod.spec[list].items()) {
      for (const auto* side : {"requests", "limits"}) {
        for (const auto& [name, value] : container["resources"][side].members()) {
          if (name.starts_with("nvidia.com/") || name == words::kGpuMilliResource) names.insert(name);
        }
      }
    }
  }
  return names.empty() ? std::string() : *names.begin();
}

/// The webhook's result for a pod: mutated first, then judged.
Verdict admitted(const PodTemplate& pod, const std::string& mode) {
  Json object = Json::object({{"metadata", Json::object({{"name", "pod"}})}, {"spec", pod.spec}});
  for (const auto& [key, value] : pod.labels) object.set("metadata").set("labels").set(key, value);
  const auto settings = rules(mode);
  const auto view = home();
  Subject subject{Operation::kCreate, "Pod", kNamespace, "pod", "alice", &object, nullptr};
  const auto mutated = mutate(subject, settings, view);
  subject.object = &mutated;
  return validate(subject, settings, view);
}

std::string names(const std::vector<Finding>& findings) {
  std::set<std::string> out;
  for (const auto& finding : findings) out.insert(finding.rule);
  return fmt::format("{}", fmt::join(out, " "));
}

class PolicyMatrix : public ::testing::TestWithParam<qm::testing::Manifests> {
 protected:
  void SetUp() override {
    rows_ = table(GetParam());
    ASSERT_EQ(rows_.size(), GetParam().pick(23U, 18U));
    for (const auto& row : rows_) {
      auto pods = gpu_pods(GetParam().dir + row.manifest);
      ASSERT_TRUE(pods.contains(row.workload)) << row.workload << " of " << row.manifest;
      pods_.push_back(std::move(pods.at(row.workload)));
    }
  }
  std::vector<Row> rows_;
  std::vector<PodTemplate> pods_;  ///< of each row
};

TEST_P(PolicyMatrix, HasEveryGpuWorkload) {  // S-374
  std::set<std::string> listed, found;
  for (const auto& row : rows_) listed.insert(row.workload);
  for (const auto& file : std::filesystem::directory_iterator(GetParam().dir)) {
    if (file.path().extension() != ".yaml") continue;
    for (const auto& [name, pod] : gpu_pods(file.path().string())) found.insert(name);
  }
  std::vector<std::string> rest;
  std::ranges::set_difference(found, listed, std::back_inserter(rest));
  EXPECT_EQ(rest, std::vector<std::string>{}) << "workloads of the manifests that are not in the table";
}

TEST_P(PolicyMatrix, CountsGpusOfEachWorkload) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto& row = rows_[i];
    EXPECT_EQ(pods_[i].gpus(), row.gpus) << row.workload;
    EXPECT_EQ(gpu_resource(pods_[i]), row.resource) << row.workload;
    EXPECT_EQ(row.total, row.replicas * row.gpus) << row.workload;
    // The number of tasks of a sweep is only known at run time.
    const bool sweep = row.workload == GetParam().pick("dose-sweep/fit", "hyperparameter-sweep/train");
    EXPECT_EQ(pods_[i].count, sweep ? 1 : row.replicas) << row.workload;
  }
}

TEST_P(PolicyMatrix, ReferenceWorkloadsMatchRecord) {  // S-374
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto& row = rows_[i];
    const auto enforced = admitted(pods_[i], "enforce");
    std::set<std::string> broken;
    for (const auto& finding : enforced.refusals) broken.insert(finding.rule);
    for (const auto& [rule, wanted] : row.rules)
      EXPECT_EQ(broken.contains(rule) ? "fail" : "pass", wanted) << row.workload << " " << rule;
    EXPECT_EQ(enforced.allowed() ? "allow" : "deny", row.all) << row.workload;
    // The first three rules alone, for nvidia.com/gpu only, correspond to the first definition of the webhook.
    const bool meant = gpu_resource(pods_[i]) == words::kGpuResource;
    const bool literal =
        meant && (broken.contains("gpu-requests") || broken.contains("gpu-toleration") || broken.contains("gpu-node"));
    EXPECT_EQ(literal ? "deny" : "allow", row.literal) << row.workload;
  }
}

TEST_P(PolicyMatrix, ThreeModesReportTheSameAndMutateFixes) {  // S-374
  std::string refused_when_mutated;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto enforced = admitted(pods_[i], "enforce"), warned = admitted(pods_[i], "warn"),
               off = admitted(pods_[i], "off");
    EXPECT_TRUE(warned.allowed()) << rows_[i].workload;
    EXPECT_EQ(names(warned.warnings), names(enforced.refusals)) << rows_[i].workload;
    EXPECT_TRUE(off.allowed() && off.warnings.empty()) << rows_[i].workload;
    const auto mutated = admitted(pods_[i], "mutate");
    if (!mutated.allowed()) refused_when_mutated += rows_[i].workload + ": " + names(mutated.refusals) + ";";
  }
  EXPECT_EQ(refused_when_mutated,
            GetParam().pick("assistant: required-labels;consensus-caller: gpu-requests;half-a-gpu: gpu-whole;",
                            "fraud-model-ensemble: gpu-requests;"))
      << "only a user can decide its limit, workload type and GPU sharing";
}

TEST_P(PolicyMatrix, HandlesPodsOfServingAndPipelines) {  // S-382 S-392 S-393
  const auto parts = [](const std::string& manifest) {
    std::string out;
    for (const auto& object : config::load_path(GetParam().dir + manifest).objects) {
      for (const auto& pod : pod_templates(object.document.content)) {
        out += fmt::format("{}{}x{} ", pod.part, pod.count == 1 ? "" : fmt::format(" {}", pod.count), pod.gpus());
      }
    }
    return out;
  };
  using Parts = std::vector<std::pair<std::string, std::string>>;
  const auto expected = GetParam().pick(
      Parts{{"kserve-scoring.yaml", "predictor 3x1 explainerx0 "},  // the explainer needs no GPU
            {"kserve-embedder.yaml", "predictorx2 "},
            {"kserve-ranking.yaml", "predictorx0 "},
            {"tekton-speech-release.yaml", "checkx0 fitx4 "}},
      Parts{{"003-kserve-fraud-detection.yaml", "predictor 2x1 transformerx0 "},  // nor does the transformer
            {"001-kserve-llama2-inference.yaml", "predictorx1 "},
            {"003-kserve-recommendation-canary.yaml", "predictorx0 "},
            {"001-tekton-pipeline-model-cicd.yaml", "train-modelx8 evaluate-modelx0 "}});
  for (const auto& [manifest, pods] : expected) EXPECT_EQ(parts(manifest), pods) << manifest;
  const auto seldon =
      pod_templates(*Json::parse(R"({"kind":"SeldonDeployment","spec":{"predictors":[{"name":"main","replicas":2,
      "componentSpecs":[{"spec":{"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":1}}}]}}]}]}})"));
  ASSERT_EQ(seldon.size(), 1U);
  EXPECT_EQ(seldon[0].part, "main");
  EXPECT_EQ(seldon[0].count, 2);
  EXPECT_EQ(seldon[0].gpus(), 1);
}

TEST_P(PolicyMatrix, KeepsUnknownFields) {  // S-382
  struct Case {
    std::string file, unknown, field, value;
    int target;
  };
  const auto c = GetParam().pick(
      Case{"kserve-scoring.yaml", "accelerator", "driverBranch", "570", 65},
      Case{"003-kserve-fraud-detection.yaml", "gpu", "storageUri", "gs://model-store/fraud-detection", 80});
  const auto loaded = config::load_path(GetParam().dir + c.file);
  ASSERT_EQ(loaded.objects.size(), 1U);
  const auto& service = loaded.objects[0].document.content;
  EXPECT_EQ(service.path("spec.predictor")[c.unknown][c.field].string(), c.value);
  auto pod = Json::object({{"metadata", Json::object({{"name", "p"}})}, {"spec", pod_templates(service)[0].spec}});
  const auto settings = rules("mutate");
  const auto mutated = mutate({Operation::kCreate, "Pod", kNamespace, "p", "alice", &pod, nullptr}, settings, home());
  EXPECT_EQ(mutated["spec"][c.unknown], pod["spec"][c.unknown]);
  EXPECT_EQ(mutated["spec"]["scaleTarget"].integer(), c.target);
  EXPECT_TRUE(
      validate({Operation::kCreate, "Pod", kNamespace, "p", "alice", &mutated, nullptr}, settings, home()).allowed());
}

TEST_P(PolicyMatrix, CountsWholeGang) {  // S-267 S-269 S-273
  const auto whole = [](const std::string& manifest) {
    std::int64_t pods = 0, gpus = 0;
    for (const auto& [name, pod] : gpu_pods(GetParam().dir + manifest)) {
      pods += pod.count;
      gpus += pod.count * pod.gpus();
    }
    return fmt::format("{} GPUs of {} pods", gpus, pods);
  };
  if (GetParam().own) {
    EXPECT_EQ(whole("pytorchjob-variant-caller.yaml"), "24 GPUs of 6 pods");
    EXPECT_EQ(whole("pytorchjob-speech-tuning.yaml"), "6 GPUs of 3 pods");
    EXPECT_EQ(whole("mpijob-fabric-check.yaml"), "12 GPUs of 3 pods") << "and the launcher has none";
    EXPECT_EQ(whole("jobset-ocean.yaml"), "48 GPUs of 6 pods") << "and the coupler has none";
  } else {
    EXPECT_EQ(whole("001-pytorchjob-llama2.yaml"), "64 GPUs of 8 pods");
    EXPECT_EQ(whole("003-pytorchjob-llm-finetuning.yaml"), "32 GPUs of 4 pods");
    EXPECT_EQ(whole("001-mpijob-nccl-test.yaml"), "16 GPUs of 2 pods") << "and the launcher has none";
  }
  const auto tuning =
      gpu_pods(GetParam().dir + GetParam().pick("pytorchjob-speech-tuning.yaml", "003-pytorchjob-llm-finetuning.yaml"));
  const auto& master = tuning.at(GetParam().pick("speech-tuning/Master", "llm-finetuning/Master"));
  EXPECT_EQ(master.spec["containers"].at(0)["imagePullPolicy"].string(), GetParam().pick("IfNotPresent", "Always"));
}

QM_FOR_EACH_MANIFESTS(PolicyMatrix);

TEST(PodTemplates, KindsWithoutPodsHaveNone) {
  EXPECT_TRUE(pod_templates(*Json::parse(R"({"kind":"Service","spec":{"ports":[]}})")).empty());
  const auto cron = pod_templates(*Json::parse(
      R"({"kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}}})"));
  ASSERT_EQ(cron.size(), 1U);
  const auto set =
      pod_templates(*Json::parse(R"({"kind":"JobSet","spec":{"replicatedJobs":[{"name":"w","replicas":3,"template":
      {"spec":{"parallelism":2,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a"}]}}}}}]}})"));
  ASSERT_EQ(set.size(), 1U);
  EXPECT_EQ(set[0].part, "w");
  EXPECT_EQ(set[0].count, 6);
  EXPECT_EQ(set[0].labels.at("a"), "b");
}

TEST(PodTemplates, OfRayAndLeaderWorkerSet) {
  const auto parts = [](const char* object) {
    std::string out;
    for (const auto& pod : pod_templates(*Json::parse(object)))
      out += fmt::format("{} {} {};", pod.part, pod.count, pod.gpus());
    return out;
  };
  EXPECT_EQ(
      parts(
          R"({"apiVersion":"ray.io/v1","kind":"RayCluster","spec":{"headGroupSpec":{"template":{"spec":{"containers":[{"name":"h"}]}}},
      "workerGroupSpecs":[{"groupName":"gpu","replicas":4,"template":{"spec":{"containers":[{"name":"w",
      "resources":{"limits":{"nvidia.com/gpu":8}}}]}}}]}})"),
      "head 1 0;gpu 4 8;");
  EXPECT_EQ(
      parts(R"({"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"rayClusterSpec":{"headGroupSpec":{"template":{"spec":
      {"containers":[{"name":"h","resources":{"limits":{"nvidia.com/gpu":1}}}]}}}}}})"),
      "head 1 1;");
  EXPECT_EQ(parts(R"({"apiVersion":"leaderworkerset.x-k8s.io/v1","kind":"LeaderWorkerSet","spec":{"replicas":2,
      "leaderWorkerTemplate":{"size":3,"leaderTemplate":{"spec":{"containers":[{"name":"l"}]}},"workerTemplate":{"spec":
      {"containers":[{"name":"w","resources":{"limits":{"nvidia.com/gpu":8}}}]}}}}})"),
            "leader 2 0;worker 4 8;");
  EXPECT_EQ(parts(R"({"apiVersion":"example.com/v1","kind":"RayCluster","spec":{"headGroupSpec":{"template":{"spec":
      {"containers":[{"name":"h"}]}}}}})"),
            "")
      << "another kind of the name";
}

}  // namespace matrix_test
}  // namespace qm::admission_policy
