// "admit": the webhook's verdict before anything is sent, compared with the recorded verdicts on the reference
// workloads.
#include "qm/base/json.hpp"
#include "qm/cli/run.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace qm::cli {
namespace admit_test {

struct Ran {
  int code = 0;
  std::string out, err;
};
/// Without a suite: the verb calls no service.
Ran admit(std::vector<std::string> args, const std::string& in = {}) {
  args.insert(args.begin(), {"--endpoints", "/nowhere/endpoints.json", "admit"});
  std::istringstream input(in);
  std::ostringstream out, err;
  const int code = run(args, {input, out, err}, {});
  return {code, out.str(), err.str()};
}

constexpr const char* kPod = R"(apiVersion: v1
kind: Pod
metadata: {name: train, namespace: vision}
spec:
  containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: "1"}}}]
)";
constexpr const char* kGoodPod = R"(apiVersion: v1
kind: Pod
metadata: {name: train, namespace: vision, labels: {team: x}}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  nodeSelector: {nvidia.com/gpu.present: "true"}
  containers:
  - {name: main, image: i, resources: {requests: {cpu: "1", memory: 1Gi}, limits: {nvidia.com/gpu: "1"}}}
)";

TEST(Admit, PrintsWhatAPodLacksAndFails) {
  const auto ran = admit({"-f", "-"}, kPod);
  EXPECT_EQ(ran.code, kFailed);
  EXPECT_NE(ran.out.find("stdin:1: Pod vision/train is refused"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("(gpu-toleration)"), std::string::npos) << ran.out;
  EXPECT_NE(ran.err.find("1 of 1 pods would be refused"), std::string::npos) << ran.err;
}

TEST(Admit, PassesWhatTheRulesLetThrough) {
  const auto ran = admit({"-f", "-", "--set", "webhook-labels=team"}, kGoodPod);
  EXPECT_EQ(ran.code, kDone) << ran.out << ran.err;
  EXPECT_EQ(ran.out, "stdin:1: Pod vision/train is allowed\n");
  const auto other = admit({"-f", "-", "--set", "webhook-labels=team=a|b"}, kGoodPod);
  EXPECT_EQ(other.code, kFailed) << "the label has to be one of two";
}

TEST(Admit, ANamespaceAmongTheFilesSetsItsMode) {
  const std::string ns =
      "apiVersion: v1\nkind: Namespace\nmetadata: {name: vision, labels: {policy.quartermaster.dev/mode: warn}}\n---\n";
  const auto ran = admit({"-f", "-"}, ns + kPod);
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_NE(ran.out.find("  warning: "), std::string::npos) << ran.out;
}

TEST(Admit, ANamespaceThatCountsEveryGpuRefusesUnmanagedPods) {
  const std::string ns =
      "apiVersion: v1\nkind: Namespace\nmetadata: {name: vision, labels: {quartermaster.dev/webhook: required}}\n---\n";
  EXPECT_EQ(admit({"-f", "-"}, ns + kGoodPod).code, kDone) << "it would be gated";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string pod = kGoodPod;
    pod.replace(pod.find(from), from.size(), to);
    return admit({"-f", "-"}, ns + pod).out;
  };
  const auto on_node = changed("spec:\n", "spec:\n  nodeName: n1\n");
  EXPECT_NE(on_node.find("Pod vision/train requests 1 GPU and sets spec.nodeName to n1"), std::string::npos) << on_node;
  const auto forged = changed("labels: {team: x}", "annotations: {quartermaster.dev/devices: '0'}");
  EXPECT_NE(forged.find("annotation quartermaster.dev/devices of Pod vision/train is written by Quartermaster alone"),
            std::string::npos)
      << forged;
  const auto everywhere = admit({"-f", "-"}, ns + R"(apiVersion: apps/v1
kind: DaemonSet
metadata: {name: warm, namespace: vision}
spec:
  template:
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      nodeSelector: {nvidia.com/gpu.present: "true"}
      containers:
      - {name: main, image: i, resources: {requests: {cpu: "1", memory: 1Gi}, limits: {nvidia.com/gpu: "1"}}}
)");
  EXPECT_NE(everywhere.out.find("runs on every node and is not queued"), std::string::npos) << everywhere.out;
}

TEST(Admit, PrintsEachPartOfARayCluster) {
  const auto ran = admit({"-f", "-"}, R"(apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray, namespace: vision}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: head, image: i}]}}}
  workerGroupSpecs:
  - groupName: gpu
    template: {spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: "1"}}}]}}
)");
  EXPECT_EQ(ran.code, kFailed);
  EXPECT_NE(ran.out.find("RayCluster vision/ray head is allowed"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("RayCluster vision/ray gpu is refused"), std::string::npos) << ran.out;
}

