// Pods with rules about nodes and about other pods, from the facts of the pods to their placement.
#include "qm/kube_rules/text.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace inter_pod_rules_cases_test {

using rules::PodTemplate;

LabelSelector app(const std::string& name) { return {{{"app", LabelRequirement::Op::kIn, {name}}}}; }

PodTemplate labeled(const std::string& name) { return {Namespace("default"), {{"app", name}}, {}}; }

/// Nodes a1, a2 in zone a and b1 in zone b, each with 8 GPUs and its own host label.
class InterPodRules : public ::testing::Test {
 protected:
  InterPodRules() {
    std::vector<Command> batch;
    NodesSynced all;
    for (const char* name : {"a1", "a2", "b1"}) {
      auto facts = node_facts(8);
      facts.labels["zone"] = std::string(name, 1);
      facts.labels["host"] = name;
      batch.emplace_back(NodeUpdated{NodeName(name), facts});
      all.nodes.emplace(name);
    }
    batch.emplace_back(all);
    batch.emplace_back(PodsSynced{});
    script.step(batch);
  }

  /// Submits a gang without admission: its pods exist before the workload is observed. Returns the
  /// decisions, without demand.
  std::string wants(const std::string& uid, int pods, const PodTemplate& like) {
    std::vector<Command> batch;
    for (int i = 0; i < pods; ++i) batch.emplace_back(PodUpdated{pod(uid, i, like)});
    WorkloadUpdated latest;
    latest.spec.uid = WorkloadUid(uid);
    latest.spec.ns = like.ns;
    latest.spec.name = uid;
    latest.spec.pod_sets = {pod_set(pods, 1)};
    latest.phase = WorkloadPhase::kAdmitted;
    latest.attempt = 1;
    batch.emplace_back(latest);
    return published(script.step(batch));
  }
  /// Submits a gang with quota: only the template of its pods exists.
  std::string admit(const std::string& uid, int pods, const PodTemplate& like) {
    return published(script.step({gang_of(uid, pods, like)}));
  }
  /// The lines "reserved w/1 0:a1[0]" and "short w/1 ...".
  static std::string published(const Output& output) { return lines_of(output, {"reserved", "short"}); }
  static PodFacts pod(const std::string& uid, int index, const PodTemplate& like) {
    PodFacts facts;
    facts.uid = fmt::format("{}-{}", uid, index);
    facts.ns = like.ns.value();
    facts.name = facts.uid;
    facts.owner = facts.controller = WorkloadUid(uid);
    facts.attempt = 1;
    facts.pod_set = "main";
    facts.index = index;
    facts.ours = true;
    facts.shape.gpu.whole = 1;
    facts.rules = rules::text_of(like);
    return facts;
  }
  /// Runs a pod of another owner without requests.
  std::string unmanaged_pod(const std::string& uid, const std::string& on, const PodTemplate& like,
                            bool daemon = false) {
    PodFacts facts;
    facts.uid = facts.name = uid;
    facts.ns = like.ns.value();
    facts.node = NodeName(on);
    facts.phase = PodPhase::kRunning;
    facts.daemon = daemon;
    facts.rules = rules::text_of(like);
    return published(script.step({PodUpdated{facts}}));
  }
  std::string gone(const std::string& uid) { return published(script.step({PodDeleted{uid}})); }

  Script script;
};

// Templates count before pods exist: for one another, and for later workloads.
TEST_F(InterPodRules, TemplatesCountBeforePodsExist) {
  auto alone = labeled("a");
  alone.rules.anti_affinity = {{"host", app("a"), {}, LabelSelector{}}};
  EXPECT_EQ(admit("w", 3, alone), "reserved w/1 0:a1[0] 1:a2[0] 2:b1[0]");
  EXPECT_NE(admit("v", 1, alone).find("short v/1"), std::string::npos);
  EXPECT_NE(wants("u", 1, alone).find("short u/1"), std::string::npos);
  EXPECT_EQ(admit("t", 1, labeled("b")).find("short"), std::string::npos);
}

