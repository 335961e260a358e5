// Metrics under the names of Karpenter: each series of a history, and the exposition as promtool judges it.
#include "qm/autoscaler/metrics/karpenter_metrics.hpp"

#include "qm/autoscaler/shell.hpp"
#include "qm/testing/promtool.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

namespace qm::autoscaler {
namespace karpenter_metrics_test {

using namespace std::chrono_literals;

/// An engine and its page. Each instance is of g5.xlarge.
class Fleet : public ::testing::Test {
 protected:
  Fleet() {
    pool_.name = "p";
    pool_.instance_types = {"g5.xlarge"};
    pool_.markets = {Market::kOnDemand};
    pool_.limit_gpus = 4;
    pool_.limit_cpu_milli = 64'000;
    pool_.consolidate_after = 60s;
    step({PoolsApplied{{pool_}}});
    metrics_ = std::make_unique<KarpenterMetrics>(engine_);
    registry_.on_collect([this] { return metrics_->families(engine_); });
    registry_.on_collect([this] { return objects_.families(); });
  }
  void step(const std::vector<Command>& batch) {
    (void)engine_.step(batch, now_);
    engine_.commit();
  }
  void want(int gangs) {
    DemandUpdated update;
    for (int i = 0; i < gangs; ++i) {
      PodSet pods;
      pods.shape.gpu.whole = 1;
      update.items.push_back({{WorkloadUid("w" + std::to_string(i)), 1}, {pods}, 0, now_});
    }
    step({update});
  }
  [[nodiscard]] InstancesListed cloud(bool stopped = false) const {
    InstancesListed out;
    for (const auto& [name, claim] : engine_.tables().claims) {
      if (claim.instance.empty()) continue;
      InstanceFact fact;
      fact.id = claim.instance;
      fact.claim = name;
      fact.pool = "p";
      fact.type = "g5.xlarge";
      fact.node = NodeName("n-" + name.value());
      fact.launched = claim.requested;
      if (stopped) fact.stopped = now_;
      out.instances.push_back(fact);
    }
    return out;
  }
  /// The value of a series; "" = absent.
  std::string value(const std::string& series) {
    std::istringstream page(registry_.text());
    for (std::string line; std::getline(page, line);) {
      if (line.starts_with(series + " ")) return line.substr(series.size() + 1);
    }
    return {};
  }
  NodeUpdated node(const ClaimName& claim, std::int32_t pods, bool cordoned = false) {
    const Claim& row = *engine_.tables().claims.find(claim);
    NodeUpdated out{row.node, true, cordoned, false, pods, {}, row.instance};
    if (pods == 0) out.empty_since = now_;
    return out;
  }
  void add_objects() {
    objects_.on_node(*Json::parse(R"({"metadata":{"name":"n1","labels":{"karpenter.sh/nodepool":"p",
      "karpenter.sh/capacity-type":"spot","topology.kubernetes.io/zone":"za","kubernetes.io/arch":"amd64",
      "node.kubernetes.io/instance-type":"g5.xlarge"}},
      "status":{"allocatable":{"cpu":"3920m","memory":"14Gi","nvidia.com/gpu":"1","ephemeral-storage":"10G"}}})"),
                     false);
    objects_.on_pod(
        pod("web", "n1", "Running", R"([{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}])", "ReplicaSet"), false);
    objects_.on_pod(
        pod("agent", "n1", "Running", R"([{"resources":{"requests":{"cpu":"250m","memory":"64Mi"}}}])", "DaemonSet"),
        false);
    objects_.on_pod(pod("waits", "", "Pending", "[]", "Job"), false);
  }
  static Json pod(const std::string& name, const std::string& node, const std::string& phase,
                  const std::string& containers, const std::string& owner) {
    return *Json::parse(fmt::format(
        R"({{"metadata":{{"name":"{0}","namespace":"ml","uid":"{0}","ownerReferences":[{{"apiVersion":"apps/v1","kind":"{4}",
        "name":"owner"}}]}},"spec":{{"nodeName":"{1}","containers":{3}}},"status":{{"phase":"{2}"}}}})",
        name, node, phase, containers, owner));
  }

  Instant now_ = from_micros(1'800'000'000'000'000);
  Engine engine_{catalog_types()};
  Pool pool_;
  std::unique_ptr<KarpenterMetrics> metrics_;
  ObjectMetrics objects_;
  metrics::Registry registry_;
};

