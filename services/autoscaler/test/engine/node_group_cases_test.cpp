// Node groups as Cluster Autoscaler handles them: expanders, balanced groups, and the delay after a scale-up.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace node_group_cases_test {

Options with(std::vector<Expander> expanders) {
  Options out;
  out.expanders = std::move(expanders);
  return out;
}

void expect_with(const Options& options, const std::string& table) {
  Script script(options);
  EXPECT_EQ(script.run(table), "");
}

// S-163 and S-166: the group with the highest priority grows, whatever its weight and its price.
TEST(NodeGroups, TheExpanderChoosesAmongThePoolsThatFit) {
  const std::string pools = R"(
    pool ondemand types=h8 group=h100-ondemand-asg markets=od priority=50
    pool spot types=h8 group=h100-spot-asg markets=spot weight=9 priority=10
    pool other types=a8 group=a100-asg markets=od
  )";
  expect_with(with({Expander::kPriority}), pools + R"(
    price h8 z1 20
    => price h8 z1 20.00
    want w/1 1x8
    => promise w/1 by=240 ondemand-00001
    => group h100-ondemand-asg 1
  )");
  expect_with(with({Expander::kPrice}), pools + R"(
    want w/1 1x8
    => promise w/1 by=240 other-00001
    => group a100-asg 1
  )");
  expect_with({}, pools + R"(
    want w/1 1x8
    => promise w/1 by=240 spot-00001
    => group h100-spot-asg 1
  )");
}

// S-164 and S-165: an edit of the priorities takes effect at the next launch.
TEST(NodeGroups, ChangedPrioritiesDecideTheNextLaunch) {
  expect_with(with({Expander::kPriority, Expander::kLeastWaste}), R"(
    pool a types=h8 group=asg-a priority=10
    pool b types=h8 group=asg-b priority=50
    want w/1 1x8
    => promise w/1 by=240 b-00001
    => group asg-b 1
    pool a types=h8 group=asg-a priority=60
    want x/1 1x8
    => promise x/1 by=240 a-00002
    => group asg-a 1
  )");
}

TEST(NodeGroups, AGroupWithoutCapacityIsLeftForTheNextOne) {
  expect_with(with({Expander::kPriority}), R"(
    pool a types=h8 group=asg-a priority=10
    pool b types=h8 group=asg-b priority=50
    want w/1 1x8
    => promise w/1 by=240 b-00001
    => group asg-b 1
    group-refused asg-b 0 it is full
    => claim b-00001 Failed
    => promise w/1 by=240 a-00002
    => group asg-a 1
    => group asg-b 0
  )");
}

// S-162: 30 pods, one for each node.
TEST(NodeGroups, ThreeIdenticalGroupsStayWithinOneNodeOfEachOther) {
  Options options = with({Expander::kPriority, Expander::kLeastWaste});
  options.balance_similar_pools = true;
  Script script(options);
  EXPECT_EQ(script.run(R"(
    pool a types=h8 group=asg-a label=topology.kubernetes.io/zone=z1 priority=5
    pool b types=h8 group=asg-b label=topology.kubernetes.io/zone=z2 priority=5
    pool c types=h8 group=asg-c label=topology.kubernetes.io/zone=z3 priority=5
    pool other types=h8 group=asg-other label=team=x priority=1
  )"),
            "");
  std::map<std::string, std::int64_t> sizes{{"a", 0}, {"b", 0}, {"c", 0}, {"other", 0}};
  DemandUpdated demand;
  for (int i = 0; i < 30; ++i) {
    demand.items.push_back({attempt_id("w" + std::to_string(i) + "/1"), {pod_set(1, 8)}, 0, script.now()});
    (void)script.step({demand});
    ASSERT_EQ(script.complaint(), "");
    for (auto& [pool, size] : sizes) size = 0;
    for (const auto& [name, claim] : script.engine().tables().claims) ++sizes[claim.pool];
    const auto [least, most] = std::minmax({sizes["a"], sizes["b"], sizes["c"]});
    ASSERT_LE(most - least, 1) << "after node " << i + 1;
  }
  EXPECT_EQ(sizes["a"] + sizes["b"] + sizes["c"], 30);
  EXPECT_EQ(sizes["other"], 0);
}

// S-159: a burst at 0, idle at 2 minutes; nothing is terminated before 10 minutes, and then at once.
TEST(NodeGroups, NothingIsTerminatedWithinTheDelayAfterALaunch) {
  Options options;
  options.scale_down_delay = std::chrono::minutes(10);
  expect_with(options, R"(
    pool p types=a8 after=60
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    unwant w | node n1 i-1 pods=1
    tick 120
    node n1 i-1
    tick 479
    => withdrawn w/1
    tick 1
    => drain n1 Empty
  )");
  // A launch of another pool prolongs it, and a faulty node is drained nevertheless.
  expect_with(options, R"(
    pool p types=a8 after=60
    pool o types=h8 label=x=y
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    unwant w | node n1 i-1
    tick 300
    => withdrawn w/1
    want v/1 1x8 select=x=y
    => launch o-00002 h8 on-demand
    => promise v/1 by=540 o-00002
    tick 599
    => promise v/1 by=959 o-00002
    health n1 broken
    => drain n1 Unhealthy
  )");
}

TEST(NodeGroups, ANodeThatIsNotReadyHasATimeOfItsOwn) {
  expect(R"(
    pool p types=a8 after=60 unready-after=1200
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    unwant w | node n1 i-1 notready
    tick 1199
    => withdrawn w/1
    tick 1
    => drain n1 Empty
  )");
}

TEST(NodeGroups, AResourceOfTheGroupsTagsCountsForScaleFromZero) {
  expect(R"(
    pool p types=h8 group=asg has=aws.amazon.com/neuron=16
    want w/1 2x0 ext=aws.amazon.com/neuron=16
    => promise w/1 by=240 p-00001 p-00002
    => group asg 2
  )");
  EXPECT_NE(why(R"(
    pool p types=h8 group=asg
    want w/1 1x0 ext=aws.amazon.com/neuron=16
  )"),
            "");
}

// An on-premises cluster.
TEST(NodeGroups, WithoutACloudTheReasonIsNoProvider) {
  Options options;
  options.provider = false;
  Script script(options);
  EXPECT_EQ(script.run(R"(
    pool p types=a8
    pool q types=a8 replicas=2
    want w/1 1x8
  )"),
            "");
  const auto lines = script.engine().explain(script.now());
  ASSERT_EQ(lines.size(), 2U);
  for (const auto& line : lines)
    EXPECT_NE(line.find("no-provider: the cluster has no cloud"), std::string::npos) << line;
}

}  // namespace node_group_cases_test
}  // namespace qm::autoscaler::testing