// A template with labels and no rules: existing pods' rules exclude it from their zone, and it counts for later pods.
TEST_F(InterPodRules, LabelsAloneMatchRulesOfOtherPods) {
  auto keeps_apart = labeled("quiet");
  keeps_apart.rules.anti_affinity = {{"zone", app("loud"), {}, {}}};
  unmanaged_pod("s", "a1", keeps_apart);
  EXPECT_EQ(admit("w", 2, labeled("loud")), "reserved w/1 0:b1[0] 1:b1[1]");
  EXPECT_EQ(
      admit("v", 8, labeled("loud")),
      "short v/1 6 of 8 pods fit: 1 eligible nodes have 6 free GPUs, needs 8; 2 whose zone has a pod with anti-affinity "
      "to it");
  // No pod of w exists yet, and still b1 counts as loud.
  auto quiet = labeled("quiet");
  quiet.rules.anti_affinity = {{"host", app("loud"), {}, {}}};
  EXPECT_EQ(admit("u", 8, quiet), "reserved u/1 0:a1[0] 1:a1[1] 2:a1[2] 3:a1[3] 4:a1[4] 5:a1[5] 6:a1[6] 7:a1[7]");
  // Labels that no rule of other pods selects add no constraint: such workloads are placed by their shape alone.
  EXPECT_TRUE(admit("t", 1, labeled("other")).starts_with("reserved t/1"));
  EXPECT_EQ(script.engine().tables().assignments.find(attempt_id("t/1"))->rules,
            std::vector<std::string>{rules::text_of(labeled("other"))});
}

TEST_F(InterPodRules, GatedGangIsPendingForPodAffinity) {
  auto constraints = labeled("b");
  constraints.rules.affinity = {{"zone", app("db"), {}, {}}};
  EXPECT_NE(admit("w", 2, constraints).find("short w/1"), std::string::npos);
  EXPECT_EQ(unmanaged_pod("s", "b1", labeled("db")), "reserved w/1 0:b1[0] 1:b1[1]");
}

TEST_F(InterPodRules, AntiAffinityPlacesOnePodPerNode) {
  auto like = labeled("web");
  like.rules.anti_affinity = {{"host", app("web"), {}, {}}};
  EXPECT_EQ(wants("w", 3, like), "reserved w/1 0:a1[0] 1:a2[0] 2:b1[0]");
  EXPECT_EQ(
      wants("v", 1, like),
      "short v/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 1; 3 whose host has a pod that matches "
      "its anti-affinity");
}

TEST_F(InterPodRules, GangThatCannotSpreadGetsNothing) {
  auto like = labeled("web");
  like.rules.anti_affinity = {{"zone", app("web"), {}, {}}};
  EXPECT_EQ(
      wants("w", 3, like),
      "short w/1 2 of 3 pods fit: 0 eligible nodes have 0 free GPUs, needs 3; 3 whose zone has a pod that matches its "
      "anti-affinity");
  EXPECT_EQ(wants("v", 2, like), "reserved v/1 0:a1[0] 1:b1[0]") << "the attempt leaves no trace in the rule book";
}

TEST_F(InterPodRules, UnmanagedPodsRepelUntilDeleted) {
  auto guard = labeled("guard");
  guard.rules.anti_affinity = {{"zone", app("web"), {}, {}}};
  unmanaged_pod("g1", "a1", guard);
  unmanaged_pod("g2", "b1", guard);
  EXPECT_EQ(wants("w", 1, labeled("web")),
            "short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 1; 3 whose zone has a pod with "
            "anti-affinity to it");
  EXPECT_EQ(wants("other", 1, labeled("other")), "reserved other/1 0:a1[0]");
  EXPECT_EQ(gone("g2"), "reserved w/1 0:b1[0]") << "the free capacity is the same, but the conflicting pod was deleted";
}

TEST_F(InterPodRules, PodsArePendingForPodAffinity) {
  auto client = labeled("client");
  client.rules.affinity = {{"zone", app("db"), {}, {}}};
  EXPECT_EQ(
      wants("w", 2, client),
      "short w/1 0 of 2 pods fit: 0 eligible nodes have 0 free GPUs, needs 2; 3 whose zone has no pod that matches its "
      "affinity");
  EXPECT_EQ(unmanaged_pod("db", "b1", labeled("db")), "reserved w/1 0:b1[0] 1:b1[1]");
}

