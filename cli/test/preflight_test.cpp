// The results of preflight for clusters that each have one fault.
#include "qm/cli/run.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"
#include "src/preflight/checks.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace qm::cli {
namespace preflight_test {

Json node(const std::string& name, const Json& labels, const char* gpus = "8") {
  return Json::object({{"metadata", Json::object({{"name", name}, {"labels", labels}})},
                       {"status", Json::object({{"capacity", Json::object({{"nvidia.com/gpu", gpus}})},
                                                {"allocatable", Json::object({{"nvidia.com/gpu", gpus}})}})}});
}
Json h100(int driver) {
  return Json::object(
      {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}, {"nvidia.com/cuda.driver.major", std::to_string(driver)}});
}
Json daemon_set(const std::string& name, int ready = 2) {
  return Json::object({{"metadata", Json::object({{"name", name}, {"namespace", "gpu-operator"}})},
                       {"status", Json::object({{"desiredNumberScheduled", 2}, {"numberReady", ready}})}});
}

/// A cluster after an install of the GPU Operator.
Cluster fit() {
  Cluster out;
  out.nodes = {node("a", h100(580)), node("b", h100(580))};
  for (const char* name :
       {"nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset", "nvidia-device-plugin-daemonset",
        "gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-mig-manager"})
    out.daemon_sets.push_back(daemon_set(name));
  return out;
}
void drop(Cluster& cluster, const std::string& part) {
  std::erase_if(cluster.daemon_sets,
                [&](const Json& set) { return set["metadata"]["name"].string().find(part) != std::string::npos; });
}

const Checked* find(const std::vector<Checked>& checks, const std::string& id) {
  const auto found = std::ranges::find(checks, id, &Checked::id);
  return found == checks.end() ? nullptr : &*found;
}
Outcome outcome(const std::vector<Checked>& checks, const std::string& id) {
  const auto* found = find(checks, id);
  EXPECT_NE(found, nullptr) << id;
  return found == nullptr ? Outcome::kPass : found->outcome;
}

TEST(Preflight, AFitClusterShowsSixComponents) {  // S-040 S-479
  const auto checks = check_stack(fit(), nullptr);
  ASSERT_EQ(checks.size(), 6U);
  for (const auto& c : checks) EXPECT_EQ(c.outcome, Outcome::kPass) << c.id << ": " << c.found;
  EXPECT_FALSE(any_failed(checks));
  EXPECT_EQ(find(checks, "DRIVER")->found,
            "driver: DaemonSet gpu-operator/nvidia-driver-daemonset, ready on 2 of 2 nodes");
  EXPECT_EQ(find(checks, "MIG_MANAGER")->found,
            "MIG manager: DaemonSet gpu-operator/nvidia-mig-manager, ready on 2 of 2 nodes");
}

TEST(Preflight, AMissingMustFailsByName) {  // S-041 S-479
  for (const auto& [part, id] : {std::pair("nvidia-driver", "DRIVER"), std::pair("device-plugin", "DEVICE_PLUGIN"),
                                 std::pair("dcgm-exporter", "EXPORTER")}) {
    auto cluster = fit();
    drop(cluster, part);
    const auto checks = check_stack(cluster, nullptr);
    EXPECT_TRUE(any_failed(checks)) << id;
    for (const auto& c : checks) EXPECT_EQ(c.outcome == Outcome::kFail, c.id == id) << c.id;
    EXPECT_FALSE(find(checks, id)->remedy.empty());
  }
  for (const auto& [part, id] :
       {std::pair("toolkit", "TOOLKIT"), std::pair("feature", "FEATURE_DISCOVERY"), std::pair("mig", "MIG_MANAGER")}) {
    auto cluster = fit();
    drop(cluster, part);
    const auto checks = check_stack(cluster, nullptr);
    EXPECT_EQ(outcome(checks, id), Outcome::kNote);
    EXPECT_FALSE(any_failed(checks)) << id << " is not required";
  }
}

TEST(Preflight, AComponentThatIsNotReadyEverywhereIsWarnedOf) {
  auto cluster = fit();
  drop(cluster, "dcgm-exporter");
  cluster.daemon_sets.push_back(daemon_set("nvidia-dcgm-exporter", 1));
  const auto checks = check_stack(cluster, nullptr);
  EXPECT_EQ(outcome(checks, "EXPORTER"), Outcome::kWarn);
  EXPECT_NE(find(checks, "EXPORTER")->remedy.find("describe daemonset"), std::string::npos);
}

