// Disruptions as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/autoscaler/disrupt/disrupt.hpp"
#include "qm/testing/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace disrupt_table_test {

using qm::testing::split;
using qm::testing::table_rows;
using qm::testing::trimmed;

const Instant kNow = from_micros(1'000'000'000'000);

Duration secs(const std::string& text) { return std::chrono::seconds(std::stol(text)); }

std::pair<std::string, std::string> key_value(const std::string& word) {
  const auto eq = word.find('=');
  return {word.substr(0, eq), eq == std::string::npos ? std::string() : word.substr(eq + 1)};
}

/// NAME budget=SHARE[/REASON] after=SECONDS never static bounded backoff=SECONDS
DisruptionPool pool_of(const std::string& text) {
  DisruptionPool out;
  const auto words = split(text, ' ');
  out.name = words.at(0);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto [key, value] = key_value(words[i]);
    if (key == "budget") {
      const auto parts = split(value, '/');
      out.budgets.push_back({parts.at(0), {}, {}, {}});
      if (parts.size() > 1) out.budgets.back().reasons = {parts[1]};
    }
    if (key == "after") out.consolidate_after = secs(value);
    if (key == "never") out.consolidate_after.reset();
    if (key == "static") out.is_static = true;
    if (key == "bounded") out.bounded = true;
    if (key == "backoff") out.drift_after = kNow + secs(value);
  }
  return out;
}

/// NAME[*COUNT] POOL pods=N empty=AGO created=AGO expire=SECONDS drift=REASON@AGO unhealthy=AGO (of the repair) dnd
/// hold=POD (true) hold=POD@SECONDS (since a start 60 s ago) pdb=POD serves disrupted notready reserved nominated
std::vector<DisruptionNode> nodes_of(const std::string& text) {
  DisruptionNode node;
  const auto words = split(text, ' ');
  node.pool = words.at(1);
  for (std::size_t i = 2; i < words.size(); ++i) {
    const auto [key, value] = key_value(words[i]);
    const auto at = value.find('@');
    const std::string name = value.substr(0, at), number = at == std::string::npos ? "" : value.substr(at + 1);
    if (key == "pods") node.pods = std::stol(value);
    if (key == "empty") node.empty_since = kNow - secs(value);
    if (key == "created") node.created = kNow - secs(value);
    if (key == "expire") node.expire_after = secs(value);
    if (key == "drift") node.drift = name, node.drifted_since = kNow - secs(number.empty() ? "0" : number);
    if (key == "unhealthy") node.unhealthy = "Ready is False", node.repair_at = kNow - secs(value);
    if (key == "dnd") node.do_not_disrupt = true;
    if (key == "hold")
      node.holding.push_back({name, number.empty() ? Duration::max() : secs(number), kNow - secs("60"), ""});
    if (key == "pdb") node.holding.push_back({value, {}, {}, "guard"});
    if (key == "serves") node.serves = true;
    if (key == "disrupted") node.disrupted = true;
    if (key == "notready") node.ready = false;
    if (key == "reserved") node.reserved = true;
    if (key == "nominated") node.nominated = true;
  }
  const auto star = words[0].find('*');
  const long count = star == std::string::npos ? 1 : std::stol(words[0].substr(star + 1));
  std::vector<DisruptionNode> out;
  for (long i = 0; i < count; ++i) {
    out.push_back(node);
    out.back().name = star == std::string::npos ? words[0] : fmt::format("{}{}", words[0].substr(0, star), i + 1);
  }
  return out;
}

