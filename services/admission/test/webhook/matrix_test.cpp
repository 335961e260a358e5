// The reference workloads against the reference rules, as the recorded matrix has it: all but none break them, and all but
// one are mended from what a namespace may supply.
// S-374
#include "qm/admission/webhook/policy.hpp"
#include "qm/admission/webhook/templates.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace qm::admission::webhook {
namespace {

Settings rules() {
  Settings out;
  out.required_labels = {
      {"cost-center", {}}, {"product", {}}, {"environment", {}}, {"workload-type", {"inference", "training", "batch"}}};
  return out;
}

/// The row's pod: its workload is named "object/part", or "object" where it makes one that uses GPUs.
std::optional<PodTemplate> find(const std::string& manifest, const std::string& workload) {
  for (const auto& object : config::load_text(manifest, "manifest").objects) {
    for (auto& pod : pod_templates(object.document.content)) {
      const auto& name = object.document.name;
      const bool fragment = object.document.kind.empty();
      const bool gpus = std::ranges::any_of(violations({}, pod.spec, rules()), [](const Finding& f) {
        return f.rule == "required-labels";  // asked of those that use GPUs
      });
      if (gpus && (fragment || workload == name || workload == name + "/" + pod.part)) return std::move(pod);
    }
  }
  return std::nullopt;
}

TEST(PolicyMatrix, TheReferenceWorkloadsFareAsRecorded) {  // S-374
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  std::istringstream table(qm::testing::read_file(*shared + "/tables/seed-workload-policy-matrix.csv"));
  std::string line;
  std::getline(table, line);
  View::Namespace defaults;
  defaults.labels = {{"cost-center", "42"}, {"product", "p"}, {"environment", "prod"}, {"workload-type", "training"}};
  defaults.annotations = {{std::string(kCpuPerGpu), "8"},
                          {std::string(kMemoryPerGpu), "64Gi"},
                          {std::string(kGpuNodes), "nvidia.com/gpu.present=true"}};
  int rows = 0;
  std::string refused_when_mended;
  while (std::getline(table, line)) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    ASSERT_EQ(cells.size(), 15U) << line;
    const auto pod = find(qm::testing::read_file(*shared + "/manifests/" + cells[0]), cells[2]);
    ASSERT_TRUE(pod) << cells[2];
    ++rows;
    const auto found = violations(pod->labels, pod->spec, rules());
    const auto column = [&](const char* rule) {
      return std::ranges::any_of(found, [&](const Finding& f) { return f.rule == rule; }) ? "fail" : "pass";
    };
    EXPECT_EQ(column("gpu-requests"), cells[7]) << cells[2];
    EXPECT_EQ(column("gpu-share"), cells[8]) << cells[2];
    EXPECT_EQ(column("gpu-toleration"), cells[9]) << cells[2];
    EXPECT_EQ(column("gpu-node"), cells[10]) << cells[2];
    EXPECT_EQ(column("required-labels"), cells[11]) << cells[2];
    EXPECT_EQ(found.empty() ? "allow" : "deny", cells[13]) << cells[2];

    Json whole = Json::object({{"spec", pod->spec}});
    for (const auto& [key, value] : pod->labels) whole.set("metadata").set("labels").set(key, value);
    supply(whole, {}, defaults, rules());
    Labels mended;
    for (const auto& [key, value] : whole["metadata"]["labels"].members()) mended.emplace(key, value.string());
    for (const auto& f : violations(mended, whole["spec"], rules()))
      refused_when_mended += cells[2] + ": " + f.rule + ";";
  }
  EXPECT_EQ(rows, 18);
  EXPECT_EQ(refused_when_mended, "fraud-model-ensemble: gpu-requests;") << "only a person can say what its limit is";
}

TEST(PodTemplates, OfKindsWithoutPodsAreNone) {
  EXPECT_TRUE(pod_templates(*Json::parse(R"({"kind":"Service","spec":{"ports":[]}})")).empty());
  const auto cron = pod_templates(*Json::parse(
      R"({"kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}}})"));
  ASSERT_EQ(cron.size(), 1U);
  const auto set = pod_templates(*Json::parse(R"({"kind":"JobSet","spec":{"replicatedJobs":[{"name":"w","template":
      {"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a"}]}}}}}]}})"));
  ASSERT_EQ(set.size(), 1U);
  EXPECT_EQ(set[0].part, "w");
  EXPECT_EQ(set[0].labels.at("a"), "b");
}

}  // namespace
}  // namespace qm::admission::webhook
