// Consolidation of nodes in use as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/base/parse.hpp"
#include "qm/testing/text.hpp"
#include "test/consolidate/problems.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::consolidate::testing {
namespace consolidation_table_test {

using qm::testing::split;
using qm::testing::table_rows;

// Karpenter v1.14.1: pkg/controllers/disruption/{consolidation,emptiness,suite}_test.go.
// NodePools, by ";" | nodes, by ";" | rules | result | NODES: part of the reason why exactly these are not removed
//   NodePool  NAME budget=N left=RESOURCE:N sells=TYPE:CORES:USD:MARKET:ZONE:HAZARD (from USD on: optional parts)
//             spots=COUNT:CORES:USD (types s1, s2, ... of spot capacity, each more expensive than the one before by a cent)
//   node      NAME[*COUNT] POOL (- = of no NodePool) cores=4 usd=1 zone=a spot hazard=H held (do-not-disrupt) fresh
//             closed (no destination) pods=MILLI:APP:BUDGET+... daemon=MILLI
//   rules     apart=APP (by hostname) spread=APP (by zone, maxSkew 1) here=APP (no new node) evict=BUDGET:N
//             pending=MILLI; - = none
//   result    removed nodes, by ",", or their number  launch=TYPES; - = no plan pays
constexpr const char* kRows = R"(
# Consolidation Delete can delete nodes
p | a p pods=1000 ; b p pods=1000 | - | a
p | a p pods=1000 ; b p usd=3 pods=1000 | - | b
# Consolidation Delete can delete nodes, when non-Karpenter capacity can fit pods
p | a p pods=1000 ; b - | - | a
p | a p cores=2 pods=2000 ; b - cores=16 pods=1000 | - | a | b: the budget of NodePool  allows 0 more
# Consolidation Delete can delete nodes, considers PDB
p | a p usd=3 pods=1000:web:guard ; b p pods=1000 | evict=guard:0 | b | a: PodDisruptionBudget guard allows 0 evictions
p | a*4 p pods=1000:web:guard ; b p cores=16 held | evict=guard:2 | 2
# Consolidation Delete can delete nodes if another nodePool has no node template
q ; p | a p usd=2 pods=1000 ; b p pods=1000 ; c q held | - | a,b
# Candidate Filtering should not consider candidates that are have a non-existent NodePool
p | a other usd=9 pods=1000 ; b p cores=16 pods=1000 | - | b | a: the budget of NodePool other allows 0 more
# Consolidation Delete can delete nodes, considers karpenter.sh/do-not-disrupt set to true on nodes
p | a p usd=3 held pods=1000 ; b p pods=1000 | - | b | a: do-not-disrupt
# Consolidation Delete won't delete node if it would require pods to schedule on an uninitialized node
p | a p pods=1000 ; b p closed held | - | - | a: no running node admits pod
# Consolidation Delete can delete nodes with a permanently pending pod
p | a p pods=1000 ; b p pods=1000 | pending=9000 | a
# Consolidation Delete won't delete nodes if it would make a non-pending pod go pending
p | a p pods=2500 ; b p pods=2500 | - | - | a: no running node admits pod
p | a p pods=1500+1500 ; b p cores=2 pods=1000 | - | b | a: no running node admits pod
# Consolidation Replace can replace node if the candidate is on-demand node
p sells=small:2:0.5 | a p pods=1000 | - | a launch=small
p sells=small:2:0.5 sells=tiny:2:0.3:spot | a p pods=1000 | - | a launch=tiny
# Consolidation Replace can replace node if the candidate is spot node
p sells=small:2:0.5:spot:a:0.01 | a p spot hazard=0.02 pods=1000 | - | a launch=small
p sells=small:2:0.5 | a p spot hazard=0.02 pods=1000 | - | a launch=small
# Consolidation Replace can replace nodes, considers PDB
p sells=small:2:0.5 | a p pods=1000:web:guard | evict=guard:1 | a launch=small
p sells=small:2:0.5 | a p pods=1000:web:guard | evict=guard:0 | - | a: allows 0 evictions
# Consolidation Replace can replace nodes if another nodePool returns no instance types
q ; p sells=small:2:0.5 | a p pods=1000 | - | a launch=small
# Consolidation Replace can replace nodes, considers karpenter.sh/do-not-disrupt set to true on nodes
p sells=small:2:0.5 | a p held pods=1000 | - | - | a: do-not-disrupt
# Consolidation Replace won't replace node if any spot replacement is more expensive
p sells=small:2:1.2:spot | a p pods=1000 | - | - | a: nor does a cheaper new one
# Consolidation Replace won't replace on-demand node if on-demand replacement is more expensive
p sells=small:2:1.2 sells=large:8:0.4 | a p usd=0.4 pods=1000 | - | - | a: nor does a cheaper new one
# Consolidation Replace cannot replace spot with spot if less than minimum InstanceTypes flexibility
p sells=small:2:0.2:spot sells=tiny:2:0.1:spot | a p spot pods=1000 | - | - | a: 2 spot types are cheaper
p sells=small:2:0.2:spot sells=tiny:2:0.1:spot sells=other:2:0.5 | a p spot pods=1000 | - | - | a: spot types are cheaper
# Consolidation Replace spot to spot consolidation should order the instance types by price before enforcing minimum flexibility.
p spots=15:2:0.4 | a p spot pods=1000 | - | a launch=s1
p spots=16:2:0.7 | a p spot pods=1000 | - | a launch=s1
p spots=14:2:0.7 | a p spot pods=1000 | - | - | a: 14 spot types are cheaper
# Consolidation Reserved Capacity can consolidate into reserved capacity for the same instance pool from spot
p sells=4-core:4:0.0001:reserved | a p spot hazard=0.02 pods=1000 | - | a launch=4-core
# Consolidation Multi-NodeClaim can merge 3 nodes into 1 if the candidates have both spot and on-demand
p sells=large:8:1.5 | a p spot hazard=0.02 pods=2500 ; b p pods=2500 ; c p spot hazard=0.01 pods=2500 | - | a,b,c launch=large
# Consolidation Multi-NodeClaim can merge 3 nodes into 1
p sells=large:8:1.5 | a*3 p pods=2500 | - | a1,a2,a3 launch=large
# Consolidation Multi-NodeClaim won't merge 2 nodes into 1 of the same type
p sells=4-core:4:0.9 | a p closed pods=1000 ; b p closed pods=1000 | - | - | a,b: replaced by one of its own kind
# Consolidation Multi-NodeClaim can merge 2 nodes into 1 of the same type in another zone (no upstream test)
p sells=4-core:4:0.9:on-demand:b | a p closed pods=1000 ; b p closed pods=1000 | - | a,b launch=4-core
# Consolidation Budgets should only allow 3 nodes to be deleted in multi node consolidation delete
p budget=3 | a*10 p cores=16 pods=1000 | - | 3
# Consolidation Budgets should allow no nodes from each nodePool to be deleted
p budget=0 | a*3 p cores=16 pods=1000 | - | - | a1: the budget of NodePool p allows 0 more disruptions
# Consolidation Budgets should allow 2 nodes from each nodePool to be deleted
p budget=2 ; q budget=2 | a*3 p cores=16 pods=1000 ; b*3 q cores=16 pods=1000 | - | 4
# Consolidation Budgets should allow all nodes from each nodePool to be deleted
p ; q | a*3 p pods=1000 ; b*3 q pods=1000 ; c - cores=16 | - | 6
# Consolidation Node Lifetime Consideration should consolidate the node with best savings ratio first
p budget=1 | a p usd=1 pods=1000 ; b p usd=3 pods=1000 ; c p usd=2 pods=1000 ; d - | - | b
# Consolidation Topology Consideration won't delete node if it would violate pod anti-affinity
p | a*3 p pods=1000:db | apart=db | - | a1: no running node admits pod
p | a*3 p pods=1000:db ; b - | apart=db | a1
# Consolidation Topology Consideration can replace node maintaining zonal topology spread
p | a p usd=9 zone=a pods=1000:web ; b p zone=b pods=1000:web ; c - zone=b | spread=web | b | a: no running node admits pod
# Emptiness will consider a node with a DaemonSet pod as empty
p | a p daemon=500 ; b p | - | - | a: the nodes have no pods
# Consolidation Delete should not find places for pods of DaemonSets (no upstream test)
p | a p cores=8 pods=1000 daemon=3000 ; b p pods=3000 | - | a
# Consolidation Replace considers the limits of the NodePool (no upstream test)
p left=nodes:0 sells=small:2:0.5 | a p pods=1000 | - | - | a: NodePool p has 0 of nodes left, and the replacements use 1
p left=cpu:2000 sells=small:2:0.5 | a p pods=1000 | - | a launch=small
# Consolidation Replace should not replace the node of a pod that fits no new one (no upstream test)
p sells=small:2:0.5 | a p pods=1000:web | here=web | - | a: it is not planned on a new one
# Consolidation Replace should not replace a replacement again (no upstream test)
p sells=small:2:0.5 | a p fresh pods=1000 | - | - | a: a consolidation has launched node a, and it is not replaced again
p sells=small:2:0.5 | a p fresh pods=1000 ; b - | - | a
)";

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> out;
  for (const auto part : qm::split(text, ':')) out.emplace_back(part);
  return out;
}