TEST_F(InterPodRules, PlacedPodSatisfiesPodAffinity) {
  auto client = labeled("client");
  client.rules.affinity = {{"host", app("db"), {}, {}}};
  wants("w", 1, client);
  auto db = labeled("db");
  db.rules.node_selector = {{"zone", "b"}};
  EXPECT_EQ(wants("db", 1, db), "reserved db/1 0:b1[0]; reserved w/1 0:b1[1]");
}

TEST_F(InterPodRules, DaemonsHoldTheirHostPorts) {
  auto daemon = labeled("exporter"), web = labeled("web");
  daemon.rules.ports = {{9400, "TCP", "0.0.0.0"}};
  web.rules.ports = {{9400, "TCP", "10.0.0.1"}};
  unmanaged_pod("d1", "a1", daemon, true);
  unmanaged_pod("d2", "a2", daemon, true);
  EXPECT_EQ(wants("w", 1, web), "reserved w/1 0:b1[0]");
  EXPECT_EQ(
      wants("v", 1, web),
      "short v/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 1; 3 where host port 10.0.0.1:9400/TCP "
      "is in use");
}

// S-069: pods that require NVLink nodes by affinity, in a gang or not, are never bound to a node without the label.
// S-077: the same holds for pods of an admitted workload.
TEST_F(InterPodRules, NodeAffinityIsEnforced) {
  using Op = rules::Requirement::Op;
  auto like = labeled("web");
  like.rules.required = rules::NodeSelector{{{{"zone", Op::kNotIn, {"a"}}}, {}}, {{{"rack", Op::kGt, {"7"}}}, {}}};
  EXPECT_EQ(wants("w", 2, like), "reserved w/1 0:b1[0] 1:b1[1]");
  like.rules.required = rules::NodeSelector{{{{"gpu.nvidia.com/nvlink-enabled", Op::kIn, {"true"}}}, {}}};
  EXPECT_EQ(wants("v", 2, like),
            "short v/1 0 of 2 pods fit: 0 eligible nodes have 0 free GPUs, needs 2; 3 outside the node affinity "
            "(gpu.nvidia.com/nvlink-enabled in (true))");
  auto facts = node_facts(8);
  facts.labels = {{"zone", "a"}, {"host", "a2"}, {"gpu.nvidia.com/nvlink-enabled", "true"}};
  EXPECT_EQ(published(script.step({NodeUpdated{NodeName("a2"), facts}})), "reserved v/1 0:a2[0] 1:a2[1]");
}

// S-077: the topology spread of an admitted workload.
TEST_F(InterPodRules, AGangSpreadsOverZones) {
  auto like = labeled("web");
  rules::Spread even;
  even.topology_key = "zone";
  even.pods = app("web");
  like.rules.spread = {even};
  EXPECT_EQ(wants("w", 4, like), "reserved w/1 0:a1[0] 1:b1[0] 2:a1[1] 3:b1[1]");
}

TEST_F(InterPodRules, SoftRulesChooseAmongNodes) {
  auto like = labeled("web");
  like.rules.preferred_affinity = {{10, {"host", app("db"), {}, {}}}};
  unmanaged_pod("db", "a2", labeled("db"));
  EXPECT_EQ(wants("w", 1, like), "reserved w/1 0:a2[0]");
  like.rules.preferred_affinity.clear();
  like.rules.preferred_anti_affinity = {{10, {"zone", app("db"), {}, {}}}};
  EXPECT_EQ(wants("v", 1, like), "reserved v/1 0:b1[0]");
}

TEST_F(InterPodRules, PodsWithoutRulesDoNotConflict) {
  auto like = labeled("web");
  like.rules.anti_affinity = {{"host", LabelSelector{}, {}, LabelSelector{}}};
  PodFacts unknown;
  unknown.uid = unknown.name = "x";
  unknown.node = NodeName("a1");
  unknown.phase = PodPhase::kRunning;
  script.step({PodUpdated{unknown}});
  unknown.rules = "written by a later release";
  unknown.uid = unknown.name = "y";
  script.step({PodUpdated{unknown}});
  EXPECT_EQ(wants("w", 1, like), "reserved w/1 0:a1[0]");
}

}  // namespace inter_pod_rules_cases_test
}  // namespace qm::placement::testing
