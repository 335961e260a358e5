// Nodes are lost: gangs go on beside what they have left.
#include "qm/placement/plan/repair.hpp"

#include "test/plan/scenes.hpp"

namespace qm::placement::plan::testing {
namespace repair_test {

/// Racks of three nodes of four GPUs.
Scene racks(int count) {
  Scene scene({"rack"}, best_fit());
  for (int i = 0; i < 3 * count; ++i) {
    const std::vector<std::string> path{fmt::format("r{}", i / 3)};
    scene.add_node(path, fmt::format("n{}", i), empty_node(4));
  }
  return scene;
}

GangId start(Scene& scene, const std::string& name, std::int32_t priority, const gang::Request& request) {
  auto seats = seats_now(scene, request);
  EXPECT_FALSE(seats.empty());
  return scene.add(running(name, priority, request, std::move(seats)));
}

std::vector<NodeId> nodes_of(const std::vector<Seat>& seats) {
  std::vector<NodeId> out;
  for (const auto& seat : seats) out.push_back(seat.node);
  return out;
}

TEST(Repair, AnotherNodeOfTheRackAndEveryOtherRankStays) {
  auto scene = racks(2);
  const auto gang = start(scene, "g", 0, gang_of(gpu_pod(4), 2, 1));
  ASSERT_EQ(nodes_of(scene.gang(gang).seats), (std::vector<NodeId>{0, 1}));
  scene.lose(0);
  const auto found = repair(scene, gang, 0, usual_terms());
  ASSERT_TRUE(found) << found.error().to_string();
  scene.audit();
  EXPECT_EQ(nodes_of(found->steps.back().seats), (std::vector<NodeId>{2, 1}));
  EXPECT_TRUE(still_holds(scene, *found));
  carry_out(scene, *found, usual_terms());
  scene.audit();
  // The rack has no third node.
  scene.lose(1);
  const auto none = repair(scene, gang, 1, usual_terms());
  EXPECT_EQ(none.error().code, Code::kExhausted);
  EXPECT_EQ(repair(scene, gang, 5, usual_terms()).error().code, Code::kNotFound);
  EXPECT_EQ(repair(scene, 7, 5, usual_terms()).error().code, Code::kNotFound);
}

TEST(Repair, ANodeOfTheRackIsKeptForIt) {
  auto scene = racks(2);
  EXPECT_EQ(reserve(scene, 1, 1), (std::vector<NodeId>{2, 5}));
  EXPECT_TRUE(reserve(scene, 1, 1).empty());
  // Nobody else gets it.
  const auto gang = start(scene, "g", 0, gang_of(gpu_pod(4), 2, 1));
  EXPECT_TRUE(seats_now(scene, gang_of(gpu_pod(4), 3)).empty());
  scene.lose(1);
  const auto found = repair(scene, gang, 1, usual_terms());
  ASSERT_TRUE(found);
  EXPECT_EQ(nodes_of(found->steps.back().seats), (std::vector<NodeId>{0, 2}));
  EXPECT_EQ(found->spares, (std::vector<NodeId>{2}));
  ASSERT_TRUE(still_holds(scene, *found));
  scene.keep_spare(2, false);
  EXPECT_EQ(still_holds(scene, *found).error().code, Code::kAborted);
  scene.keep_spare(2, true);
  carry_out(scene, *found, usual_terms());
  scene.audit();
  EXPECT_FALSE(scene.spare(2));
  EXPECT_TRUE(scene.spare(5));
  // An ordinary node as near comes first.
  auto other = racks(1);
  other.keep_spare(1, true);
  const auto one = start(other, "g", 0, gang_of(gpu_pod(4), 1, 1));
  other.lose(0);
  EXPECT_EQ(nodes_of(repair(other, one, 0, usual_terms())->steps.back().seats), (std::vector<NodeId>{2}));
}

TEST(Repair, NearTheOthersThenNearTheNeighbours) {
  auto scene = racks(3);
  // Two nodes of the first rack and two of the second, ranks in a ring; no rack is required.
  auto request = gang_of(gpu_pod(4), 4);
  const auto gang = scene.add(running("g", 0, request, {{0, 0, 0, 15}, {0, 1, 1, 15}, {0, 2, 3, 15}, {0, 3, 4, 15}}));
  scene.lose(3);
  EXPECT_EQ(nodes_of(repair(scene, gang, 3, usual_terms())->steps.back().seats), (std::vector<NodeId>{0, 1, 2, 4}));
  // With rank 1 elsewhere the neighbour is in the second rack alone.
  scene.move({{gang, {{0, 0, 0, 15}, {0, 1, 6, 15}, {0, 2, 3, 15}, {0, 3, 4, 15}}}});
  EXPECT_EQ(nodes_of(repair(scene, gang, 3, usual_terms())->steps.back().seats), (std::vector<NodeId>{0, 6, 5, 4}));
}

TEST(Repair, OthersOfLowerPriorityLeaveWhereThatIsAllowed) {
  auto scene = racks(2);
  const auto gang = start(scene, "g", 100, gang_of(gpu_pod(4), 2, 1));
  const auto low = scene.add(running("low", 0, gang_of(gpu_pod(2), 1), {{0, 0, 2, 3}}));
  scene.lose(1);
  const auto terms = usual_terms();
  EXPECT_EQ(repair(scene, gang, 1, terms).error().code, Code::kExhausted);
  const auto found = repair(scene, gang, 1, terms, {true, {}});
  ASSERT_TRUE(found) << found.error().to_string();
  scene.audit();
  ASSERT_EQ(found->steps.size(), 2U);
  EXPECT_EQ(found->steps[0].gang, low);
  EXPECT_EQ(found->steps[1].gang, gang);
  EXPECT_EQ(nodes_of(found->steps[1].seats), (std::vector<NodeId>{0, 2}));
  ASSERT_TRUE(still_holds(scene, *found));
  // Nobody whom admission does not let go.
  EXPECT_EQ(repair(scene, gang, 1, terms, {true, std::vector<GangId>{}}).error().code, Code::kExhausted);
  scene.at(low).priority = 100;
  EXPECT_EQ(repair(scene, gang, 1, terms, {true, {}}).error().code, Code::kExhausted);
  carry_out(scene, *found, terms);
  scene.audit();
}

TEST(Repair, SpreadHoldsAndIsNotForced) {
  auto scene = racks(1);
  auto request = gang_of(gpu_pod(2), 2);
  request.gang.sets[0].spread = {1, 2};
  const auto gang = scene.add(running("g", 100, request, {{0, 0, 0, 3}, {0, 1, 1, 3}}));
  scene.add(running("full", 0, gang_of(gpu_pod(4), 1), {{0, 0, 2, 15}}));
  scene.lose(0);
  // The node beside has room, but one of the gang already.
  EXPECT_EQ(repair(scene, gang, 0, usual_terms(), {true, {}}).error().code, Code::kExhausted);
}

}  // namespace repair_test
}  // namespace qm::placement::plan::testing