// Karpenter v1.14.1: pkg/controllers/disruption/{emptiness,drift,staticdrift,suite}_test.go,
// pkg/controllers/nodeclaim/expiration/suite_test.go, pkg/controllers/node/health/suite_test.go.
// pools, by ";" | nodes, by ";" | started: NODE Cause (+ = replaced first), by ","; - = none; N = their number | part
// of the reason why the first other one is held, or seconds until the next look; empty = not checked
constexpr const char* kRows = R"(
# Emptiness Emptiness can delete empty nodes
p after=30 | a p empty=30 | a Empty |
# Emptiness can delete multiple empty nodes
p after=30 | a p empty=90 ; b p empty=45 | a Empty, b Empty |
# Emptiness should wait for the node TTL for empty nodes before consolidating
p after=30 | a p empty=29 | - | 1
# Emptiness Emptiness should ignore nodes without the consolidatable status condition
p never | a p empty=9000 | - |
# Emptiness Emptiness should ignore nodes that have pods
p after=30 | a p pods=1 | - |
# Emptiness Emptiness should ignore nodes with the karpenter.sh/do-not-disrupt annotation
p after=30 | a p empty=30 dnd | - | the node has the annotation
# Candidate Filtering should not consider candidates that have do-not-disrupt daemonset pods scheduled
p after=30 | a p empty=30 hold=kube-system/agent | - | pod kube-system/agent has the annotation
# Candidate Filtering should not consider candidates that have fully blocking PDBs on daemonset pods
p after=30 | a p empty=30 pdb=kube-system/agent | - | PodDisruptionBudget guard
# Emptiness Budgets should only allow 3 empty nodes to be disrupted
p budget=3 | a*10 p empty=1 | 3 | allows 3 of 10 nodes for Empty
p budget=30% | a*10 p empty=1 | 3 |
# Emptiness Budgets should allow all empty nodes to be disrupted
p budget=100% | a*10 p empty=1 | 10 |
# Emptiness Budgets should allow no empty nodes to be disrupted
p budget=0% | a*10 p empty=1 | - | allows 0 of 10
# Emptiness Budgets should allow 2 nodes from each nodePool to be deleted
p budget=2 ; q budget=2 | a*3 p empty=1 ; b*3 q empty=1 | a1 Empty, a2 Empty, b1 Empty, b2 Empty |
# Emptiness Budgets should allow all nodes from each nodePool to be deleted
p budget=100% ; q budget=100% | a*3 p empty=1 ; b*3 q empty=1 | 6 |
# Candidate Filtering should not consider candidates that are nominated
p | a p empty=99 drift=AMIDrift@9 created=31 expire=30 nominated | - |
# Emptiness Buffer pod protection should not disrupt a node that hosts virtual buffer pods
p | a p empty=99 reserved | - |
# Emptiness Buffer pod protection should only protect the specific node with buffer pods, not others
p | a p empty=99 reserved ; b p empty=99 | b Empty |
# Emptiness Buffer pod protection does not keep a drifted node (no upstream test)
p | a p empty=99 drift=AMIDrift@9 reserved | a Drifted |
# Candidate Filtering should not consider candidates that have do-not-disrupt pods scheduled with a terminationGracePeriod set for graceful disruption
p bounded | a p empty=30 hold=kube-system/agent | - | pod kube-system/agent has the annotation
# Candidate Filtering should not consider candidates that have PDB-blocked pods scheduled with a terminationGracePeriod set for graceful disruption
p bounded | a p empty=30 pdb=kube-system/agent | - | allows no eviction of pod kube-system/agent
# BuildDisruptionBudgetMapping should not consider nodes that are not managed as part of disruption count
p budget=50% | a p empty=1 ; b p pods=1 ; c other empty=1 ; d other empty=1 | a Empty |
# BuildDisruptionBudgetMapping should not return a negative disruption value
p budget=1 | a p empty=1 ; b p disrupted ; c p disrupted | - | 2 are disrupted
# BuildDisruptionBudgetMapping should consider nodes with a deletion timestamp set and MarkedForDeletion to the disruption count
p budget=2 | a p empty=1 ; b p empty=1 ; c p disrupted | a Empty | and 2 are disrupted
# BuildDisruptionBudgetMapping should consider not ready nodes to the disruption count
p budget=2 | a p empty=1 ; b p empty=1 ; c p pods=1 notready | a Empty |
p budget=1 | a p empty=1 notready ; b p pods=1 | - | and 1 are disrupted
# Emptiness Emptiness can delete empty and drifted nodes
p | a p drift=AMIDrift@5 empty=1 | a Empty |
# Drift Drift should delete drifted nodes when they are empty and consolidation is disabled
p never | a p drift=AMIDrift@5 empty=1 | a Drifted |
# Drift Drift should replace drifted nodes
p | a p drift=NodePoolDrifted@5 pods=2 | a Drifted+ |
# Drift Drift should ignore nodes without the drifted status condition
p never | a p empty=5 ; b p pods=1 | - |
# Drift Drift should ignore nodes with the karpenter.sh/do-not-disrupt annotation set to true
p | a p drift=AMIDrift@5 pods=1 dnd | - | the node has the annotation
# Candidate Filtering should not consider candidates that have do-not-disrupt pods scheduled without a terminationGracePeriod set for eventual disruption
p | a p drift=AMIDrift@5 pods=1 hold=ml/train | - | pod ml/train has the annotation
# Candidate Filtering should not consider candidates that have PDB-blocked pods scheduled without a terminationGracePeriod set for eventual disruption
p | a p drift=AMIDrift@5 pods=1 pdb=ml/serve | - | allows no eviction of pod ml/serve
# Candidate Filtering should consider candidates that have do-not-disrupt pods scheduled with a terminationGracePeriod set for eventual disruption
p bounded | a p drift=AMIDrift@5 pods=1 hold=ml/train | a Drifted+ |
# Candidate Filtering should consider candidates that have PDB-blocked pods scheduled with a terminationGracePeriod set for eventual disruption
p bounded | a p drift=AMIDrift@5 pods=1 pdb=ml/serve | a Drifted+ |
p bounded | a p drift=AMIDrift@5 pods=1 pdb=ml/serve dnd | - | the node has the annotation
# Drift Budgets should only consider 3 nodes allowed to be disrupted because of budgets
p never budget=3 | a*10 p drift=AMIDrift@5 empty=1 | 3 | for Drifted
p never budget=30%/Drifted budget=0/Empty | a*10 p drift=AMIDrift@5 empty=1 | 3 |
# Drift Budgets should disrupt 3 nodes, taking into account commands in progress
p never budget=3 | a*9 p drift=AMIDrift@5 pods=1 ; b*2 p drift=AMIDrift@5 disrupted | a1 Drifted+ |
# Drift should allow no nodes to be disrupted (no upstream test)
p never budget=0/Drifted | a*10 p drift=AMIDrift@5 empty=1 | - | allows 0 of 10 nodes for Drifted
# Drift Budgets should respect budgets for multiple nodepools
p never budget=2 ; q never budget=2 | a*3 p drift=AMIDrift@5 empty=1 ; b*3 q drift=AMIDrift@5 empty=1 | 4 |
# Drift Drift should drift one non-empty node at a time, starting with the earliest drift
p budget=1 | a p drift=AMIDrift@5 pods=1 ; b p drift=AMIDrift@50 pods=1 ; c p drift=AMIDrift@20 pods=1 | b Drifted+ |
# Drift Drift should drift empty nodes before non-empty nodes
p never budget=2 | a p drift=AMIDrift@500 pods=1 ; b p drift=AMIDrift@5 empty=1 ; c p drift=AMIDrift@6 empty=1 | c Drifted, b Drifted |
# Drift Drift should continue to the next drifted node if the first cannot reschedule all pods
p budget=1 | a p drift=AMIDrift@50 pods=1 hold=ml/train ; b p drift=AMIDrift@5 pods=1 | b Drifted+ |
# Drift should back off in a NodePool when a replacement fails (no upstream test)
p backoff=60 | a p drift=AMIDrift@5 pods=1 | - | backs off
p backoff=60 | a p drift=AMIDrift@5 pods=1 | - | 60
p backoff=0 | a p drift=AMIDrift@5 pods=1 | a Drifted+ |
p backoff=60 ; q | a p drift=AMIDrift@5 pods=1 ; b q drift=AMIDrift@5 pods=1 | b Drifted+ |
# StaticDrift Edge Cases should handle missing node limits gracefully
p static | a p drift=NodePoolDrifted@5 empty=1 ; b p drift=NodePoolDrifted@5 pods=1 | a Drifted+, b Drifted+ |
# StaticDrift Budgets should respect disruption budgets (Nodes Count) for static drift
p static budget=1 | a p drift=NodePoolDrifted@9 pods=1 ; b p drift=NodePoolDrifted@50 pods=1 | b Drifted+ |
# StaticDrift Budgets should respect disruption budgets (Nodes Percentage) for static drift
p static budget=21% | a*9 p drift=NodePoolDrifted@9 pods=1 | 2 | allows 2 of 9 nodes for Drifted
# StaticDrift Budgets should respect budgets for multiple static nodepools
p static budget=1 ; q static budget=2 | a*3 p drift=NodePoolDrifted@9 pods=1 ; b*3 q drift=NodePoolDrifted@9 pods=1 | 3 |
# StaticDrift Multiple NodePools should handle drift for multiple static NodePools independently
p static backoff=60 ; q static | a p drift=NodePoolDrifted@9 pods=1 ; b q drift=NodePoolDrifted@9 | b Drifted+ | backs off
# StaticDrift Edge Cases should ignore nodes without the drifted status condition
p static | a p pods=1 ; b p drift=NodePoolDrifted@9 pods=1 | b Drifted+ |
# StaticDrift Edge Cases should ignore nodes with the karpenter.sh/do-not-disrupt annotation
p static | a p drift=NodePoolDrifted@9 dnd | - | the node has the annotation
# Emptiness Static NodePool should not consolidate static NodePool nodes
p static | a p empty=9000 | - |
# Expiration Expiration should remove nodeclaims that are expired
p | a p created=31 expire=30 pods=1 | a Expired |
p never | a p created=30 expire=30 empty=1 | a Expired |
# Expiration should not remove non-expired NodeClaims
p | a p created=29 expire=30 pods=1 | - | 1
# Expiration should not remove the NodeClaims when expiration is disabled
p | a p created=99999999 pods=1 | - |
# Expiration shouldn't expire the same NodeClaim multiple times
p | a p created=31 expire=30 pods=1 disrupted | - |
# Expiration should return the requeue interval for the time between now and when the nodeClaim expires
p | a p created=100 expire=300 pods=1 ; b p created=100 expire=250 pods=1 | - | 150
# Expiration should remove expired nodes regardless of budgets and of pods that must not be disrupted (no upstream test)
p budget=0 | a p created=31 expire=30 pods=1 dnd hold=ml/train pdb=ml/serve | a Expired |
p budget=1 | a*4 p created=31 expire=30 pods=1 | 4 |
# Expiration should replace the node of a service first (no upstream test)
p | a p created=31 expire=30 pods=3 serves | a Expired+ |
p | a p created=31 expire=30 empty=1 serves | a Expired |
# Node Health Reconciliation should delete nodes that are unhealthy by the cloud provider
p | a p unhealthy=0 pods=1 notready ; b*4 p pods=1 | a Unhealthy |
# Node Health Reconciliation should not delete node when health duration is not reached
p | a p unhealthy=-60 pods=1 notready ; b*4 p pods=1 | - | 60
# Node Health Reconciliation should return the requeue interval for the condition closest to its terminationDuration
p | a p unhealthy=-60 pods=1 ; b p unhealthy=-40 pods=1 ; c*8 p pods=1 | - | 40
# Node Health Forceful termination should ignore node disruption budgets
p budget=0 | a p unhealthy=1 pods=1 notready ; b*4 p pods=1 | a Unhealthy |
# Node Health Forceful termination should ignore do-not-disrupt on a node
p | a p unhealthy=1 pods=1 dnd hold=ml/train ; b*4 p pods=1 | a Unhealthy |
# Node Health Forceful termination should ignore unhealthy nodes if more then 20% of the nodes are unhealthy in a nodepool
p | a*3 p unhealthy=1 pods=1 ; b*7 p pods=1 | - | 3 of 10 nodes of the NodePool are unhealthy, and none is repaired above 2
p | a*2 p unhealthy=1 pods=1 ; b*8 p pods=1 | a1 Unhealthy, a2 Unhealthy |
# Node Health Forceful termination should consider round up when there is a low number of nodes for a nodepool
p | a p unhealthy=1 pods=1 ; b p pods=1 | a Unhealthy |
p | a p unhealthy=1 pods=1 | a Unhealthy |
p | a*2 p unhealthy=1 pods=1 ; b p pods=1 | - | 2 of 3 nodes
# Disruption should not disrupt a node for two reasons (no upstream test)
p | a p created=31 expire=30 drift=AMIDrift@5 empty=9 unhealthy=1 | a Expired |
# Candidate Filtering should not consider candidates that are actively being processed in the queue
p | a p drift=AMIDrift@5 empty=9 disrupted | - |
# Drift Drift should not drift nodes with pods that have a duration-based do-not-disrupt annotation that is still active
p | a p drift=AMIDrift@5 pods=1 hold=ml/train@100 | - | 40
p | a p drift=AMIDrift@5 pods=1 hold=ml/train@61 | - | pod ml/train has the annotation
p | a p drift=AMIDrift@5 pods=1 hold=ml/train@60 | a Drifted+ |
# Drift Drift should not drift nodes until the longest duration-based do-not-disrupt grace period expires across multiple pods
p | a p drift=AMIDrift@5 pods=2 hold=ml/a@70 hold=ml/b@90 | - | 30
p | a p drift=AMIDrift@5 pods=2 hold=ml/a@70 hold=ml/b | - | pod ml/b
)";