// S-343, S-344, S-345, S-350: the counters of one life of two claims, one of which is refused.
TEST_F(Fleet, CountsTheStepsOfEachClaimOnce) {
  EXPECT_EQ(value(R"(karpenter_nodeclaims_launched_total{nodepool="p"})"), "0");
  want(2);
  EXPECT_EQ(
      value(R"(karpenter_nodeclaims_created_total{reason="provisioned",nodepool="p",min_values_relaxed="false"})"),
      "2");
  EXPECT_EQ(value(R"(karpenter_nodeclaims_launched_total{nodepool="p"})"), "0");
  const ClaimName good("p-00001"), bad("p-00002");
  step({LaunchEnded{good, InstanceId("i-1"), ""}, LaunchEnded{bad, {}, "no capacity", Refusal::kLaunch}});
  EXPECT_EQ(value(R"(karpenter_nodeclaims_launched_total{nodepool="p"})"), "1");
  EXPECT_EQ(value(R"(karpenter_nodeclaims_registered_total{nodepool="p"})"), "0");
  EXPECT_EQ(
      value(
          R"(karpenter_nodeclaims_terminated_total{nodepool="p",capacity_type="on-demand",zone="",reason="ProvisioningFailed"})"),
      "1");
  step({cloud()});
  step({node(good, 1)});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(value(R"(karpenter_nodeclaims_registered_total{nodepool="p"})"), "1");
    EXPECT_EQ(value(R"(karpenter_nodeclaims_initialized_total{nodepool="p"})"), "1");
  }
  // It becomes empty, and is disrupted once.
  step({DemandUpdated{}, node(good, 0)});
  now_ += 61s;
  step({Tick{}});
  EXPECT_EQ(
      value(R"(karpenter_disruption_actions_performed_total{action="delete",method="empty",consolidation_type=""})"),
      "1");
  EXPECT_EQ(
      value(
          R"(karpenter_voluntary_disruption_decisions_total{decision="delete",reason="empty",consolidation_type=""})"),
      "1");
  EXPECT_EQ(value(R"(karpenter_nodeclaims_disrupted_total{nodepool="p",capacity_type="on-demand",reason="empty"})"),
            "1");
  auto drained = node(good, 0, true);
  drained.empty_since = now_ - 61s;
  step({drained});
  ASSERT_EQ(engine_.tables().claims.find(good)->state, ClaimState::kTerminating);
  step({cloud(true)});
  EXPECT_EQ(
      value(R"(karpenter_nodeclaims_terminated_total{nodepool="p",capacity_type="on-demand",zone="",reason="Empty"})"),
      "1");
}

// S-349: nodes with a reason, also those that a budget or a pod holds.
TEST_F(Fleet, EligibleNodesAreTheCandidatesOfThePlanner) {
  EXPECT_EQ(value(R"(karpenter_voluntary_disruption_eligible_nodes{reason="empty"})"), "0");
  pool_.budgets = {{"0", "", Duration{0}, {}}};
  step({PoolsApplied{{pool_}}});
  want(2);
  step({LaunchEnded{ClaimName("p-00001"), InstanceId("i-1"), ""},
        LaunchEnded{ClaimName("p-00002"), InstanceId("i-2"), ""}});
  step({cloud()});
  step({node(ClaimName("p-00001"), 0), node(ClaimName("p-00002"), 1), DemandUpdated{}});
  now_ += 200s;
  step({Tick{}});
  EXPECT_EQ(value(R"(karpenter_voluntary_disruption_eligible_nodes{reason="empty"})"), "1");
  EXPECT_EQ(value(R"(karpenter_voluntary_disruption_eligible_nodes{reason="drifted"})"), "0");
}

TEST_F(Fleet, UsageAndLimitsHaveTheNamesOfBothReleases) {
  want(2);
  for (const auto* name : {"karpenter_nodepool_usage", "karpenter_nodepools_usage"})
    EXPECT_EQ(value(std::string(name) + R"({nodepool="p",resource_type="nvidia.com/gpu"})"), "2");
  for (const auto* name : {"karpenter_nodepool_limit", "karpenter_nodepools_limit"}) {
    EXPECT_EQ(value(std::string(name) + R"({nodepool="p",resource_type="nvidia.com/gpu"})"), "4");
    EXPECT_EQ(value(std::string(name) + R"({nodepool="p",resource_type="cpu"})"), "64");
  }
}

// S-346, S-351, S-352
TEST_F(Fleet, PodsAndNodesAreThoseOfTheApiServer) {
  add_objects();
  EXPECT_EQ(
      value(
          R"(karpenter_pods_state{name="web",namespace="ml",owner="/apis/apps/v1/namespaces/ml/replicasets/owner",node="n1",nodepool="p",zone="za",arch="amd64",capacity_type="spot",instance_type="g5.xlarge",phase="Running",scheduled="true"})"),
      "1");
  EXPECT_EQ(
      value(
          R"(karpenter_pods_state{name="waits",namespace="ml",owner="/apis/apps/v1/namespaces/ml/jobs/owner",node="",nodepool="",zone="",arch="",capacity_type="",instance_type="",phase="Pending",scheduled="false"})"),
      "1");
  const auto amount = [&](const std::string& name, const std::string& resource) {
    const std::regex series(name + R"(\{node_name="n1",nodepool="p",[^}]*resource_type=")" + resource + R"("\} (\S+))");
    std::smatch found;
    const std::string text = registry_.text();
    return std::regex_search(text, found, series) ? found[1].str() : std::string();
  };
  EXPECT_EQ(amount("karpenter_nodes_allocatable", "cpu"), "3.92");
  EXPECT_EQ(amount("karpenter_nodes_allocatable", "memory"), std::to_string(std::int64_t{14} << 30));
  EXPECT_EQ(amount("karpenter_nodes_allocatable", "nvidia.com/gpu"), "1");
  EXPECT_EQ(amount("karpenter_nodes_allocatable", "ephemeral_storage"), "10000000000");
  EXPECT_EQ(amount("karpenter_nodes_total_daemon_requests", "cpu"), "0.25");
  EXPECT_EQ(amount("karpenter_nodes_total_daemon_requests", "memory"), std::to_string(64 << 20));
  EXPECT_EQ(amount("karpenter_nodes_total_pod_requests", "cpu"), "1.25");
  objects_.on_pod(pod("agent", "n1", "Running", "[]", "DaemonSet"), true);
  EXPECT_EQ(amount("karpenter_nodes_total_daemon_requests", "cpu"), "0");
  objects_.on_node(*Json::parse(R"({"metadata":{"name":"n1"}})"), true);
  EXPECT_EQ(amount("karpenter_nodes_allocatable", "cpu"), "");
}