TEST(Preflight, TwoDriversOnANodeAreWarnedOf) {  // S-042
  const std::vector<Json> providers{
      Json::object({{"cloud.google.com/gke-accelerator", "nvidia-h100-80gb"}}),
      Json::object({{"kubernetes.azure.com/accelerator", "nvidia"}}),
      Json::object({{"eks.amazonaws.com/compute-type", "auto"}, {"eks.amazonaws.com/instance-gpu-name", "h100"}})};
  for (const auto& labels : providers) {
    auto cluster = fit();
    cluster.nodes = {node("theirs", labels)};
    EXPECT_EQ(outcome(check_stack(cluster, nullptr), "DOUBLE_DRIVER"), Outcome::kWarn) << labels.dump();
    // Planned, but not installed yet.
    drop(cluster, "nvidia-driver");
    const auto on = operator_flags(*Json::parse(R"({"driver":{"enabled":true}})"));
    EXPECT_EQ(outcome(check_stack(cluster, &on), "DOUBLE_DRIVER"), Outcome::kWarn);
    const auto off = operator_flags(*Json::parse(R"({"driver":{"enabled":false}})"));
    const auto checks = check_stack(cluster, &off);
    EXPECT_EQ(find(checks, "DOUBLE_DRIVER"), nullptr);
    EXPECT_EQ(outcome(checks, "DRIVER"), Outcome::kPass) << "it comes with the nodes";
  }
  auto cluster = fit();
  cluster.nodes = {node("ours", Json::object({{"cloud.google.com/gke-accelerator", "nvidia-h100-80gb"},
                                              {"cloud.google.com/gke-gpu-driver-version", "disabled"}}))};
  EXPECT_EQ(find(check_stack(cluster, nullptr), "DOUBLE_DRIVER"), nullptr);
}

TEST(Preflight, AProviderThatEquipsOnlySomeNodesIsNotEnough) {
  auto cluster = fit();
  drop(cluster, "nvidia-driver");
  cluster.nodes.push_back(node("theirs", Json::object({{"kubernetes.azure.com/accelerator", "nvidia"}})));
  EXPECT_EQ(outcome(check_stack(cluster, nullptr), "DRIVER"), Outcome::kFail);
}

TEST(Preflight, AnOldDriverUnderHopperFails) {  // S-052
  auto cluster = fit();
  cluster.nodes.push_back(node("old", h100(530)));
  const auto checks = check_stack(cluster, nullptr);
  EXPECT_EQ(outcome(checks, "MIN_DRIVER_535"), Outcome::kFail);
  EXPECT_EQ(find(checks, "MIN_DRIVER_535")->found, "old have Hopper or Blackwell GPUs and a driver before 535");
  cluster.nodes.back() = node("old", h100(535));
  EXPECT_EQ(find(check_stack(cluster, nullptr), "MIN_DRIVER_535"), nullptr);
  cluster.nodes.back() =
      node("old", Json::object({{"nvidia.com/gpu.product", "Tesla-T4"}, {"nvidia.com/cuda.driver.major", "470"}}));
  EXPECT_EQ(find(check_stack(cluster, nullptr), "MIN_DRIVER_535"), nullptr) << "a T4 asks for no more";
}

