#include "qm/topology/balanced.hpp"
#include "world.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::topology {
namespace parts_test {

using kube_rules::NodeConstraints, kube_rules::Requirement, kube_rules::SelectorTerm;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Resources, HowManyPodsFit) {
  ResourceNames names;
  const ResourceId cpu = names.intern("cpu"), memory = names.intern("memory"), gpu = names.intern("gpu");
  EXPECT_EQ(names.intern("cpu"), cpu);
  const std::vector<std::int64_t> free_amounts{10, 4000, 7, -1};  // by id: pods, cpu, memory, gpu
  EXPECT_EQ(pods_in({{cpu, 1500}}, free_amounts), 2);
  EXPECT_EQ(pods_in({{cpu, 1500}, {memory, 7}}, free_amounts), 1);
  EXPECT_EQ(pods_in({{gpu, 1}}, free_amounts), 0) << "never negative";
  EXPECT_EQ(pods_in({{gpu, 0}}, free_amounts), 2147483647);
  EXPECT_EQ(pods_in({{names.intern("fpga"), 1}}, free_amounts), 0) << "what no node has";
  EXPECT_EQ(pods_in({}, free_amounts), 0);
  EXPECT_EQ(names.name(scarcest(names, {{cpu, 5000}, {memory, 8}, {kPods, 1}}, free_amounts)), "cpu")
      << "of equals by name";
}

TEST(Resources, UsageCountsThePods) {
  ResourceNames names;
  const ResourceId cpu = names.intern("cpu");
  EXPECT_EQ(usage_of({{cpu, 500}}, 3), (Requests{{kPods, 3}, {cpu, 1500}}));
  EXPECT_EQ(usage_of({{kPods, 1}}, 3), (Requests{{kPods, 6}})) << "a request for pods is one on top";
}

TEST(Placement, IsCutFromTheEndAndMergedByLeaf) {
  const Placement p{{7, 3}, {2, 2}};
  EXPECT_EQ(truncated(p, 4), (Placement{{7, 3}, {2, 1}}));
  EXPECT_EQ(truncated(p, 3), (Placement{{7, 3}}));
  EXPECT_THAT(truncated(p, 0), IsEmpty());
  EXPECT_EQ(merged(p, {{2, 1}, {5, 4}}), (Placement{{2, 3}, {5, 4}, {7, 3}}));
  EXPECT_EQ(pods_of(p), 5);
}

TEST(HasLevels, OfAllThatIsAskedFor) {
  const Tree tree({"block", "rack"}, {});
  EXPECT_TRUE(has_levels(tree, required("rack")));
  EXPECT_TRUE(has_levels(tree, slices_only({{"rack", 2}})));
  EXPECT_TRUE(has_levels(tree, unconstrained()));
  EXPECT_FALSE(has_levels(tree, required("row")));
  EXPECT_FALSE(has_levels(tree, required("block", {{"rack", 2}, {"row", 1}})));
  EXPECT_FALSE(has_levels(tree, TopologyRequest{}));
  EXPECT_FALSE(has_levels(tree, std::nullopt));
}

TEST(LeafMatcher, ExpressionsOfKubernetes) {
  ResourceNames names;
  std::vector<Node> nodes{{"n1", {{kHost, "x1"}, {"zone", "a"}, {"gpus", "8"}}, {}, {}, true, true},
                          {"n2", {{kHost, "x2"}, {"zone", "b"}, {"gpus", "many"}}, {}, {}, true, true}};
  const Topology topology(names, {"default", {kHost}, {}, {}}, nodes);
  using Op = Requirement::Op;
  const auto matches = [&](SelectorTerm term) {
    NodeConstraints rules;
    rules.required = {std::move(term)};
    const LeafMatcher matcher(topology, rules);
    std::string out;
    for (DomainId d = 0; d < 2; ++d) out += matcher.of(d) == LeafMatcher::Verdict::kMatches ? '1' : '0';
    return out;
  };
  EXPECT_EQ(matches({{{"zone", Op::kIn, {"a", "c"}}}, {}}), "10");
  EXPECT_EQ(matches({{{"zone", Op::kNotIn, {"a"}}}, {}}), "01");
  EXPECT_EQ(matches({{{"rack", Op::kNotIn, {"a"}}}, {}}), "11");
  EXPECT_EQ(matches({{{"zone", Op::kExists, {}}, {"rack", Op::kDoesNotExist, {}}}, {}}), "11");
  EXPECT_EQ(matches({{{"gpus", Op::kGt, {"4"}}}, {}}), "10");
  EXPECT_EQ(matches({{{"gpus", Op::kLt, {"8"}}}, {}}), "00");
  EXPECT_EQ(matches({{}, {{"metadata.name", Op::kIn, {"n2"}}}}), "01");
  EXPECT_EQ(matches({}), "00") << "an empty term matches nothing";

  NodeConstraints rules;
  rules.preferred = {{5, {{{"zone", Op::kIn, {"a"}}}, {}}}, {3, {{{"zone", Op::kExists, {}}}, {}}}, {7, {}}};
  const LeafMatcher matcher(topology, rules);
  EXPECT_EQ(matcher.preference(0), 8);
  EXPECT_EQ(matcher.preference(1), 3);
}