std::string part(const std::vector<std::string>& parts, std::size_t number, const char* other) {
  return number < parts.size() ? parts[number] : other;
}

/// A cluster from the cells of a row.
class RowCluster {
 public:
  explicit RowCluster(const std::vector<std::string>& cells) : rules_(cells[2]) {
    for (const auto& text : split(cells[0], ';')) add_pool(qm::testing::Words(text));
    for (const auto& text : split(cells[1], ';')) add_nodes(qm::testing::Words(text));
    for (const auto& [key, value] : rules_.named) {
      const auto parts = parts_of(value);
      if (key == "evict") cluster_.problem.evictions[parts.at(0)] = std::stol(parts.at(1));
      if (key == "pending") cluster_.problem.pending.push_back({"default/pending", kind_of(std::stol(value), "")});
    }
  }

  [[nodiscard]] const Problem& problem() const { return cluster_.problem; }
  [[nodiscard]] const std::string& name(std::size_t node) const {
    return cluster_.problem.nodes[node].view.name.value();
  }
  /// Indices of the nodes with these names.
  [[nodiscard]] std::vector<std::size_t> nodes(const std::string& names) const {
    std::vector<std::size_t> out;
    for (const auto& one : split(names, ',')) {
      for (std::size_t i = 0; i < problem().nodes.size(); ++i) {
        if (name(i) == one) out.push_back(i);
      }
    }
    return out;
  }

