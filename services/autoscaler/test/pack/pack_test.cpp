#include "qm/autoscaler/pack/json.hpp"
#include "test/pack/problems.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace qm::autoscaler::pack::testing {
namespace pack_test {

using Op = Operator;

Plan packed(const Problem& problem, double node_price = 0) {
  Effort effort;
  effort.node_price = node_price;
  const auto plan = pack(problem, effort);
  EXPECT_TRUE(plan.has_value()) << (plan ? "" : plan.error().to_string());
  if (!plan) return {};
  const auto held = still_holds(problem, *plan, node_price);
  EXPECT_TRUE(held.has_value()) << (held ? "" : held.error().to_string());
  EXPECT_LE(plan->bound, plan->cost);
  return *plan;
}

std::vector<std::string> zones_of(const Problem& problem, const Plan& plan) {
  std::vector<std::string> out(problem.pods.size());
  for (const auto& node : plan.nodes) {
    for (const auto pod : node.pods) out[pod] = problem.types[node.type].offerings[node.offering].zone;
  }
  return out;
}

Problem two_pods_of_one_gpu() {
  Problem out;
  out.types = {type_of("g5.xlarge", 4, 16, 1.006, 1), type_of("g5.12xlarge", 48, 192, 5.672, 4)};
  for (auto& type : out.types) type.overhead_cpu_milli = 80, type.overhead_memory_bytes = kGiB;
  out.pods = {pod_of("a", 2000, 13, 1), pod_of("b", 2000, 13, 1)};
  return out;
}

TEST(Pack, SmallInstancesAreUsedWhereTheyAreCheaper) {
  const auto problem = two_pods_of_one_gpu();
  const auto plan = packed(problem);
  EXPECT_DOUBLE_EQ(plan.price, 2.012);
  ASSERT_EQ(plan.nodes.size(), 2U);
  EXPECT_EQ(problem.types[plan.nodes[0].type].name, "g5.xlarge");
  EXPECT_NEAR(plan.bound, 2.012, 1e-6);
}

TEST(Pack, NodePriceMakesNodesLarger) {
  const auto plan = packed(two_pods_of_one_gpu(), 4.0);
  EXPECT_EQ(plan.nodes.size(), 1U);
  EXPECT_DOUBLE_EQ(plan.price, 5.672);
  EXPECT_DOUBLE_EQ(plan.cost, 9.672);
}

// The benchmark of Cluster Autoscaler's binpacking estimator.
TEST(Pack, FillsTheNodesOfClusterAutoscalersBenchmarkExactly) {
  Problem problem;
  InstanceType type;
  type.name = "node";
  type.cpu_milli = 1000, type.memory_bytes = 5000, type.pods = 100;
  type.offerings.push_back({"a", "on-demand", 1, true});
  problem.types.push_back(type);
  for (int i = 0; i < 51'000; ++i) {
    Pod pod;
    pod.uid = std::to_string(i);
    pod.cpu_milli = i < 50'000 ? 50 : 95;
    pod.memory_bytes = i < 50'000 ? 100 : 190;
    problem.pods.push_back(pod);
  }
  const auto plan = packed(problem);
  EXPECT_EQ(plan.nodes.size(), 2'595U);
  EXPECT_GT(plan.bound, 2'594.9);
}

TEST(Pack, PodsWithoutAnyInstanceAreRefusedWithTheReason) {
  Problem problem;
  problem.types = {type_of("small", 4, 16, 1, 1), type_of("large", 8, 16, 2)};
  problem.pool.taints = {{"dedicated", "gpu", "NoSchedule"}};
  const Toleration any{"", "Exists", "", ""};
  problem.pods = {pod_of("fits", 1000, 1), pod_of("gpus", 1000, 1, 16), pod_of("both", 6000, 1, 1),
                  pod_of("label", 1000, 1), pod_of("taint", 1000, 1)};
  for (auto& pod : problem.pods) pod.tolerations = {any};
  problem.pods[3].node_selector["gpu"] = "b200";
  problem.pods[4].tolerations = {{"dedicated", "Equal", "cpu", "NoSchedule"}};
  const auto plan = packed(problem);
  ASSERT_EQ(plan.unplaced.size(), 4U);
  EXPECT_EQ(plan.unplaced[0].reason,
            "the pod requests 16 of nvidia.com/gpu, and the largest instance type that it accepts has 1 allocatable");
  EXPECT_EQ(plan.unplaced[1].reason,
            "no instance type that the pod accepts has enough of all requested resources at once");
  EXPECT_EQ(plan.unplaced[2].reason, "no available offering meets the pod's node selector and required node affinity");
  EXPECT_EQ(plan.unplaced[3].reason, "the pod does not tolerate the taint dedicated=gpu:NoSchedule of the NodePool");
}

struct OperatorCase {
  const char* name;
  NodeRequirement requirement;
  const char* chosen;
};

TEST(Pack, AllOperatorsOfNodeAffinity) {
  const OperatorCase cases[] = {
      {"In", {"size", Op::kIn, {"4", "8"}}, "four"},      {"NotIn", {"size", Op::kNotIn, {"2", "4"}}, "none"},
      {"Exists", {"size", Op::kExists, {}}, "two"},       {"DoesNotExist", {"size", Op::kDoesNotExist, {}}, "none"},
      {"Gt", {"size", Op::kGt, {"4"}}, "eight"},          {"Lt", {"size", Op::kLt, {"4"}}, "two"},
      {"Gte", {"size", Op::kGte, {"4"}}, "four"},         {"Lte", {"size", Op::kLte, {"2"}}, "two"},
      {"Gt of text", {"kind", Op::kGt, {"1"}}, "(none)"},
  };
  for (const auto& one : cases) {
    Problem problem;
    problem.types = {type_of("none", 4, 8, 5), type_of("two", 4, 8, 1), type_of("four", 4, 8, 2),
                     type_of("eight", 4, 8, 3)};
    problem.types[0].requirements = {{"size", Op::kDoesNotExist, {}}};
    if (one.requirement.op == Op::kNotIn) problem.types[3].offerings[0].price = 9;
    for (std::size_t i = 1; i < 4; ++i) problem.types[i].requirements = {{"size", Op::kIn, {std::to_string(1 << i)}}};
    for (auto& type : problem.types) type.requirements.push_back({"kind", Op::kIn, {"text"}});
    problem.pods = {pod_of("p", 1000, 1)};
    problem.pods[0].required = {{one.requirement}};
    const auto plan = packed(problem);
    EXPECT_EQ(plan.nodes.empty() ? "(none)" : problem.types[plan.nodes[0].type].name, one.chosen) << one.name;
  }
}

TEST(Pack, AnyOfTheRequiredTermsSuffices) {
  Problem problem;
  problem.types = {type_of("a10g", 4, 8, 3), type_of("l4", 4, 8, 1, 0, {"a", "b"})};
  problem.types[0].requirements = {{"gpu", Op::kIn, {"a10g"}}};
  problem.types[1].requirements = {{"gpu", Op::kIn, {"l4"}}};
  problem.pods = {pod_of("p", 1000, 1)};
  problem.pods[0].required = {{{"gpu", Op::kIn, {"a10g"}}}, {{"gpu", Op::kIn, {"l4"}}, {kZone, Op::kNotIn, {"a"}}}};
  const auto plan = packed(problem);
  EXPECT_EQ(plan.price, 1);
  EXPECT_EQ(zones_of(problem, plan)[0], "b");
}

TEST(Pack, ALabelWithSeveralValuesGetsOneThatThePodsOfTheNodeAgreeOn) {
  Problem problem;
  problem.types = {type_of("t", 8, 16, 1)};
  problem.types[0].requirements = {{"kubernetes.io/os", Op::kIn, {"linux", "windows"}}};
  problem.pods = {pod_of("l", 1000, 1), pod_of("w", 1000, 1), pod_of("any", 1000, 1)};
  problem.pods[0].node_selector["kubernetes.io/os"] = "linux";
  problem.pods[1].required = {{{"kubernetes.io/os", Op::kNotIn, {"linux"}}}};
  const auto plan = packed(problem);
  EXPECT_EQ(plan.nodes.size(), 2U);
}

TEST(Pack, UnavailableOfferingsAreNotLaunched) {
  Problem problem;
  problem.types = {type_of("t", 8, 16, 1, 0, {"a", "b"})};
  problem.types[0].offerings[0].available = false;
  problem.types[0].offerings[1].price = 7;
  problem.pods = {pod_of("p", 1000, 1)};
  EXPECT_EQ(packed(problem).price, 7);
}

TEST(Pack, HostAntiAffinityHoldsBothWays) {
  Problem problem;
  problem.types = {type_of("t", 32, 64, 1)};
  problem.pods = {pod_of("quiet", 1000, 1), pod_of("loud", 1000, 1), pod_of("other", 1000, 1)};
  problem.pods[0].labels["app"] = "db";
  problem.pods[1].anti_affinity = {{kHost, app_is("db")}};
  EXPECT_EQ(packed(problem).nodes.size(), 2U);
  std::swap(problem.pods[0], problem.pods[1]);
  EXPECT_EQ(packed(problem).nodes.size(), 2U);
}

TEST(Pack, HostSpreadCountsEarlierPodsOnly) {
  Problem problem;
  problem.types = {type_of("t", 32, 64, 1)};
  for (int i = 0; i < 4; ++i) {
    problem.pods.push_back(pod_of("owner-" + std::to_string(i), 1000, 1));
    problem.pods.back().labels["app"] = "web";
    problem.pods.back().spread = {{kHost, 2, app_is("web"), true}};
  }
  EXPECT_EQ(packed(problem).nodes.size(), 2U);
  for (int i = 0; i < 4; ++i) {  // later members that do not spread may exceed the skew
    problem.pods.push_back(pod_of("late-" + std::to_string(i), 1000, 1));
    problem.pods.back().labels["app"] = "web";
  }
  EXPECT_EQ(packed(problem).nodes.size(), 2U);
}

TEST(Pack, ZoneSpreadHoldsAtThePlacementOfEachPod) {
  Problem problem;
  problem.types = {type_of("t", 64, 128, 1, 0, {"a", "b", "c"})};
  for (int i = 0; i < 9; ++i) {
    problem.pods.push_back(pod_of(std::to_string(i), 1000, 1));
    problem.pods.back().labels["app"] = "web";
    problem.pods.back().spread = {{kZone, 1, app_is("web"), true}};
  }
  const auto plan = packed(problem);
  EXPECT_EQ(plan.nodes.size(), 3U);
  const auto zones = zones_of(problem, plan);
  for (const char* zone : {"a", "b", "c"}) EXPECT_EQ(std::ranges::count(zones, zone), 3);
}

TEST(Pack, PodsOfAZoneAffinityAreKeptTogether) {
  Problem problem;
  problem.types = {type_of("t", 2, 4, 1, 0, {"a", "b", "c"})};
  for (int i = 0; i < 6; ++i) {
    problem.pods.push_back(pod_of(std::to_string(i), 2000, 1));
    problem.pods.back().labels["app"] = "ring";
    problem.pods.back().affinity = {{kZone, app_is("ring")}};
  }
  problem.pods[4].node_selector[kZone] = "b";
  const auto plan = packed(problem);
  const auto zones = zones_of(problem, plan);
  EXPECT_EQ(std::set<std::string>(zones.begin(), zones.end()), (std::set<std::string>{"b"}));
}

TEST(Pack, APodThatItsOwnAffinitySelectsGoesToTheOthers) {
  Problem problem;
  problem.types = {type_of("t", 4, 8, 1, 0, {"a", "b"})};
  for (int i = 0; i < 3; ++i) problem.pods.push_back(pod_of(std::to_string(i), 500, 1));
  problem.pods[0].affinity = {{kZone, {{{"app", LabelRequirement::Op::kDoesNotExist, {}}}}}};
  for (std::size_t i = 1; i < 3; ++i) problem.pods[i].node_selector[kZone] = "b";
  const auto plan = packed(problem);
  EXPECT_TRUE(plan.unplaced.empty());
  for (const auto& node : plan.nodes) EXPECT_EQ(problem.types[node.type].offerings[node.offering].zone, "b");
}

TEST(Pack, ZonesWhereTheNodePoolLaunchesNothingDoNotCountForSpread) {
  Problem problem;
  problem.types = {type_of("t", 1, 2, 1, 0, {"a", "b", "c"})};
  problem.types[0].offerings[2].capacity_type = "spot";
  problem.pool.requirements = {{"karpenter.sh/capacity-type", Operator::kIn, {"on-demand"}}};
  for (int i = 0; i < 6; ++i) {
    problem.pods.push_back(pod_of(std::to_string(i), 1000, 2));
    problem.pods.back().labels["app"] = "web";
    problem.pods.back().spread = {{kZone, 1, app_is("web"), true}};
  }
  EXPECT_TRUE(packed(problem).unplaced.empty());
}

TEST(Pack, AffinityToPodsThatDoNotExistIsRefused) {
  Problem problem;
  problem.types = {type_of("t", 8, 16, 1, 0, {"a", "b"})};
  problem.pods = {pod_of("p", 1000, 1), pod_of("q", 1000, 1)};
  problem.pods[0].affinity = {{kZone, app_is("db")}};
  const auto plan = packed(problem);
  ASSERT_EQ(plan.unplaced.size(), 1U);
  EXPECT_EQ(plan.unplaced[0].pod, 0U);
}

TEST(Pack, PreferencesDecideAmongEqualPrices) {
  Problem problem;
  problem.types = {type_of("t", 8, 16, 1, 0, {"a", "b", "c"})};
  problem.pods = {pod_of("p", 1000, 1), pod_of("q", 1000, 1)};
  problem.pods[0].preferred = {{1, {{kZone, Op::kIn, {"c"}}}}};
  problem.pods[1].preferred = {{5, {{kZone, Op::kIn, {"b"}}}}};
  const auto plan = packed(problem);
  ASSERT_EQ(plan.nodes.size(), 1U);
  EXPECT_EQ(zones_of(problem, plan)[0], "b");
}

TEST(Pack, LimitsOfTheNodePoolHold) {
  auto problem = two_pods_of_one_gpu();
  problem.pool.cpu_limit_milli = 7'999;
  const auto plan = pack(problem);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "the plan has 8000 of cpu (milli-cores), and the limit of the NodePool is 7999");
}

TEST(Pack, ConstraintsThatCannotBeRespectedAreErrors) {
  auto problem = two_pods_of_one_gpu();
  problem.pods[1].affinity = {{kHost, app_is("db")}};
  const auto plan = pack(problem);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "pod b has a pod affinity with topology key kubernetes.io/hostname");
}

TEST(Pack, AnEmptyProblemHasAnEmptyPlan) {
  EXPECT_TRUE(packed({}).nodes.empty());
  Problem problem;
  problem.pods = {pod_of("p", 1000, 1)};
  EXPECT_EQ(packed(problem).unplaced.size(), 1U);
}

TEST(PackVerify, ABrokenPlanIsRefused) {
  Problem problem;
  problem.types = {type_of("t", 4, 8, 1, 0, {"a", "b"}), type_of("u", 64, 128, 30)};
  for (int i = 0; i < 6; ++i) {
    problem.pods.push_back(pod_of(std::to_string(i), 2000, 1));
    problem.pods.back().labels["app"] = "web";
  }
  problem.pods[0].anti_affinity = {{kHost, {{{"role", LabelRequirement::Op::kExists, {}}}}}};
  problem.pods[1].labels["role"] = "db";
  for (std::size_t i = 2; i < 6; ++i) problem.pods[i].spread = {{kZone, 1, app_is("web"), true}};
  const auto plan = packed(problem);
  const auto refused = [&](auto&& change) {
    Plan broken = plan;
    change(broken);
    const auto held = still_holds(problem, broken);
    return held ? std::string("holds") : held.error().message;
  };
  EXPECT_EQ(refused([](Plan& p) { p.nodes[0].pods.push_back(p.nodes[1].pods[0]); }).find("pod "), 0U);
  EXPECT_NE(refused([](Plan& p) { p.nodes.pop_back(); }).find("neither on a node nor refused"), std::string::npos);
  EXPECT_NE(refused([](Plan& p) { p.price += 1; }).find("the price is"), std::string::npos);
  EXPECT_NE(refused([](Plan& p) { p.bound = p.cost + 1; }).find("bound"), std::string::npos);
  EXPECT_NE(refused([](Plan& p) { p.nodes[0].requirements.clear(); }).find("is not"), std::string::npos);
  EXPECT_NE(refused([](Plan& p) {
              auto& from = p.nodes[1].pods;
              p.nodes[0].pods.insert(p.nodes[0].pods.end(), from.begin(), from.end());
              p.nodes.erase(p.nodes.begin() + 1);
            }).find("of cpu"),
            std::string::npos);
}

TEST(PackJson, ErrorsNameThePath) {
  const auto read = [](const char* text) {
    const auto problem = problem_of(*Json::parse(text));
    return problem ? std::string("read") : problem.error().message;
  };
  EXPECT_EQ(read(R"({"types":[],"pods":[]})"), "read");
  EXPECT_EQ(read(R"({"types":[],"pods":[{"uid":"p"},{"uid":"p"}]})"), "pods[1].uid is that of an earlier pod");
  EXPECT_EQ(read(R"({"types":[]})"), "the input has no list \"types\" or no list \"pods\"");
  EXPECT_EQ(read(R"({"types":[{"name":"t","cpu_m":-1}],"pods":[]})"),
            "types[0].cpu_m is not a whole number from 0 to 2^60");
  EXPECT_EQ(read(R"({"types":[{"name":"t","offerings":[{"price":"x"}]}],"pods":[]})"),
            "types[0].offerings[0].price is not a price");
  EXPECT_EQ(
      read(R"({"types":[],"pods":[{"uid":"p","required_terms":[{"match_expressions":[{"key":"a","op":"Is"}]}]}]})"),
      "pods[0].required_terms[0][0].op is no operator");
  EXPECT_EQ(
      read(
          R"({"types":[],"pods":[{"uid":"p","required_terms":[{"match_expressions":[{"key":"a","op":"Gt","values":["x"]}]}]}]})"),
      "pods[0].required_terms[0][0].values is not one whole number");
  EXPECT_EQ(read(R"({"types":[],"pods":[{"uid":"p","topology_spread":[{"key":"z","max_skew":0}]}]})"),
            "pods[0].topology_spread[0].max_skew is less than 1");
}

}  // namespace pack_test
}  // namespace qm::autoscaler::pack::testing