TEST(Admit, WhatCannotBeReadNamesItsPlace) {
  EXPECT_NE(admit({"-f", "-"}, "kind: Pod\nspec: [").err.find("stdin:"), std::string::npos);
  const auto setting = admit({"-f", "-", "--set", "webhook-policy=strict"}, kPod);
  EXPECT_NE(setting.code, kDone);
  EXPECT_NE(setting.err.find("use enforce, warn, mutate or off"), std::string::npos) << setting.err;
  EXPECT_EQ(admit({"-f", "-", "--set", "quota=none"}, kPod).code, kUsage);
}

/// The verdicts on one manifest: by "name" and by "name/part".
std::multimap<std::string, Json> verdicts(const std::string& file, const std::string& namespaces,
                                          const std::string& mode) {
  const auto ran = admit({"-f", file, "-f", namespaces, "-o", "json", "--set", "webhook-policy=" + mode, "--set",
                          "webhook-labels=cost-center,product,environment,workload-type=inference|training|batch"});
  const auto list = Json::parse(ran.out);
  EXPECT_TRUE(list) << ran.out << ran.err;
  std::multimap<std::string, Json> out;
  if (!list) return out;
  for (const auto& each : list->items()) {
    const auto& object = each["object"].string();
    const std::string name = object.starts_with("pod template") ? "(fragment)" : object.substr(object.rfind('/') + 1);
    out.emplace(name, each);
    if (!each["part"].string().empty()) out.emplace(name + "/" + each["part"].string(), each);
  }
  return out;
}

TEST(Admit, TheReferenceWorkloadsFareAsRecorded) {  // S-374
  const testing::TempDir dir;
  const std::string namespaces = dir.path() + "/namespaces.yaml";
  // The defaults of each namespace that the manifests name.
  std::ofstream file(namespaces);
  for (const char* ns : {"default", "ml-training", "ml-serving", "ml-production", "production", "training", "team-a",
                         "team-b", "team-research", "ml-workflows", "ml-cicd", "ml-research", "genomics-lab", "speech",
                         "imaging", "edge-serving", "platform"}) {
    file << "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " << ns
         << "\n  labels: {cost-center: \"42\", product: p, environment: prod, workload-type: training}\n"
            "  annotations:\n"
            "    quartermaster.dev/cpu-per-gpu: \"8\"\n"
            "    quartermaster.dev/memory-per-gpu: 64Gi\n"
            "    quartermaster.dev/gpu-nodes: nvidia.com/gpu.present=true\n---\n";
  }
  file.close();
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    std::istringstream table(testing::read_file(
        manifests.dir + manifests.pick("workload-policy.csv", "../tables/seed-workload-policy-matrix.csv")));
    std::string line, refused_when_fixed;
    std::getline(table, line);
    int rows = 0;
    while (std::getline(table, line)) {
      std::vector<std::string> cells;
      std::istringstream row(line);
      for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
      ASSERT_EQ(cells.size(), manifests.pick(14U, 15U)) << line;
      const bool fragment = cells[1] == "(fragment)";
      const std::string workload = fragment ? "(fragment)" : cells[2], manifest = manifests.dir + cells[0];
      const auto refusals = [&](const std::string& mode) {
        const auto all = verdicts(manifest, namespaces, mode);
        const auto [begin, end] = all.equal_range(workload);
        EXPECT_NE(begin, end) << workload << " of " << cells[0];
        std::set<std::string> rules;
        for (auto it = begin; it != end; ++it) {
          for (const auto& finding : it->second["refusals"].items()) rules.insert(finding["rule"].string());
        }
        return rules;
      };
      const auto enforced = refusals("enforce");
      const auto column = [&](const char* rule) { return enforced.contains(rule) ? "fail" : "pass"; };
      ++rows;
      EXPECT_EQ(column("gpu-requests"), cells[7]) << workload;
      EXPECT_EQ(column("gpu-share"), cells[8]) << workload;
      EXPECT_EQ(column("gpu-toleration"), cells[9]) << workload;
      EXPECT_EQ(column("gpu-node"), cells[10]) << workload;
      EXPECT_EQ(column("required-labels"), cells[11]) << workload;
      EXPECT_EQ(enforced.empty() ? "allow" : "deny", cells[13]) << workload;
      for (const auto& rule : refusals("mutate")) refused_when_fixed += workload + ": " + rule + ";";
    }
    EXPECT_EQ(rows, manifests.pick(23, 18));
    EXPECT_EQ(refused_when_fixed,
              manifests.pick("assistant: required-labels;consensus-caller: gpu-requests;half-a-gpu: gpu-whole;",
                             "fraud-model-ensemble: gpu-requests;"))
        << "only its author knows what its limit is, what kind of work it does, and how it may share a GPU";
  }
}

}  // namespace admit_test
}  // namespace qm::cli