 private:
  void add_pool(const qm::testing::Words& words) {
    Pool& pool = cluster_.pool(words.plain.at(0), words.number("budget", 100));
    for (const auto& [key, value] : words.named) {
      const auto parts = parts_of(value);
      if (key == "left") pool.left[parts.at(0)] = std::stol(parts.at(1));
      for (int i = 0; key == "spots" && i < std::stoi(parts.at(0)); ++i) {
        cluster_.type(fmt::format("s{}", i + 1), std::stol(parts.at(1)), std::stod(parts.at(2)) + 0.01 * i, 0, "spot");
      }
      if (key != "sells") continue;
      const auto hazard = part(parts, 5, "");
      cluster_.type(parts.at(0), std::stol(parts.at(1)), std::stod(parts.at(2)), 0, part(parts, 3, "on-demand"),
                    hazard.empty() ? std::nullopt : std::optional(std::stod(hazard)), part(parts, 4, "a"));
    }
  }

  void add_nodes(const qm::testing::Words& words) {
    const std::string word = words.plain.at(0), pool = words.plain.at(1);
    const auto star = word.find('*');
    const long count = star == std::string::npos ? 1 : std::stol(word.substr(star + 1));
    for (long i = 1; i <= count; ++i) {
      const std::string node_name = star == std::string::npos ? word : fmt::format("{}{}", word.substr(0, star), i);
      const auto node = cluster_.node(node_name, pool == "-" ? "" : pool, words.number("cores", 4),
                                      std::stod(words.get("usd", "1")), 0, words.get("zone", "a"));
      Node& view = cluster_.problem.nodes[node];
      view.spot = words.has("spot");
      if (const auto hazard = words.get("hazard"); !hazard.empty()) view.hazard = std::stod(hazard);
      if (words.has("held")) view.held = "do-not-disrupt";
      view.fresh = words.has("fresh");
      view.accepts = !words.has("closed");
      for (const auto& pod : split(words.get("pods"), '+')) {
        const auto parts = parts_of(pod);
        cluster_.pod(node, kind_of(std::stol(parts.at(0)), part(parts, 1, ""))).budget = part(parts, 2, "");
      }
      if (words.number("daemon", 0) > 0) cluster_.pod(node, kind_of(words.number("daemon", 0), "")).stays = true;
    }
  }