std::string text_of(const DisruptionProblem& problem, const DisruptionDecision& decision) {
  std::vector<std::string> out;
  for (const auto& one : decision.start)
    out.push_back(
        fmt::format("{} {}{}", problem.nodes[one.node].name, name_of(one.cause), one.replace_first ? "+" : ""));
  return out.empty() ? "-" : fmt::format("{}", fmt::join(out, ", "));
}

bool is_number(const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; }

TEST(Disrupt, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_GE(cells.size(), 3U) << row;
    DisruptionProblem problem;
    problem.now = kNow;
    for (const auto& part : split(cells[0], ';')) problem.pools.push_back(pool_of(trimmed(part)));
    for (const auto& part : split(cells[1], ';')) {
      for (auto& node : nodes_of(trimmed(part))) problem.nodes.push_back(std::move(node));
    }
    const auto decision = decide_disruptions(problem, next_in_utc);
    const std::string expected = cells[2], rest = cells.size() > 3 ? cells[3] : "";
    if (is_number(expected)) {
      EXPECT_EQ(decision.start.size(), std::stoul(expected)) << row;
    } else {
      EXPECT_EQ(text_of(problem, decision), expected) << row;
    }
    EXPECT_EQ(broken_rule(problem, decision, next_in_utc), "") << row;
    if (!rest.empty() && is_number(rest)) {
      ASSERT_TRUE(decision.wake_at) << row;
      EXPECT_EQ(*decision.wake_at - kNow, secs(rest)) << row;
    } else if (!rest.empty()) {
      ASSERT_FALSE(decision.held.empty()) << row;
      EXPECT_NE(decision.held.front().why.find(rest), std::string::npos) << row << ": " << decision.held.front().why;
    }
  }
  EXPECT_GE(rows.size(), 79U);
}