/// What is wrong with an exposition: each sample has HELP and TYPE before it, valid names, and no second series with the
/// same labels; counters end with _total. Empty = nothing.
std::string fault_of(const std::string& text) {
  const std::regex sample(R"(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*",?)*\})? (\S+))");
  std::map<std::string, std::string> types;
  std::set<std::string> helps, series, closed;
  std::string current;
  std::istringstream page(text);
  for (std::string line; std::getline(page, line);) {
    std::istringstream words(line);
    std::string hash, what, name, type;
    if (line.starts_with("# ")) {
      words >> hash >> what >> name >> type;
      if (what == "HELP" && !helps.insert(name).second) return "second HELP: " + name;
      if (what == "HELP" && type.empty()) return "no help text: " + name;
      if (what == "TYPE" && !types.emplace(name, type).second) return "second TYPE: " + name;
      continue;
    }
    std::smatch found;
    if (!std::regex_match(line, found, sample)) return "not a sample: " + line;
    name = found[1];
    if (!helps.contains(name) || !types.contains(name)) return "without HELP or TYPE: " + line;
    if (types[name] == "counter" && !name.ends_with("_total")) return "a counter without _total: " + name;
    if (name != current && !closed.insert(name).second) return "not one group: " + name;
    current = name;
    if (!series.insert(found[1].str() + found[2].str()).second) return "twice: " + line;
    if (!found[5].str().empty() && std::isnan(std::stod(found[5]))) return "not a number: " + line;
  }
  return {};
}

// S-353: the ten names, and those of Karpenter 1.14 for the same meaning, on a page without faults.
TEST_F(Fleet, AllNamesAreOnAPageThatPromtoolAccepts) {
  want(1);
  step({LaunchEnded{ClaimName("p-00001"), InstanceId("i-1"), ""}});
  step({cloud()});
  step({node(ClaimName("p-00001"), 0), DemandUpdated{}});
  now_ += 200s;
  step({Tick{}});
  auto drained = node(ClaimName("p-00001"), 0, true);
  step({drained});
  step({cloud(true)});
  add_objects();
  const std::string text = registry_.text();
  EXPECT_EQ(fault_of(text), "") << text;
  for (const std::string name :
       {"karpenter_nodeclaims_launched_total", "karpenter_nodeclaims_registered_total",
        "karpenter_nodeclaims_terminated_total", "karpenter_pods_state", "karpenter_nodepool_usage",
        "karpenter_nodepool_limit", "karpenter_voluntary_disruption_eligible_nodes",
        "karpenter_disruption_actions_performed_total", "karpenter_nodes_allocatable",
        "karpenter_nodes_total_daemon_requests", "karpenter_nodeclaims_created_total", "karpenter_nodepools_usage",
        "karpenter_nodepools_limit", "karpenter_voluntary_disruption_decisions_total"}) {
    EXPECT_NE(text.find("\n" + name + "{"), std::string::npos) << name << "\n" << text;
  }
  EXPECT_NE(fault_of("# HELP a b\na 1\n"), "") << "the check itself finds a fault";
  EXPECT_NE(fault_of("# HELP a b\n# TYPE a counter\na 1\n"), "");
}

TEST_F(Fleet, PromtoolAcceptsThePage) {
  if (qm::testing::promtool().empty()) GTEST_SKIP() << qm::testing::kNoPromtool;
  want(1);
  add_objects();
  const qm::testing::TempDir dir;
  const std::string page = dir.path() + "/page", out = dir.path() + "/out";
  std::ofstream(page) << registry_.text();
  const int code =
      std::system(fmt::format("{} check metrics <{} >{} 2>&1", qm::testing::promtool(), page, out).c_str());
  EXPECT_EQ(code, 0) << qm::testing::read_file(out);
}

}  // namespace karpenter_metrics_test
}  // namespace qm::autoscaler