TEST(Preflight, TheComponentsAreHeldAgainstAnInstallsValues) {  // S-054
  struct Case {
    std::string all, without, set, found, remedy;  ///< component missing from `without`, its DaemonSet
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c =
        manifests.pick(Case{"gpu-operator-values-all.yaml", "gpu-operator-values-own-toolkit.yaml", "container-toolkit",
                            "on: driver, devicePlugin, gfd, dcgmExporter, migManager; off: toolkit",
                            "toolkit is off by the values and runs"},
                       Case{"003-gpu-operator-values.yaml", "004-gpu-operator-values.yaml", "mig-manager",
                            "on: driver, toolkit, devicePlugin, gfd, dcgmExporter; off: migManager",
                            "migManager is off by the values and runs"});
    const auto flags_of = [&](const std::string& name) {
      const auto loaded = config::load_path(manifests.dir + name);
      EXPECT_EQ(loaded.objects.size(), 1U);
      return operator_flags(loaded.objects.at(0).document.content);
    };
    const auto all = flags_of(c.all);
    EXPECT_EQ(outcome(check_stack(fit(), &all), "VALUES"), Outcome::kPass);
    const auto without_one = flags_of(c.without);
    const auto checks = check_stack(fit(), &without_one);
    EXPECT_EQ(outcome(checks, "VALUES"), Outcome::kWarn);
    EXPECT_EQ(find(checks, "VALUES")->found, c.found);
    EXPECT_EQ(find(checks, "VALUES")->remedy, c.remedy);
    auto cluster = fit();
    drop(cluster, c.set);
    EXPECT_EQ(outcome(check_stack(cluster, &without_one), "VALUES"), Outcome::kPass);
  }
}

TEST(NodeVerify, PrintsThreeFactsAndFailsWithoutOne) {  // S-056
  auto cluster = fit();
  cluster.pods = {
      Json::object({{"metadata", Json::object({{"name", "nvidia-dcgm-exporter-x7"}, {"namespace", "gpu-operator"}})},
                    {"status", Json::object({{"phase", "Running"}})}})};
  const auto good = check_node(cluster, "a");
  ASSERT_EQ(good.size(), 3U);
  EXPECT_FALSE(any_failed(good));
  EXPECT_EQ(find(good, "LABELS")->found,
            "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3 nvidia.com/cuda.driver.major=580");
  EXPECT_EQ(find(good, "CAPACITY")->found, "8 nvidia.com/gpu");
  EXPECT_EQ(find(good, "EXPORTER")->found, "pod gpu-operator/nvidia-dcgm-exporter-x7 is Running");

  auto lacks = cluster;
  lacks.nodes[0] = node("a", Json::object());
  EXPECT_EQ(outcome(check_node(lacks, "a"), "LABELS"), Outcome::kFail);
  lacks = cluster;
  lacks.nodes[0] = node("a", h100(580), "0");
  EXPECT_EQ(outcome(check_node(lacks, "a"), "CAPACITY"), Outcome::kFail);
  lacks = cluster;
  lacks.pods.clear();
  EXPECT_EQ(outcome(check_node(lacks, "a"), "EXPORTER"), Outcome::kFail);
  lacks = cluster;
  lacks.pods[0].set("status").set("phase", "Pending");
  EXPECT_EQ(outcome(check_node(lacks, "a"), "EXPORTER"), Outcome::kFail);
  EXPECT_EQ(outcome(check_node(cluster, "nowhere"), "NODE"), Outcome::kFail);
}

std::pair<int, std::string> qmctl(const std::vector<std::string>& args, const std::string& text = {}) {
  std::istringstream in(text);
  std::ostringstream out, err;
  const int code = run(args, {in, out, err}, {});
  return {code, code == kDone ? out.str() : err.str()};
}

TEST(NodeDebug, PrintsAPodThatRunsNvidiaSmi) {  // S-398
  const auto [code, text] =
      qmctl({"node", "debug", "-o", "json", "--label", "cost-center=42", "--label", "workload-type=batch"});
  ASSERT_EQ(code, kDone) << text;
  auto printed = *Json::parse(text);
  EXPECT_EQ(printed["apiVersion"].string() + " " + printed["kind"].string(), "v1 Pod");
  EXPECT_EQ(printed["metadata"]["labels"].dump(), R"({"cost-center":"42","workload-type":"batch"})");
  const auto& spec = printed["spec"];
  ASSERT_EQ(spec["containers"].size(), 1U);
  EXPECT_EQ(spec["containers"].at(0)["args"].dump(), R"(["nvidia-smi"])");
  EXPECT_TRUE(spec["containers"].at(0)["resources"].is_null()) << "it looks at GPUs that others use";
  EXPECT_EQ(spec["restartPolicy"].string(), "Never") << "once is enough";
  const auto shape = config::shape_from_pod_spec(spec);
  ASSERT_TRUE(shape) << shape.error().to_string();
  for (const char* value : {"", "true", "present"}) {
    EXPECT_EQ(untolerated({{"nvidia.com/gpu", value, "NoSchedule"}}, shape->tolerations), nullptr) << value;
  }
  EXPECT_NE(untolerated({{"maintenance", "", "NoSchedule"}}, shape->tolerations), nullptr) << "and no other taint";
  EXPECT_FALSE(shape->node_selector.empty()) << "it goes where GPUs are";
  if (const auto shared = testing::shared_dir()) {
    printed.set("metadata").erase("labels");
    const auto loaded = config::load_path(*shared + "/manifests/004-pod-gpu-debug-overrides.yaml");
    ASSERT_EQ(loaded.objects.size(), 1U);
    EXPECT_EQ(printed, loaded.objects[0].document.content) << printed.pretty();
  }
  const auto pinned = qmctl({"node", "debug", "gpu-7"});
  EXPECT_NE(pinned.second.find("kubernetes.io/hostname: gpu-7"), std::string::npos) << pinned.second;
}