TEST(LeafMatcher, TaintsOfThePodAndOfTheFlavorAreTolerated) {
  ResourceNames names;
  std::vector<Node> nodes{
      {"n1", {{kHost, "x1"}}, {{"gpu", "yes", "NoSchedule"}, {"spot", "", "NoExecute"}}, {}, true, true},
      {"n2", {{kHost, "x2"}}, {{"old", "", "PreferNoSchedule"}}, {}, true, true}};
  const Topology topology(names, {"default", {kHost}, {}, {{"gpu", "Exists", "", ""}}}, nodes);
  NodeConstraints rules;
  const LeafMatcher strict(topology, rules);
  EXPECT_EQ(strict.of(0), LeafMatcher::Verdict::kTaint);
  EXPECT_EQ(strict.taint_in_the_way(0), "spot:NoExecute");
  EXPECT_EQ(strict.of(1), LeafMatcher::Verdict::kMatches);
  rules.tolerations = {{"spot", "Exists", "", "NoExecute"}};
  EXPECT_EQ(LeafMatcher(topology, rules).of(0), LeafMatcher::Verdict::kMatches);
}

/// Two blocks of two racks; counts are given, by leaf.
struct Racks {
  Tree tree{{"block", "rack"},
            std::vector<std::vector<std::string>>{{"b1", "r1"}, {"b1", "r2"}, {"b2", "r3"}, {"b2", "r4"}}};
  State state = State(6);
  Racks(Pods r1, Pods r2, Pods r3, Pods r4) {
    DomainId d = tree.leaves().begin;
    for (const Pods pods : {r1, r2, r3, r4})
      state[static_cast<std::size_t>(d++)] = {.pods = pods, .pods_with_leader = pods};
  }
};

TEST(RollUp, SlicesCountFromTheirLevelUp) {
  Racks racks(5, 3, 4, 0);
  roll_up(racks.tree, racks.state, racks.tree.at(0), {.size = 2, .level = 1, .inner = {}}, false);
  EXPECT_EQ(racks.state[0].pods, 8);
  EXPECT_EQ(racks.state[0].slices, 3);
  EXPECT_EQ(racks.state[1].slices, 2);
  roll_up(racks.tree, racks.state, racks.tree.at(0), {.size = 4, .level = 0, .inner = {}}, false);
  EXPECT_EQ(racks.state[0].slices, 2);
  roll_up(racks.tree, racks.state, racks.tree.at(0), {.size = 4, .level = 0, .inner = {0, 2}}, false);
  EXPECT_EQ(racks.state[0].pods, 6) << "children give in runs of two";
  EXPECT_EQ(racks.state[0].slices, 1);
}

TEST(RollUp, ALeaderCostsWhatItCostsTheChildItCostsLeast) {
  Racks racks(5, 3, 4, 0);
  racks.state[2] = {.pods = 5, .pods_with_leader = 2, .leaders = 1};
  racks.state[3] = {.pods = 3, .pods_with_leader = 2, .leaders = 1};
  roll_up(racks.tree, racks.state, racks.tree.at(0), {.size = 1, .level = 1, .inner = {}}, true);
  EXPECT_EQ(racks.state[0].pods_with_leader, 7);
  EXPECT_EQ(racks.state[0].leaders, 1);
  EXPECT_EQ(racks.state[1].pods_with_leader, 0) << "none can host it";
}

TEST(Balanced, FewestThatFitWithLeastToSpare) {
  Racks racks(9, 6, 4, 2);
  roll_up(racks.tree, racks.state, racks.tree.at(0), {.size = 1, .level = 1, .inner = {}}, false);
  const auto leaves = to_list(racks.tree.leaves());
  const auto chosen = [&](Pods pods) {
    return fewest_that_fit(racks.tree, racks.state, leaves, {.slices = pods}, false, false);
  };
  EXPECT_THAT(chosen(4), ElementsAre(4));
  EXPECT_THAT(chosen(5), ElementsAre(3));
  EXPECT_THAT(chosen(10), ElementsAre(3, 4));
  EXPECT_THAT(chosen(11), ElementsAre(2, 5));
  EXPECT_THAT(chosen(21), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(chosen(22), IsEmpty());
}

TEST(Balanced, SharesEvenlyAndGivesTheRestToTheRoomiest) {
  Racks racks(9, 6, 6, 2);
  roll_up(racks.tree, racks.state, racks.tree.at(0), {.size = 1, .level = 1, .inner = {}}, false);
  const auto leaves = to_list(racks.tree.leaves());
  EXPECT_THAT(share_evenly(racks.tree, racks.state, leaves, {.slices = 14}, 5, false), ElementsAre(2, 3));
  EXPECT_EQ(racks.state[2].pods, 9);
  EXPECT_EQ(racks.state[3].pods, 5);
  EXPECT_THAT(share_evenly(racks.tree, racks.state, leaves, {.slices = 9}, 10, false), IsEmpty());
}

TEST(Balanced, MostEvenChildrenFirst) {
  Racks racks(4, 1, 3, 2);
  roll_up(racks.tree, racks.state, racks.tree.at(0), {.size = 1, .level = 1, .inner = {}}, false);
  EXPECT_THAT(sorted_by_evenness(racks.tree, racks.state, to_list(racks.tree.at(0))), ElementsAre(1, 0));
}

TEST(Balanced, PruningEmptiesWhatHoldsTooLittle) {
  Racks racks(9, 2, 2, 2);
  racks.state[5].affinity = 7;
  roll_up(racks.tree, racks.state, racks.tree.at(0), {.size = 1, .level = 1, .inner = {}}, false);
  prune_below(racks.tree, racks.state, racks.tree.at(0), 3, {.size = 1, .level = 1, .inner = {}}, false);
  EXPECT_EQ(racks.state[0].pods, 9);
  EXPECT_EQ(racks.state[3], Counts{});
  EXPECT_EQ(racks.state[1], Counts{.affinity = 7}) << "what the nodes prefer is kept";
}

}  // namespace parts_test
}  // namespace qm::topology