// The checker is of use: it finds each kind of a decision that breaks a rule.
TEST(Disrupt, TheCheckerFindsWhatADecisionIgnores) {
  DisruptionProblem problem;
  problem.now = kNow;
  problem.pools = {pool_of("p budget=1"), pool_of("q")};
  for (const char* text : {"a p empty=1", "b p empty=1", "c q pods=1 drift=AMIDrift@1 hold=ml/train", "d q pods=1",
                           "e q pods=1 unhealthy=1", "f q pods=1 unhealthy=1"}) {
    problem.nodes.push_back(nodes_of(text).front());
  }
  const auto broken = [&](std::vector<Disruption> start) {
    return broken_rule(problem, {std::move(start), {}, {}}, next_in_utc);
  };
  using enum DisruptionCause;
  EXPECT_EQ(broken({{0, kEmpty, false}}), "");
  EXPECT_EQ(broken({{0, kEmpty, false}, {1, kEmpty, false}}),
            "NodePool p has 2 disrupted nodes, and its budget allows 1");
  EXPECT_EQ(broken({{0, kEmpty, false}, {0, kEmpty, false}}), "node a is disrupted twice");
  EXPECT_NE(broken({{2, kDrifted, true}}).find("node c is held"), std::string::npos);
  EXPECT_EQ(broken({{3, kExpired, false}}), "node d is not Expired");
  EXPECT_NE(broken({{4, kUnhealthy, false}}).find("too much of its NodePool"), std::string::npos);
  EXPECT_EQ(broken({{9, kEmpty, false}}), "node 9 does not exist");
}

}  // namespace disrupt_table_test
}  // namespace qm::autoscaler