TEST(NodeVerbs, WrongArgumentsAreReported) {
  EXPECT_EQ(qmctl({"node", "verify"}).first, kUsage);
  EXPECT_EQ(qmctl({"node", "smoke", "a"}).first, kUsage);
  EXPECT_EQ(qmctl({"node", "debug", "--label", "x"}).first, kUsage);
  EXPECT_NE(qmctl({"preflight", "--kube", "kubeconfig:/nowhere"}).second.find("/nowhere"), std::string::npos);
}

/// The last lines of all_reduce_perf.
std::string nccl_output(const std::string& average, const std::string& wrong = "0 OK") {
  return fmt::format(
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
      "   536870912     134217728     float     sum      -1   3102.1  173.07  324.50      0   3097.0  173.35  325.03      0\n"
      "# Out of bounds values : {}\n# Avg bus bandwidth    : {}\n#\n",
      wrong, average);
}

// S-268: healthy, in between, and a fallback to Ethernet.
TEST(Preflight, NcclResultsAreGraded) {
  const auto graded = [](const std::string& average, const std::string& wrong = "0 OK") {
    const auto out = check_nccl(nccl_output(average, wrong));
    EXPECT_TRUE(out) << average;
    return out.value_or(Checked{});
  };
  EXPECT_EQ(graded("310.2").outcome, Outcome::kPass);
  EXPECT_EQ(graded("310.2").found, "bus bandwidth 310.2 GB/s");
  EXPECT_EQ(graded("250").outcome, Outcome::kWarn);
  EXPECT_EQ(graded("190").outcome, Outcome::kFail);
  EXPECT_TRUE(graded("190").remedy.starts_with("fallback-to-ethernet")) << graded("190").remedy;
  EXPECT_EQ(graded("300").outcome, Outcome::kPass);
  EXPECT_EQ(graded("299.9").outcome, Outcome::kWarn);
  EXPECT_EQ(graded("200").outcome, Outcome::kWarn);
  EXPECT_EQ(graded("310", "4 FAILED").outcome, Outcome::kFail) << "fast and wrong";
  // Of several runs the last one is used.
  EXPECT_EQ(check_nccl(nccl_output("190") + nccl_output("320"))->outcome, Outcome::kPass);
  for (const std::string nothing : {"", "nothing here", "# Avg bus bandwidth    : much"}) {
    const auto out = check_nccl(nothing);
    ASSERT_FALSE(out) << nothing;
    EXPECT_EQ(out.error().code, Code::kInvalid);
  }
}

TEST(Preflight, NcclResultsComeFromAFileOrAPipe) {
  const testing::TempDir dir;
  const std::string file = dir.path() + "/nccl.txt";
  std::ofstream(file) << nccl_output("190");
  std::stringstream in(nccl_output("310")), out, err;
  EXPECT_EQ(run({"preflight", "--nccl", file}, {in, out, err}), kUnfit) << err.str();
  EXPECT_NE(out.str().find("FAIL  NCCL"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("fallback-to-ethernet"), std::string::npos);
  out.str("");
  EXPECT_EQ(run({"preflight", "--nccl", "-"}, {in, out, err}), kDone) << err.str();
  EXPECT_NE(out.str().find("bus bandwidth 310.0 GB/s"), std::string::npos) << out.str();
}

}  // namespace preflight_test
}  // namespace qm::cli
