// Which nodes of groups are not needed. The rules and the cases of single pods are those of Cluster Autoscaler's
// simulator/utilization, simulator/drainability and core/scaledown.
#include "qm/autoscaler/scale_down/scale_down.hpp"

#include "test/scale_down/fleet.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

namespace qm::autoscaler {
namespace scale_down_test {

using namespace std::chrono_literals;
using testing::Fleet;
using testing::node_pod;
using testing::node_pods;

const Instant kNow = from_micros(1'000'000'000'000);
const std::string kHostname = "kubernetes.io/hostname";

std::vector<std::string> names(const ScaleDownProblem& problem, const UnneededNodes& found) {
  std::vector<std::string> out;
  for (const auto& one : found.unneeded) {
    std::string line = problem.nodes[one.node].name;
    for (const auto& move : one.moves)
      line += fmt::format(" {}>{}", problem.nodes[one.node].view->pods[move.pod].name, problem.nodes[move.to].name);
    out.push_back(line);
  }
  EXPECT_EQ(broken_rule(problem, found, {}), "");
  return out;
}

std::string why(const ScaleDownProblem& problem, const UnneededNodes& found, const std::string& name) {
  for (const auto& one : found.needed) {
    if (problem.nodes[one.node].name == name) return one.why;
  }
  return {};
}

using Lines = std::vector<std::string>;

TEST(Utilization, IsTheLargerPartOfCpuAndMemory) {
  const NodePods node = node_pods(4, 0, {node_pod("a/1", {.milli = 1000, .memory_mi = 8192})});
  EXPECT_EQ(utilization_of(node, false), (Utilization{"memory", 500}));
}

TEST(Utilization, OfANodeWithGpusCountsOnlyThese) {
  const NodePods node = node_pods(64, 8, {node_pod("a/1", {.milli = 63'000, .gpus = 2})});
  EXPECT_EQ(utilization_of(node, false), (Utilization{"nvidia.com/gpu", 250}));
}

TEST(Utilization, WithoutDaemonSetsTheirRequestsAreNoPartOfTheNode) {
  const NodePods node =
      node_pods(4, 0, {node_pod("a/1", {.milli = 1000}), node_pod("a/2", {.milli = 2000, .controller = "DaemonSet"})});
  EXPECT_EQ(utilization_of(node, false).milli, 750);
  EXPECT_EQ(utilization_of(node, true).milli, 500);  // 1 of 4 - 2 cores
}

TEST(Utilization, PodsThatEndAndMirrorPodsDoNotCount) {
  auto ends = node_pod("a/1", {.milli = 1000}), mirror = node_pod("a/2", {.milli = 1000});
  ends.terminating = true;
  mirror.kind = NodePod::Kind::kMirror;
  EXPECT_EQ(utilization_of(node_pods(4, 0, {ends, mirror}), false).milli, 0);
}

std::string blocked(const std::function<void(NodePod&)>& change, const ScaleDownRules& rules = {},
                    const std::string& name = "a/p", const std::string& controller = "ReplicaSet") {
  NodePod pod = node_pod(name, {.milli = 100, .controller = controller});
  change(pod);
  return blocking_pod(node_pods(4, 0, {pod}), rules);
}
const auto kAsItIs = [](NodePod&) {};

TEST(Drainability, APodKeepsItsNodeByTheRulesOfClusterAutoscaler) {
  EXPECT_EQ(blocked(kAsItIs), "");
  EXPECT_EQ(blocked(kAsItIs, {}, "a/p", ""), "pod a/p has no controller that creates it again");
  EXPECT_EQ(blocked(kAsItIs, {}, "a/p", "Rollout"), "pod a/p has the custom controller Rollout");
  EXPECT_EQ(blocked(kAsItIs, {.skip_custom_controllers = false}, "a/p", "Rollout"), "");
  EXPECT_EQ(blocked(kAsItIs, {.skip_custom_controllers = false}, "a/p", ""),
            "pod a/p has no controller that creates it again");
  EXPECT_EQ(blocked(kAsItIs, {}, "kube-system/p"),
            "pod kube-system/p is of kube-system, and no PodDisruptionBudget selects it");
  EXPECT_EQ(blocked([](auto& pod) { pod.budget = "a/guard"; }, {}, "kube-system/p"), "");
  EXPECT_EQ(blocked(kAsItIs, {.skip_system_pods = false}, "kube-system/p"), "");
  EXPECT_EQ(blocked([](auto& pod) { pod.safe_to_evict = false; }),
            "pod a/p has the annotation safe-to-evict \"false\"");
  EXPECT_EQ(blocked([](auto& pod) { pod.local_volume = "data"; }), "pod a/p has the local volume data");
  EXPECT_EQ(blocked([](auto& pod) { pod.local_volume = "data"; }, {.skip_local_storage = false}), "");
  EXPECT_EQ(blocked([](auto& pod) { pod.blocked_by = "a/guard"; }),
            "pod a/p is protected by PodDisruptionBudget a/guard");
}

TEST(Drainability, SafeToEvictDecidesAlone) {
  EXPECT_EQ(blocked([](auto& pod) { pod.safe_to_evict = true, pod.local_volume = "data"; }, {}, "kube-system/p", ""),
            "");
}

TEST(Drainability, PodsThatDoNotMoveKeepNothing) {
  EXPECT_EQ(blocked(kAsItIs, {}, "a/p", "DaemonSet"), "");
  EXPECT_EQ(blocked([](auto& pod) { pod.kind = NodePod::Kind::kMirror; }, {}, "a/p", ""), "");
  EXPECT_EQ(blocked([](auto& pod) { pod.terminating = true; }, {}, "a/p", ""), "");
}

TEST(ScaleDown, ANodeBelowTheThresholdGoesIfItsPodsFitElsewhere) {
  Fleet fleet;
  fleet.add("n1", node_pods(4, 0, {node_pod("a/1", {.milli = 1900})}));
  fleet.add("n2", node_pods(4, 0, {node_pod("a/2", {.milli = 2100})}));
  const auto found = find_unneeded(fleet.problem);
  EXPECT_EQ(names(fleet.problem, found), Lines{"n1 a/1>n2"});
  EXPECT_EQ(why(fleet.problem, found, "n2"), "52.5% of its cpu is requested, and the threshold is 50.0%");
}

TEST(ScaleDown, AtTheThresholdANodeStays) {
  Fleet fleet;
  fleet.add("n1", node_pods(4, 0, {node_pod("a/1", {.milli = 2000})}));
  fleet.add("n2", node_pods(4, 0, {node_pod("a/2", {.milli = 2000})}));
  EXPECT_EQ(names(fleet.problem, find_unneeded(fleet.problem)), Lines{});
}

TEST(ScaleDown, ThePodsOfSeveralNodesFitTogetherOrTheNodeStays) {
  Fleet fleet;
  fleet.add("n1", node_pods(4, 0, {node_pod("a/1", {.milli = 1500})}));
  fleet.add("n2", node_pods(4, 0, {node_pod("a/2", {.milli = 1600})}));
  fleet.add("n3", node_pods(4, 0, {node_pod("a/3", {.milli = 2400})}));
  const auto found = find_unneeded(fleet.problem);
  EXPECT_EQ(names(fleet.problem, found), Lines{"n1 a/1>n3"});
  EXPECT_EQ(why(fleet.problem, found, "n2"), "pod a/2 fits no other node");
}

// n1 moves to n2 (the only one with room), and then both pods move on.
TEST(ScaleDown, APodMovesAgainWithTheNodeToWhichItMoved) {
  Fleet fleet;
  fleet.add("n1", node_pods(4, 0, {node_pod("a/1", {.milli = 100})}));
  fleet.add("n2", node_pods(4, 0, {node_pod("a/2", {.milli = 200})}));
  fleet.add("n3", node_pods(8, 0, {node_pod("a/3", {.milli = 300})}));
  const auto found = find_unneeded(fleet.problem);
  EXPECT_EQ(broken_rule(fleet.problem, found, {}), "");
  EXPECT_EQ(found.unneeded.size(), 2U);  // one node keeps all three pods
  for (const auto& one : found.unneeded) {
    for (const auto& move : one.moves) EXPECT_EQ(move.to, found.needed.front().node);
  }
}

TEST(ScaleDown, ALaterNodeIsNotTriedWithPodsThatDoNotFitWithTheFirst) {
  Fleet fleet;
  fleet.add("gpu", node_pods(64, 8, {node_pod("a/1", {.gpus = 3})}));
  fleet.add("gpu2", node_pods(64, 8, {node_pod("a/2", {.gpus = 6})}));
  const auto found = find_unneeded(fleet.problem);
  EXPECT_EQ(names(fleet.problem, found), Lines{});
  EXPECT_EQ(why(fleet.problem, found, "gpu"), "pod a/1 fits no other node");
  EXPECT_EQ(why(fleet.problem, found, "gpu2"), "75.0% of its nvidia.com/gpu is requested, and the threshold is 50.0%");
}

TEST(ScaleDown, TheRulesOfTheSchedulerDecideWhatFits) {
  kube_rules::PodRules apart;
  kube_rules::PodTerm term;
  term.topology_key = kHostname;
  term.pods = LabelSelector{{{"app", LabelRequirement::Op::kIn, {"web"}}}};
  apart.anti_affinity = {term};
  Fleet fleet;
  fleet.add("n1", node_pods(4, 0, {node_pod("a/1", {.milli = 100, .labels = {{"app", "web"}}, .rules = apart})},
                            {{kHostname, "n1"}}));
  fleet.add("n2", node_pods(4, 0, {node_pod("a/2", {.milli = 3000, .labels = {{"app", "web"}}})}, {{kHostname, "n2"}}));
  EXPECT_EQ(names(fleet.problem, find_unneeded(fleet.problem)), Lines{});
  fleet.add("n3", node_pods(4, 0, {node_pod("a/3", {.milli = 3000})}, {{kHostname, "n3"}}));
  EXPECT_EQ(names(fleet.problem, find_unneeded(fleet.problem)), Lines{"n1 a/1>n3"});
}

TEST(ScaleDown, ATaintedNodeIsNoDestination) {
  Fleet fleet;
  fleet.add("n1", node_pods(4, 0, {node_pod("a/1", {.milli = 100})}));
  NodePods gpu = node_pods(4, 0, {node_pod("a/2", {.milli = 3000})});
  gpu.taints = {{"nvidia.com/gpu", "", "NoSchedule"}};
  fleet.add("n2", gpu);
  EXPECT_EQ(names(fleet.problem, find_unneeded(fleet.problem)), Lines{});
}

TEST(ScaleDown, APodWithAClaimStaysInItsZone) {
  kube_rules::PodRules claims;
  claims.claims = {"data"};
  const std::string zone(words::kZone);
  Fleet fleet;
  fleet.add("n1", node_pods(4, 0, {node_pod("a/1", {.milli = 100, .rules = claims})}, {{zone, "z1"}}));
  fleet.add("n2", node_pods(4, 0, {node_pod("a/2", {.milli = 3000})}, {{zone, "z2"}}));
  EXPECT_EQ(names(fleet.problem, find_unneeded(fleet.problem)), Lines{});
  fleet.add("n3", node_pods(4, 0, {node_pod("a/3", {.milli = 3000})}, {{zone, "z1"}}));
  EXPECT_EQ(names(fleet.problem, find_unneeded(fleet.problem)), Lines{"n1 a/1>n3"});
}

TEST(ScaleDown, ANodeThatIsDrainedTakesNoPods) {
  Fleet fleet;
  fleet.add("n1", node_pods(4, 0, {node_pod("a/1", {.milli = 100})}));
  fleet.add("n2", node_pods(4, 0, {node_pod("a/2", {.milli = 3000})})).destination = false;
  EXPECT_EQ(why(fleet.problem, find_unneeded(fleet.problem), "n1"), "pod a/1 fits no other node");
}

TEST(ScaleDown, ANodeIsKeptByItsAnnotationOrByWhatTheEngineKnows) {
  Fleet fleet;
  NodePods disabled = node_pods(4, 0, {});
  disabled.scale_down_disabled = true;
  fleet.add("n1", disabled);
  fleet.add("n2", node_pods(4, 0, {})).kept_by = "research/train runs on it";
  fleet.add("n3", node_pods(4, 0, {}));
  const auto found = find_unneeded(fleet.problem);
  EXPECT_EQ(names(fleet.problem, found), Lines{"n3"});
  EXPECT_EQ(why(fleet.problem, found, "n1"), "it has the annotation scale-down-disabled");
  EXPECT_EQ(why(fleet.problem, found, "n2"), "research/train runs on it");
}

TEST(ScaleDown, APodThatCannotBeReadFitsNoNode) {
  Fleet fleet;
  NodePod pod = node_pod("a/1", {.milli = 100});
  pod.rules.clear();
  fleet.add("n1", node_pods(4, 0, {pod}));
  fleet.add("n2", node_pods(4, 0, {node_pod("a/2", {.milli = 3000})}));
  EXPECT_EQ(why(fleet.problem, find_unneeded(fleet.problem), "n1"), "pod a/1 fits no other node");
}

/// Four nodes that are not needed since different times, and one that takes their pods.
class Decision : public ::testing::Test {
 protected:
  Decision() {
    for (int i = 0; i < 4; ++i) {
      const bool empty = i >= 2;
      auto pods = empty ? std::vector<NodePod>{} : std::vector{node_pod(fmt::format("a/{}", i), {.milli = 100})};
      auto& node = fleet_.add(fmt::format("n{}", i), node_pods(4, 0, std::move(pods)));
      node.since = kNow - std::chrono::minutes(20 - i);
      node.unneeded = 10min;
    }
    fleet_.add("big", node_pods(16, 0, {node_pod("a/big", {.milli = 9000})}));
  }
  std::string decide(std::optional<Instant> delayed_until = {}) {
    const auto found = find_unneeded(fleet_.problem);
    const auto decision = decide_scale_down(fleet_.problem, found, kNow, delayed_until);
    EXPECT_EQ(broken_rule(fleet_.problem, found, decision), "");
    wake_ = decision.wake_at;
    held_ = decision.held;
    std::string out;
    for (const std::size_t one : decision.start) out += " " + fleet_.problem.nodes[found.unneeded[one].node].name;
    return out;
  }
  Fleet fleet_;
  std::optional<Instant> wake_;
  Lines held_;
};

TEST_F(Decision, EmptyNodesGoTogetherAndOneWithPodsAtATime) {
  EXPECT_EQ(decide(), " n2 n3 n0");
  EXPECT_EQ(held_, Lines{"node n1 is not needed and stays: 1 nodes are removed already"});
}

TEST_F(Decision, RemovalsInProgressCount) {
  fleet_.problem.draining = 1;
  fleet_.problem.emptying = 9;
  EXPECT_EQ(decide(), " n2");
}

TEST_F(Decision, AGroupKeepsItsMinimum) {
  fleet_.problem.groups[0].min = 4;
  EXPECT_EQ(decide(), " n2");
  EXPECT_EQ(held_.front(), "node n3 is not needed and stays: group asg has its minimum of 4 instances");
}

TEST_F(Decision, TheBudgetsOfTheNodePoolCount) {
  fleet_.problem.groups[0].may_empty = 1;
  fleet_.problem.groups[0].may_drain = 0;
  EXPECT_EQ(decide(), " n2");
}

TEST_F(Decision, ANodeGoesAfterItsTime) {
  for (auto& node : fleet_.problem.nodes) node.since = kNow - 10min + 1s;
  EXPECT_EQ(decide(), "");
  EXPECT_EQ(wake_, kNow + 1s);
  for (auto& node : fleet_.problem.nodes) node.since = kNow - 10min;
  EXPECT_EQ(decide(), " n2 n3 n0");
}

TEST_F(Decision, ADelayHoldsEveryNode) {
  EXPECT_EQ(decide(kNow + 5s), "");
  EXPECT_EQ(wake_, kNow + 5s);
  EXPECT_EQ(decide(kNow), " n2 n3 n0");
}

}  // namespace scale_down_test
}  // namespace qm::autoscaler
