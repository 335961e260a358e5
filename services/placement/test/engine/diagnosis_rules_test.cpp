// Why a gang is unschedulable when claims, neighbors and defaults prevent placement, and the
// remedies: cases, and random fleets where the engine tries each remedy.
#include "qm/kube_rules/text.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::placement::testing {
namespace diagnosis_rules_test {

using rules::PodTemplate;
using rules::Requirement;
using Words = std::vector<std::string>;

LabelSelector app(const std::string& name) { return {{{"app", LabelRequirement::Op::kIn, {name}}}}; }

std::string in_zone(const std::string& zone) {
  PodTemplate like;
  like.rules.volumes = {{"any", {{{{"zone", Requirement::Op::kIn, {zone}}}, {}}}}};
  return rules::text_of(like);
}

Words words_of(const Diagnosis& obstacles) {
  Words out;
  for (const auto& way : obstacles.remedies) out.push_back(way.words);
  return out;
}

/// Nodes a1 and a2 in zone a, b1 in zone b, each with 8 GPUs and its own host label; volumes pv-a
/// and pv-b in their zones.
class DiagnosisRules : public ::testing::Test {
 protected:
  DiagnosisRules() {
    std::vector<Command> batch;
    NodesSynced all;
    for (const char* name : {"a1", "a2", "b1"}) {
      batch.emplace_back(NodeUpdated{NodeName(name), facts(name)});
      all.nodes.emplace(name);
    }
    batch.emplace_back(all);
    batch.emplace_back(PodsSynced{});
    batch.emplace_back(StorageUpdated{"volume/pv-a", Volume{in_zone("a")}});
    batch.emplace_back(StorageUpdated{"volume/pv-b", Volume{in_zone("b")}});
    batch.emplace_back(StorageSynced{"class", {}});
    batch.emplace_back(StorageSynced{"volume", {"volume/pv-a", "volume/pv-b"}});
    batch.emplace_back(StorageSynced{"claim", {}});
    script.step(batch);
  }
  static NodeFacts facts(const std::string& name) {
    auto out = node_facts(8);
    out.labels["zone"] = name.substr(0, 1);
    out.labels["host"] = name;
    return out;
  }
  void claim(const std::string& name, const Claim& what) {
    script.step({StorageUpdated{"claim/default/" + name, what}});
  }
  static PodTemplate labeled(const std::string& name) { return {Namespace("default"), {{"app", name}}, {}}; }
  void unmanaged_pod(const std::string& uid, const std::string& on, const PodTemplate& like) {
    PodFacts pod;
    pod.uid = pod.name = uid;
    pod.ns = like.ns.value();
    pod.node = NodeName(on);
    pod.phase = PodPhase::kRunning;
    pod.rules = rules::text_of(like);
    script.step({PodUpdated{pod}});
  }
  static PodSet set_of(std::int32_t pods, std::int64_t gpus, const PodTemplate& like) {
    auto out = pod_set(pods, gpus);
    out.rules = rules::text_of(like);
    return out;
  }
  /// The causes for these pod sets; every remedy that the gang can apply by itself is tried.
  Diagnosis of(const std::vector<PodSet>& sets, const std::string& uid = {}) {
    const WorkloadUid whose(uid);
    const auto& engine = script.engine();
    auto found = engine.diagnose(sets, whose);
    EXPECT_EQ(found.conflict.empty(), engine.dry_run(sets, whose).plan.has_value());
    for (const auto& way : found.remedies) {
      if (!way.change) continue;
      auto changed = engine.request_of(sets, whose);
      way.change(changed);
      EXPECT_TRUE(engine.dry_run(changed, whose).plan) << way.words;
    }
    return found;
  }
  Script script;
};

TEST_F(DiagnosisRules, VolumeIsInAnotherZone) {
  claim("data", {"pv-b", "", "", false});
  auto like = labeled("x");
  like.rules.claims = {"data"};
  auto found = of({set_of(2, 8, like)});
  EXPECT_EQ(found.conflict,
            (Words{"8 GPUs for each of 2 pods", "claim data with volume pv-b, in reach where zone in (b)"}));
  EXPECT_EQ(words_of(found), (Words{"with 1 pod instead of 2", "with at most 4 GPUs a pod", "without claim data"}));
  EXPECT_TRUE(of({set_of(1, 8, like)}).conflict.empty());
  // Two volumes without a common node: both are the gang's own, and no resource is a cause.
  claim("more", {"pv-a", "", "", false});
  like.rules.claims = {"data", "more"};
  found = of({set_of(1, 1, like)});
  EXPECT_EQ(found.conflict, (Words{"claim data with volume pv-b, in reach where zone in (b)",
                                   "claim more with volume pv-a, in reach where zone in (a)"}));
  EXPECT_EQ(words_of(found), (Words{"without claim data", "without claim more"}));
}

TEST_F(DiagnosisRules, ClaimDoesNotExist) {
  auto like = labeled("x");
  like.rules.claims = {"data"};
  const auto found = of({set_of(1, 1, like)});
  EXPECT_EQ(found.conflict, Words{"claim data does not exist"});
  EXPECT_EQ(words_of(found), Words{"without claim data"});
}

TEST_F(DiagnosisRules, ClaimOfSingleNode) {
  claim("data", {"pv-a", "", "", true});
  auto like = labeled("x");
  like.rules.claims = {"data"};
  const auto found = of({set_of(3, 4, like)});
  EXPECT_EQ(found.conflict,
            Words{"claim data with volume pv-a, in reach where zone in (a), used on one node at a time"});
  const auto remedies = words_of(found);
  EXPECT_NE(std::ranges::find(remedies, "without claim data"), remedies.end());
  EXPECT_NE(std::ranges::find(remedies, "with 2 pods instead of 3"), remedies.end());
}

TEST_F(DiagnosisRules, AntiAffinityOfRunningPods) {
  for (const char* on : {"a1", "a2", "b1"}) unmanaged_pod(std::string("s-") + on, on, labeled("loud"));
  auto like = labeled("quiet");
  like.rules.anti_affinity = {{"host", app("loud"), {}, {}}};
  auto found = of({set_of(1, 1, like)});
  EXPECT_EQ(found.conflict, Words{"pod anti-affinity to app=loud on host"});
  EXPECT_EQ(words_of(found), Words{"without pod anti-affinity to app=loud on host"});
  // The reverse: the running pods have the anti-affinity.
  auto guard = labeled("guard");
  guard.rules.anti_affinity = {{"zone", app("late"), {}, {}}};
  unmanaged_pod("g1", "a1", guard);
  unmanaged_pod("g2", "b1", guard);
  found = of({set_of(1, 1, labeled("late"))});
  EXPECT_EQ(found.conflict, Words{"pods whose anti-affinity matches its labels"});
  EXPECT_EQ(words_of(found), Words{"with labels that no pod anti-affinity matches"});
  // The pod that its affinity requires does not exist.
  auto client = labeled("client");
  client.rules.affinity = {{"zone", app("db"), {}, {}}};
  found = of({set_of(1, 1, client)});
  EXPECT_EQ(found.conflict, Words{"pod affinity to app=db on zone"});
  EXPECT_EQ(words_of(found), Words{"without pod affinity to app=db on zone"});
}

TEST_F(DiagnosisRules, AntiAffinityAmongOwnPods) {
  auto like = labeled("web");
  like.rules.anti_affinity = {{"zone", app("web"), {}, {}}};
  auto found = of({set_of(3, 1, like)});
  EXPECT_EQ(found.conflict, Words{"pod anti-affinity to app=web on zone"});
  EXPECT_EQ(words_of(found), (Words{"with 2 pods instead of 3", "without pod anti-affinity to app=web on zone"}));
  like.rules.anti_affinity.clear();
  like.rules.ports = {{9400, "TCP", "0.0.0.0"}};
  found = of({set_of(4, 1, like)});
  EXPECT_EQ(found.conflict, Words{"host port 9400/TCP"});
  EXPECT_EQ(words_of(found), (Words{"with 3 pods instead of 4", "without host port 9400/TCP"}));
}

// Counts of nodes cannot show this cause, decisions can: two zones that must stay balanced, of which one is full.
TEST_F(DiagnosisRules, SpreadOverFullZone) {
  auto like = labeled("web");
  rules::Spread even;
  even.topology_key = "zone";
  even.pods = app("web");
  like.rules.spread = {even};
  const auto found = of({set_of(3, 8, like)});
  EXPECT_TRUE(found.conflict.empty()) << "two and one";
  script.run("unmanaged s on=b1 gpus=8\n");
  const auto stuck = of({set_of(2, 8, like)});
  EXPECT_EQ(stuck.conflict, (Words{"8 GPUs for each of 2 pods", "topology spread of app=web over zone"}));
  EXPECT_EQ(words_of(stuck), (Words{"with 1 pod instead of 2", "without its topology spread"}));
}

TEST_F(DiagnosisRules, NodeAffinityAndSelectorAreRemedies) {
  auto like = labeled("x");
  like.rules.required = rules::NodeSelector{{{{"zone", Requirement::Op::kNotIn, {"a", "b"}}}, {}}};
  auto found = of({set_of(1, 1, like)});
  EXPECT_EQ(found.conflict, Words{"node affinity (zone not in (a, b))"});
  EXPECT_EQ(words_of(found), Words{"without its node affinity"});
  // The shape has a copy of the requirement from the affinity: both have it.
  like.rules.required = rules::NodeSelector{{{{"zone", Requirement::Op::kIn, {"c"}}}, {}}};
  auto set = set_of(1, 1, like);
  set.shape.node_selector["zone"] = "c";
  found = of({set});
  EXPECT_EQ(found.conflict, Words{"selector zone=c"});
  EXPECT_EQ(words_of(found), Words{"without selector zone=c"});
}

// Workload types and their default GPUs: known only through the workload.
TEST_F(DiagnosisRules, DefaultsOfWorkloadType) {
  Script other;
  ASSERT_EQ(other.run(R"(
    node sliced gpus=4 label=nvidia.com/gpu.replicas=4
    node full gpus=2
    synced
  )"),
            "");
  WorkloadUpdated online;
  online.spec.uid = WorkloadUid("o");
  online.spec.name = "o";
  online.spec.labels[std::string(kWorkloadType)] = "inference";
  online.spec.pod_sets = {pod_set(1, 1)};
  online.spec.pod_sets[0].shape.node_selector["nvidia.com/gpu.replicas"] = "4";
  online.phase = WorkloadPhase::kQuotaReserved;
  WorkloadUpdated training = online;
  training.spec.uid = WorkloadUid("t");
  training.spec.labels[std::string(kWorkloadType)] = "training";
  training.spec.pod_sets = {pod_set(3, 1)};
  (void)other.step({online, training});
  const auto& engine = other.engine();
  const auto& sets = training.spec.pod_sets;
  auto found = engine.diagnose(sets, WorkloadUid("t"));
  EXPECT_EQ(found.conflict, (Words{"1 GPU for each of 3 pods", "no pods for inference on the node"}));
  EXPECT_EQ(words_of(found),
            (Words{"with 2 pods instead of 3", "on a node with pods for inference and with GPUs in slices too"}));
  EXPECT_TRUE(engine.diagnose(sets).conflict.empty()) << "without a workload type they fit";
  (void)other.step({WorkloadUpdated{{.uid = WorkloadUid("o")}, 1, WorkloadPhase::kCancelled, {}, {}, {}}});
  (void)other.step({WorkloadUpdated{training.spec, 1, WorkloadPhase::kPending, {}, {}, {}}});
  found = engine.diagnose(sets, WorkloadUid("t"));
  EXPECT_EQ(found.conflict, (Words{"1 GPU for each of 3 pods", "whole GPUs, the default for its type"}));
  EXPECT_EQ(words_of(found), (Words{"with 2 pods instead of 3", "with GPUs in slices too"}));
  auto changed = engine.request_of(sets, WorkloadUid("t"));
  found.remedies[1].change(changed);
  EXPECT_TRUE(engine.dry_run(changed, WorkloadUid("t")).plan);
}

// A gang with one set that has anti-affinity to the other set: only both together are unschedulable.
TEST_F(DiagnosisRules, AntiAffinityBetweenPodSets) {
  auto leader = labeled("leader"), worker = labeled("worker");
  worker.rules.anti_affinity = {{"zone", app("leader"), {}, {}}};
  auto one = set_of(1, 1, leader), many = set_of(1, 8, worker);
  one.name = "leader";
  many.name = "workers";
  for (auto* set : {&one, &many}) set->shape.node_selector["zone"] = "a";
  const auto found = of({one, many});
  EXPECT_EQ(found.conflict, (Words{"leader: selector zone=a", "workers: pod anti-affinity to app=leader on zone"}))
      << "the decision places the larger set first";
  EXPECT_EQ(words_of(found),
            (Words{"leader: without selector zone=a", "workers: without pod anti-affinity to app=leader on zone"}));
}

TEST(DiagnosisRulesLaws, EachRemedyMakesItFit) {
  std::mt19937_64 random(11);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const auto letter = [&](std::uint64_t n) { return std::string(1, static_cast<char>('a' + below(n))); };
  int stuck = 0, tried = 0, named = 0;
  for (int round = 0; round < 400; ++round) {
    Script script;
    std::vector<Command> batch;
    NodesSynced all;
    const auto nodes = 2 + below(5);
    for (std::int64_t i = 0; i < nodes; ++i) {
      const NodeName name(fmt::format("n{}", i));
      auto facts = node_facts(static_cast<std::int32_t>(2 * below(4)));
      facts.labels["zone"] = letter(3);
      facts.labels[std::string(kHostname)] = name.value();
      if (below(4) == 0) facts.taints.push_back({"gpu", "", "NoSchedule"});
      if (below(5) == 0) facts.labels["nvidia.com/gpu.replicas"] = "2";
      if (below(6) == 0) facts.pods = below(3);
      batch.emplace_back(NodeUpdated{name, facts});
      all.nodes.insert(name);
    }
    batch.emplace_back(all);
    batch.emplace_back(PodsSynced{});
    for (const char* zone : {"a", "b", "c"})
      batch.emplace_back(StorageUpdated{fmt::format("volume/pv-{}", zone), Volume{in_zone(zone)}});
    for (int i = 0; i < 3; ++i) {
      batch.emplace_back(StorageUpdated{fmt::format("claim/default/c{}", i),
                                        Claim{below(5) == 0 ? "" : "pv-" + letter(3), "", "", below(3) == 0}});
    }
    for (const char* kind : {"class", "volume", "claim"}) {
      StorageSynced synced{kind, {}};
      for (const auto& command : batch) {
        if (const auto* seen = std::get_if<StorageUpdated>(&command); seen != nullptr) synced.keys.insert(seen->key);
      }
      batch.emplace_back(synced);
    }
    for (std::int64_t i = below(4); i > 0; --i) {
      PodFacts pod;
      pod.uid = pod.name = fmt::format("s{}", i);
      pod.ns = "default";
      pod.node = NodeName(fmt::format("n{}", below(static_cast<std::uint64_t>(nodes))));
      pod.phase = PodPhase::kRunning;
      pod.shape.gpu.whole = below(3);
      if (below(3) == 0) pod.workload_type = below(2) == 0 ? "training" : "inference";
      PodTemplate like{Namespace("default"), {{"app", letter(3)}}, {}};
      if (below(3) == 0) like.rules.anti_affinity = {{"zone", app(letter(3)), {}, {}}};
      pod.rules = rules::text_of(like);
      batch.emplace_back(PodUpdated{pod});
    }
    WorkloadUpdated latest;
    latest.spec.uid = WorkloadUid("w");
    latest.spec.name = "w";
    if (below(2) == 0) latest.spec.labels[std::string(kWorkloadType)] = below(2) == 0 ? "training" : "inference";
    for (auto i = below(4) == 0 ? 2 : 1; i > 0; --i) {
      PodTemplate like{Namespace("default"), {{"app", letter(3)}}, {}};
      auto& r = like.rules;
      for (int c = 0; c < 3; ++c) {
        if (below(5) == 0) r.claims.push_back(fmt::format("c{}", c));
      }
      const std::string keys[] = {"zone", std::string(kHostname)};
      if (below(3) == 0) r.anti_affinity = {{keys[below(2)], app(letter(3)), {}, {}}};
      if (below(5) == 0) r.affinity = {{keys[below(2)], app(letter(3)), {}, {}}};
      if (below(5) == 0) {
        rules::Spread even;
        even.topology_key = "zone";
        even.pods = app(letter(3));
        r.spread = {even};
      }
      if (below(6) == 0) r.ports = {{9400, "TCP", "0.0.0.0"}};
      if (below(6) == 0) r.required = rules::NodeSelector{{{{"zone", Requirement::Op::kNotIn, {letter(3)}}}, {}}};
      auto set = pod_set(static_cast<std::int32_t>(1 + below(4)), below(4));
      set.name = fmt::format("s{}", i);
      set.rules = rules::text_of(like);
      if (below(5) == 0) set.shape.node_selector["zone"] = r.node_selector["zone"] = letter(3);
      if (below(5) == 0) set.min_count = 1;
      if (below(6) == 0) set.topology.required = kHostname;
      latest.spec.pod_sets.push_back(set);
    }
    latest.phase = WorkloadPhase::kPending;
    latest.attempt = 1;
    batch.emplace_back(latest);
    script.step(batch);
    const auto& engine = script.engine();
    const auto& sets = latest.spec.pod_sets;
    const auto sizes = engine.digest();
    const auto found = engine.diagnose(sets, latest.spec.uid);
    const bool fits = engine.dry_run(minimum_of(sets), latest.spec.uid).plan.has_value();
    ASSERT_EQ(found.conflict.empty(), fits) << round << " " << engine.dry_run(sets, latest.spec.uid).shortfall.reason;
    ASSERT_EQ(engine.digest(), sizes);
    engine.audit();
    stuck += fits ? 0 : 1;
    for (const auto& demand : found.conflict) {
      named += demand.find("neighbours") != std::string::npos || demand.find("claim") != std::string::npos ? 1 : 0;
    }
    for (const auto& way : found.remedies) {
      if (!way.change) continue;
      auto changed = engine.request_of(minimum_of(sets), latest.spec.uid);
      way.change(changed);
      ASSERT_TRUE(engine.dry_run(changed, latest.spec.uid).plan) << "round " << round << ": " << way.words;
      ++tried;
    }
  }
  EXPECT_GT(stuck, 100);
  EXPECT_GT(tried, 100);
  EXPECT_GT(named, 50);
}

}  // namespace diagnosis_rules_test
}  // namespace qm::placement::testing