  /// A kind with the rules that the row has for the app.
  std::size_t kind_of(std::int64_t milli, const std::string& app) {
    const auto out = cluster_.kind(milli, 0, app);
    PodKind& kind = cluster_.problem.kinds[out];
    const LabelSelector same{{{"app", LabelRequirement::Op::kIn, {app}}}};
    const auto rules = [&](const char* key) { return !app.empty() && rules_.get(key) == app; };
    if (rules("apart")) kind.rules.rules.anti_affinity = {{"kubernetes.io/hostname", same, {}, {}}};
    if (rules("here")) kind.on_new_node.reset();
    if (rules("spread")) {
      kube_rules::Spread spread;
      spread.topology_key = kZone;
      spread.pods = same;
      kind.rules.rules.spread = {spread};
    }
    return out;
  }

  qm::testing::Words rules_;
  ClusterOf cluster_;
};

std::string text_of(const RowCluster& cluster, const std::optional<Plan>& plan, bool count) {
  if (!plan) return "-";
  std::vector<std::string> removed, launched;
  for (const auto node : plan->removed) removed.push_back(cluster.name(node));
  for (const auto& one : plan->launches) launched.push_back(cluster.problem().pools[one.pool].types[one.type].name);
  if (count) return std::to_string(removed.size());
  std::string out = fmt::format("{}", fmt::join(removed, ","));
  if (!launched.empty()) out += fmt::format(" launch={}", fmt::join(launched, ","));
  return out;
}

TEST(Consolidation, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_GE(cells.size(), 4U) << row;
    const RowCluster cluster(cells);
    const auto out = plan(cluster.problem());
    const bool count = cells[3].find_first_not_of("0123456789") == std::string::npos;
    EXPECT_EQ(text_of(cluster, out, count), cells[3]) << row;
    if (out) {
      const Status holds = still_holds(cluster.problem(), *out);
      EXPECT_TRUE(holds) << row << "\n" << (holds ? "" : holds.error().to_string());
    }
    if (cells.size() > 4) {
      const auto colon = cells[4].find(": ");
      const auto removal = plan_removal(cluster.problem(), cluster.nodes(cells[4].substr(0, colon)));
      ASSERT_FALSE(removal) << row;
      EXPECT_NE(removal.error().message.find(cells[4].substr(colon + 2)), std::string::npos) << row << "\n"
                                                                                             << removal.error().message;
    }
  }
  EXPECT_GE(rows.size(), 48U);
}

}  // namespace consolidation_table_test
}  // namespace qm::autoscaler::consolidate::testing
