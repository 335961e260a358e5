// Why a gang is unschedulable, and the remedies: cases, and random fleets where each remedy is tried.
#include "qm/placement/diagnosis.hpp"

#include "script.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::placement {
namespace diagnosis_test {

using testing::node_facts;
using testing::pod_set;

/// Pods without rules, on free capacity without rows.
class Plain final : public Trial {
 public:
  explicit Plain(const Preference& preference) : preference_(preference) {}
  [[nodiscard]] Demands demands(const PlacementRequest&, std::size_t) const override { return {}; }
  [[nodiscard]] PlacementResult place(const PlacementRequest& asked, FreeCapacity& free_capacity) const override {
    return place_gang(asked.pod_sets, free_capacity, preference_);
  }
  [[nodiscard]] std::optional<Diagnosis> near(const PlacementRequest&, const FreeCapacity&) const override {
    return std::nullopt;
  }

 private:
  const Preference& preference_;
};

struct Fleet {
  std::map<NodeName, NodeFacts> facts;
  FreeCapacity free_capacity;
  Preference preference;

  NodeCapacity& add(const std::string& name, NodeFacts made) {
    const NodeName node(name);
    NodeCapacity capacity;
    capacity.facts = &(facts[node] = std::move(made));
    capacity.usable = true;
    capacity.cpu_milli = capacity.facts->cpu_milli;
    capacity.memory_bytes = capacity.facts->memory_bytes;
    capacity.extended = capacity.facts->extended;
    capacity.free_milli.assign(static_cast<std::size_t>(capacity.facts->gpus), 1000);
    return free_capacity[node] = capacity;
  }
  Diagnosis of(const std::vector<PodSet>& pod_sets) {
    preference.prepare(free_capacity);
    return diagnose_request({pod_sets, {}}, free_capacity, Plain(preference));
  }
};

using Words = std::vector<std::string>;

Words words_of(const Diagnosis& obstacles) {
  Words out;
  for (const auto& way : obstacles.remedies) out.push_back(way.words);
  return out;
}

TEST(Diagnosis, FittingRequestHasNoDiagnosis) {
  Fleet fleet;
  fleet.add("a", node_facts(8));
  const auto none = fleet.of({pod_set(4, 2)});
  EXPECT_TRUE(none.pod_set.empty());
  EXPECT_TRUE(none.conflict.empty());
  EXPECT_TRUE(none.remedies.empty());
}

TEST(Diagnosis, TooFewDevices) {
  Fleet fleet;
  fleet.add("a", node_facts(8));
  fleet.add("b", node_facts(4));
  const auto found = fleet.of({pod_set(3, 5)});
  EXPECT_EQ(found.conflict, Words{"5 GPUs for each of 3 pods"});
  EXPECT_EQ(words_of(found), (Words{"with 1 pod instead of 3", "with at most 4 GPUs a pod"}));
}

TEST(Diagnosis, SelectorAndTaintTogether) {
  Fleet fleet;
  auto train = node_facts(8);
  train.labels["pool"] = "train";
  train.taints.push_back({"gpu", "", "NoSchedule"});
  fleet.add("a", train);
  fleet.add("b", node_facts(8));
  auto set = pod_set(2, 4);
  set.shape.node_selector["pool"] = "train";
  const auto found = fleet.of({set});
  EXPECT_EQ(found.conflict, (Words{"selector pool=train", "no toleration of gpu:NoSchedule"}));
  EXPECT_EQ(words_of(found), (Words{"without selector pool=train", "with taint gpu:NoSchedule tolerated"}));
  set.count = 3;
  EXPECT_EQ(words_of(fleet.of({set})), (Words{"without selector pool=train and with taint gpu:NoSchedule tolerated"}));
}

TEST(Diagnosis, SmallerGangWithoutSelector) {
  Fleet fleet;
  fleet.add("a", node_facts(8));
  fleet.add("b", node_facts(8));
  auto set = pod_set(6, 8);
  set.shape.node_selector["pool"] = "train";
  const auto found = fleet.of({set});
  EXPECT_EQ(found.conflict, Words{"8 GPUs for each of 6 pods"}) << "whatever is selected";
  EXPECT_EQ(words_of(found), Words{"with 2 pods instead of 6 and without selector pool=train"});
}

TEST(Diagnosis, ModelsAndNodesOutOfService) {
  Fleet fleet;
  auto other = node_facts(8);
  other.model = "A100";
  fleet.add("a", other);
  auto& cordoned = fleet.add("b", node_facts(8));
  cordoned.usable = false;
  cordoned.why_not = "cordoned";
  auto set = pod_set(1, 8);
  set.shape.gpu.models = {"H100"};
  const auto found = fleet.of({set});
  EXPECT_EQ(found.conflict, (Words{"GPU model H100", "nodes in service"}));
  EXPECT_EQ(words_of(found), (Words{"with GPU model A100 too", "with all nodes back in service"}));
}

TEST(Diagnosis, ExclusiveNodes) {
  Fleet fleet;
  fleet.add("a", node_facts(8)).alone = true;
  const auto found = fleet.of({pod_set(1, 1)});
  EXPECT_EQ(found.conflict, Words{"nodes that are not exclusive to another gang"});
  EXPECT_EQ(words_of(found), Words{"with the nodes that are exclusive to another gang"});
}

TEST(Diagnosis, SingleNumaNodePolicy) {
  Fleet fleet;
  auto facts = node_facts(8);
  facts.numa.policy = TopologyPolicy::kSingleNumaNode;
  facts.numa.zones = {{0, 0, {0, 1, 2, 3}}, {0, 0, {4, 5, 6, 7}}};
  fleet.add("a", facts).zones.resize(2);
  const auto found = fleet.of({pod_set(1, 6)});
  EXPECT_EQ(found.conflict, Words{"one NUMA node, as the nodes require, for each of 1 pods"});
  EXPECT_TRUE(fleet.of({pod_set(2, 4)}).conflict.empty());
}

TEST(Diagnosis, PartialCpu) {
  Fleet fleet;
  fleet.add("a", node_facts(8)).cpu_milli = 10'500;
  auto set = pod_set(2, 1);
  set.shape.cpu_milli = 6'000;
  const auto found = fleet.of({set});
  EXPECT_EQ(found.conflict, Words{"6 CPUs for each of 2 pods"});
  EXPECT_EQ(words_of(found), (Words{"with 1 pod instead of 2", "with at most 5250m CPU a pod"}));
}

TEST(Diagnosis, SharesAndCountedResources) {
  Fleet fleet;
  auto& capacity = fleet.add("a", node_facts(2));
  capacity.free_milli = {450, 300};
  const auto found = fleet.of({pod_set(2, 0, 400)});
  EXPECT_EQ(found.conflict, Words{"400 milli of a GPU for each of 2 pods"});
  EXPECT_EQ(words_of(found), (Words{"with 1 pod instead of 2", "with at most 300 milli of a GPU a pod"}));
  auto set = pod_set(1, 0);
  set.shape.extended["rdma/hca"] = 1;
  EXPECT_EQ(fleet.of({set}).conflict, Words{"1 of rdma/hca for each of 1 pods"});
}

TEST(Diagnosis, ReportsThePodSetThatDoesNotFit) {
  Fleet fleet;
  fleet.add("a", node_facts(8));
  auto workers = pod_set(2, 4), leader = pod_set(1, 1);
  workers.name = "workers";
  leader.name = "leader";
  const auto found = fleet.of({leader, workers});
  EXPECT_EQ(found.pod_set, "leader") << "the larger come first";
  EXPECT_EQ(found.conflict, Words{"1 GPU for each of 1 pods"});
  EXPECT_TRUE(found.remedies.empty());
}

TEST(Diagnosis, NoNodes) {
  Fleet fleet;
  const auto found = fleet.of({pod_set(1, 1)});
  EXPECT_EQ(found.conflict, Words{"there are no nodes"});
}

TEST(DiagnosisLaws, ExistsIfAndOnlyIfNothingFitsAndEachRemedyHelps) {
  std::mt19937_64 generator(5);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(generator() % n); };
  int stuck = 0, tried = 0;
  for (int round = 0; round < 600; ++round) {
    Fleet fleet;
    for (auto i = below(6) + 1; i > 0; --i) {
      auto facts = node_facts(static_cast<std::int32_t>(below(9)));
      if (below(2) == 0) facts.labels["pool"] = below(2) == 0 ? "train" : "serve";
      if (below(3) == 0) facts.taints.push_back({"gpu", below(2) == 0 ? "" : "x", "NoSchedule"});
      if (below(3) == 0) facts.model = "A100";
      auto& capacity = fleet.add(fmt::format("n{}", i), facts);
      capacity.usable = below(6) != 0;
      if (!capacity.usable) capacity.why_not = "cordoned";
      capacity.cpu_milli = below(32) * 1000;
      for (auto& free : capacity.free_milli) free = static_cast<std::int32_t>(below(3) * 500);
    }
    std::vector<PodSet> sets;
    for (auto i = below(2) + 1; i > 0; --i) {
      auto set = below(3) == 0 ? pod_set(static_cast<std::int32_t>(below(4) + 1), 0, 100 * (1 + below(9)))
                               : pod_set(static_cast<std::int32_t>(below(4) + 1), below(5));
      set.name = fmt::format("s{}", i);
      set.shape.cpu_milli = below(4) * 2000;
      if (below(3) == 0) set.shape.node_selector["pool"] = "train";
      if (below(3) == 0 && !set.shape.gpu.none()) set.shape.gpu.models = {"H100"};
      sets.push_back(set);
    }
    const auto found = fleet.of(sets);
    FreeCapacity free_capacity = fleet.free_capacity;
    const bool fits = place_gang(sets, free_capacity, fleet.preference).plan.has_value();
    ASSERT_EQ(found.pod_set.empty(), fits);
    ASSERT_EQ(found.conflict.empty(), fits);
    stuck += fits ? 0 : 1;
    for (const auto& way : found.remedies) {
      if (!way.change) continue;
      PlacementRequest changed{sets, {}};
      way.change(changed);
      free_capacity = fleet.free_capacity;
      ASSERT_TRUE(place_gang(changed.pod_sets, free_capacity, fleet.preference).plan) << way.words;
      ++tried;
    }
  }
  EXPECT_GT(stuck, 200);
  EXPECT_GT(tried, 200);
}

}  // namespace diagnosis_test
}  // namespace qm::placement
