#include "world.hpp"

#include <gtest/gtest.h>

namespace qm::topology {
namespace assign_test {

PodSetRequest named(std::string name, PodSetRequest pods, std::optional<std::string> group = {}) {
  pods.name = std::move(name);
  pods.group = std::move(group);
  return pods;
}

Assignment on(std::vector<AssignedDomain> domains) { return {{kHost}, std::move(domains)}; }

TEST(Assign, PodSetsSeeWhatThoseBeforeTook) {
  World world({kHost}, "x1 cpu=3\n x2 cpu=4");
  const auto a = named("a", world.pods(3, required(kHost))), b = named("b", world.pods(3, required(kHost)));
  EXPECT_EQ(world.assign({a, b}), "a x1:3; b x2:3");
  const auto c = named("c", world.pods(2, required(kHost)));
  EXPECT_EQ(world.assign({a, b, c, a}).substr(0, 35), "a x1:3; b x2:3; c topology \"default");
}

TEST(Assign, ALeaderGoesWithItsWorkers) {
  World world(kThree, "b1 r1 x1 cpu=4\n b1 r1 x2 cpu=4\n b1 r2 x3 cpu=9");
  const auto leader = named("leader", world.pods(1, required("rack"), "cpu=3"), "g");
  const auto workers = named("workers", world.pods(5, required("rack")), "g");
  EXPECT_EQ(world.assign({leader, workers}), "leader x1:1; workers x1:1 x2:4");
  EXPECT_EQ(world.assign({workers, leader}), "workers x1:1 x2:4; leader x1:1");
  const auto more = named("workers", world.pods(6, required("rack")), "g");
  EXPECT_EQ(world.assign({leader, more}), "leader x3:1; workers x3:6");
  const auto most = named("workers", world.pods(7, required("rack")), "g");
  const std::string reason = "topology \"default\" allows to fit only 9 out of 7 pod(s)";  // counted without the leader
  EXPECT_EQ(world.assign({leader, most}), "leader " + reason + "; workers " + reason);
}

TEST(Assign, WhatIsTakenOfAnotherFlavorIsNotThere) {
  World world({kHost}, "x1 cpu=2\n x2 cpu=3");
  AssignOptions options;
  options.assumed[world.leaf("x1")] = world.requests("cpu=1 pods=1");
  EXPECT_EQ(world.assign({world.pods(2, required(kHost))}, options), "main x2:2");
  options.assumed[world.leaf("x2")] = world.requests("cpu=1 gpu=1");
  EXPECT_EQ(world.assign({world.pods(2, required(kHost))}, options), "main x2:2");
}

constexpr auto kRacks = "b1 r1 x1 cpu=2\n b1 r1 x2 cpu=4\n b1 r2 x3 cpu=2\n b1 r2 x4 cpu=4";

TEST(Assign, AFailedNodeIsReplacedInTheRackThatIsRequired) {
  World world(kThree, kRacks);
  world.take("x2", "cpu=2 pods=2");
  const Replacement failed{"x9", {{"main", on({{{"x2"}, 2}, {{"x9"}, 2}})}}, false};
  const AssignOptions options{{}, false, &failed};
  EXPECT_EQ(world.assign({world.pods(4, required("rack"))}, options), "main x1:2 x2:2");
  world.take("x1", "cpu=1 pods=1");
  EXPECT_EQ(world.assign({world.pods(4, required("rack"))}, options), "main x2:4")
      << "what was kept and what is new merge";
  world.take("x2", "cpu=2 pods=2");
  EXPECT_EQ(
      world.assign({world.pods(4, required("rack"))}, options),
      "main topology \"default\" allows to fit only 1 out of 2 pod(s). Total nodes: 4; excluded: resource \"cpu\": 1, "
      "topologyDomain: 2");
  EXPECT_EQ(world.assign({world.pods(4, preferred("rack"))}, options), "main x2:2 x3:2");
}

TEST(Assign, AFailedNodeIsReplacedNextToTheRestOfItsSlice) {
  World world(kThree, kRacks);
  const Replacement failed{"x9", {{"main", on({{{"x1"}, 2}, {{"x3"}, 1}, {{"x9"}, 1}})}}, false};
  const AssignOptions options{{}, false, &failed};
  EXPECT_EQ(world.assign({world.pods(4, required("block", {{"rack", 2}}))}, options), "main x1:2 x3:2");
}

TEST(Assign, WhatCannotBeReplaced) {
  World world(kThree, kRacks);
  const auto pods = world.pods(4, required("rack"));
  Replacement failed{"x9", {{"main", on({{{"x8"}, 2}, {{"x9"}, 2}})}}, false};
  const AssignOptions options{{}, false, &failed};
  EXPECT_EQ(
      world.assign({pods}, options),
      "main Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale "
      "domain x8");
  failed.keep = true;
  EXPECT_EQ(world.assign({pods}, options), "main x8:2 x9:2");
  failed.existing.clear();
  EXPECT_EQ(world.assign({pods}, options), "");
  failed = {"x9", {{"main", on({{{"x1"}, 2}})}}, false};
  EXPECT_EQ(world.assign({pods}, options), "main cannot find replacement assignment for unhealthy node: x9");
}

TEST(Assign, AnElasticWorkloadKeepsWhatItHas) {
  World world({kHost}, "x1 cpu=2\n x2 cpu=3\n x3 cpu=4", {.elastic = true});
  auto pods = world.pods(2, unconstrained());
  pods.previous = on({{{"x3"}, 2}, {{"x1"}, 1}});
  EXPECT_EQ(world.assign(pods), "main x3:2") << "shrinks from the end";
  pods.count = 3;
  EXPECT_EQ(world.assign(pods), "main x3:2 x1:1") << "in the order that it was given";
  pods.count = 6;
  EXPECT_EQ(world.assign(pods), "main x1:1 x2:3 x3:2");
  pods.count = 7;
  EXPECT_EQ(world.assign(pods), "main x1:2 x2:1 x3:4") << "what it has counts as taken, and only once";
  pods.count = 10;
  EXPECT_EQ(world.assign(pods), "main topology \"default\" allows to fit only 6 out of 7 pod(s)");
  pods.previous = on({{{"gone"}, 2}});
  pods.count = 2;
  EXPECT_EQ(world.assign(pods), "main x1:2") << "again where a node is deleted";
}

TEST(Assign, AnElasticLeaderStays) {
  World world({kHost}, "x1 cpu=2\n x2 cpu=3", {.elastic = true});
  auto leader = named("leader", world.pods(1, unconstrained()), "g");
  auto workers = named("workers", world.pods(3, unconstrained()), "g");
  leader.previous = on({{{"x1"}, 1}});
  workers.previous = on({{{"x1"}, 1}});
  EXPECT_EQ(world.assign({leader, workers}), "workers x1:1 x2:2; leader x1:1");
}

}  // namespace assign_test
}  // namespace qm::topology
