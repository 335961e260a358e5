// Pods of the API server as demand: five that exclude one another by host, and a NodePool of at most three nodes.
#include "qm/autoscaler/shell.hpp"
#include "qm/kube_objects/default_spread.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/kube_rules/text.hpp"

#include <gtest/gtest.h>

#include <set>

namespace qm::autoscaler {
namespace pod_rules_test {

std::string rules(const std::string& affinity) {
  const auto pod = Json::parse(
      R"({"metadata": {"namespace": "shop", "labels": {"app": "web"}}, "spec": {"containers": [], "affinity": )" +
      affinity + "}}");
  EXPECT_TRUE(pod) << affinity;
  const auto text = pod ? kube_objects::rules_text_of_pod(*pod) : fail(pod.error());
  EXPECT_TRUE(text) << text.error().to_string();
  return text.value_or("");
}

std::string apart(const std::string& selector, const std::string& more = "") {
  return rules(R"({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": )" +
               selector + R"(, "topologyKey": "kubernetes.io/hostname")" + more + "}]}}");
}

/// The number of instances for five pods of 100 m with these rules, in one step; the last explanation.
std::pair<std::size_t, std::string> launched(const std::string& text) {
  Engine engine(catalog_types());
  Pool pool;
  pool.name = "p";
  pool.markets = {Market::kOnDemand};
  pool.instance_types = {"m5.large"};
  pool.limit_nodes = 3;
  PodSet pods;
  pods.shape.cpu_milli = 100;
  pods.rules = text;
  const Instant now = from_micros(1'800'000'000'000'000);
  DemandUpdated demand;
  for (int i = 0; i < 5; ++i) demand.items.push_back({{WorkloadUid(fmt::format("w{}", i)), 1}, {pods}, 0, now});
  const std::vector<Command> batch{PoolsApplied{{pool}}, demand};
  const std::size_t launches = engine.step(batch, now).launches.size();
  return {launches, engine.explain(now).back()};
}

TEST(PodRules, PodsThatExcludeOneAnotherByHostGetDifferentNodes) {
  const auto [launches, why] = launched(apart(R"({"matchLabels": {"app": "web"}})"));
  EXPECT_EQ(launches, 3U);
  EXPECT_NE(why.find("NodePool p has the limit nodes 3: 3 in use, 1 more needed"), std::string::npos) << why;
  EXPECT_EQ(launched(apart(R"({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})")).first,
            3U);
}

TEST(PodRules, ASelectorOfOtherPodsExcludesNone) {
  for (const auto& text :
       {apart(R"({"matchLabels": {"app": "other"}})"),
        apart(R"({"matchLabels": {"app": "web"}})", R"(, "namespaces": ["elsewhere"])"), apart("null")})
    EXPECT_EQ(launched(text).first, 1U) << text;
}

// Topology spread that the scheduler of the cluster applies by default.
TEST(PodRules, DefaultSpreadOverZonesBindsNewNodesIfItIsHard) {
  const auto zones = [](const char* setting) {
    kube_rules::PodTemplate like{Namespace("shop"), {{"app", "web"}}, {}};
    const LabelSelector web{{{"app", LabelRequirement::Op::kIn, {"web"}}}};
    kube_objects::add_default_spread(*kube_objects::default_spread_of(setting), web, like);
    Engine engine(catalog_types());
    Pool pool;
    pool.name = "p";
    pool.markets = {Market::kOnDemand};
    pool.instance_types = {"m5.large"};
    pool.zones = {"us-east-1a", "us-east-1b"};
    PodSet pods;
    pods.shape.cpu_milli = 100;
    pods.rules = kube_rules::text_of(like);
    const Instant now = from_micros(1'800'000'000'000'000);
    DemandUpdated demand;
    for (int i = 0; i < 4; ++i) demand.items.push_back({{WorkloadUid(fmt::format("w{}", i)), 1}, {pods}, 0, now});
    std::set<std::string> out;
    for (const auto& launch : engine.step(std::vector<Command>{PoolsApplied{{pool}}, demand}, now).launches)
      out.insert(launch.row.zone);
    return out.size();
  };
  EXPECT_EQ(zones("topology.kubernetes.io/zone:1:DoNotSchedule"), 2U);
  EXPECT_EQ(zones("system"), 1U);
  EXPECT_EQ(zones("none"), 1U);
}

TEST(PodRules, RequiredNodeAffinityDecides) {
  const auto affinity = [](const std::string& terms) {
    return rules(R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [)" +
                 terms + "]}}}");
  };
  const auto term = [](const std::string& value) {
    return R"({"matchExpressions": [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": [")" + value +
           R"("]}]})";
  };
  EXPECT_EQ(launched(affinity(term("1"))).first, 1U);
  EXPECT_EQ(launched(affinity(term("2"))).first, 0U);
  EXPECT_EQ(launched(affinity(term("2") + "," + term("1"))).first, 1U) << "the terms are alternatives";
  EXPECT_EQ(
      launched(affinity(R"({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})")).first,
      0U)
      << "a new node is not that node";
  EXPECT_EQ(launched(rules("{}")).first, 1U);
}

}  // namespace pod_rules_test
}  // namespace qm::autoscaler
