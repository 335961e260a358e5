// Plans on scenes that can be followed by hand.
#include "test/plan/scenes.hpp"

namespace qm::placement::plan::testing {
namespace plan_test {

/// Two racks of two nodes of four GPUs.
Scene two_racks() {
  Scene scene({"rack"}, best_fit());
  for (int i = 0; i < 4; ++i) {
    const std::vector<std::string> path{fmt::format("r{}", i / 2)};
    scene.add_node(path, fmt::format("n{}", i), empty_node(4));
  }
  return scene;
}

/// One pod on a node, on its first idle devices.
GangId put(Scene& scene, const std::string& name, std::int32_t gpus, NodeId node, std::int32_t priority,
           std::int64_t hours_lost = 1) {
  Devices devices = 0;
  for (int d = 0, left = gpus; left > 0; ++d) {
    if (scene.devices(node)[static_cast<std::size_t>(d)] != pack::kDevice) continue;
    devices = static_cast<Devices>(devices | 1U << d);
    --left;
  }
  return scene.add(running(name, priority, gang_of(gpu_pod(gpus), 1), {{0, 0, node, devices}}, hours_lost));
}

Wish wish_of(const gang::Request& request) {
  Wish wish{"wish", request, 100};
  return wish;
}

Plan planned(Scene& scene, const Wish& wish, const Terms& terms = usual_terms()) {
  auto found = plan(scene, wish, terms);
  EXPECT_TRUE(found) << found.error().to_string();
  scene.audit();
  return *found;
}

TEST(Plan, WhatFitsDisplacesNobody) {
  auto scene = two_racks();
  put(scene, "a", 4, 0, 0);
  const auto wish = wish_of(gang_of(gpu_pod(4), 2, 1));
  const auto found = planned(scene, wish);
  ASSERT_TRUE(found.placed());
  EXPECT_TRUE(found.exact);
  EXPECT_TRUE(found.displaced().empty());
  ASSERT_EQ(found.steps.size(), 1U);
  EXPECT_EQ(found.steps[0].seats, (std::vector<Seat>{{0, 0, 2, 15}, {0, 1, 3, 15}}));
}

TEST(Plan, TheCheapestWorkIsLostAndWholeGangsFall) {
  auto scene = two_racks();
  // A gang over both nodes of the first rack, and two gangs of one node each in the second one.
  const auto wide = scene.add(running("wide", 0, gang_of(gpu_pod(4), 2), {{0, 0, 0, 15}, {0, 1, 1, 15}}, 10));
  const auto one = put(scene, "one", 4, 2, 0, 3), two = put(scene, "two", 4, 3, 0, 4);
  // In one rack: 80 GPU-hours against 12 and 16.
  auto wish = wish_of(gang_of(gpu_pod(4), 2, 1));
  EXPECT_EQ(planned(scene, wish).displaced(), (std::vector{one, two}));
  // The wide gang has just saved its work.
  scene.at(wide).checkpoint = at_hour(kNow) - std::chrono::minutes(30);
  const auto found = planned(scene, wish);
  EXPECT_EQ(found.displaced(), (std::vector{wide}));
  EXPECT_EQ(found.cost.lost_work, 4 * 3600 * usual_terms().gpu_second);
  EXPECT_TRUE(found.exact);
  // Only gangs that admission allows to be preempted.
  wish.victims = {one, two};
  EXPECT_EQ(planned(scene, wish).displaced(), (std::vector{one, two}));
  wish.victims = {one};
  EXPECT_EQ(planned(scene, wish).verdict, Plan::Verdict::kNever);
}

TEST(Plan, EqualPriorityMinimumRunTimeAndTheUntouchableStay) {
  auto scene = two_racks();
  for (NodeId node = 0; node < 4; ++node) put(scene, fmt::format("g{}", node), 4, node, 0);
  const auto wish = wish_of(gang_of(gpu_pod(4), 1));
  const auto terms = usual_terms();
  scene.at(0).priority = 100;
  scene.at(1).stays_until = terms.now + std::chrono::seconds(1);
  scene.at(2).touchable = false;
  EXPECT_EQ(planned(scene, wish).displaced(), (std::vector<GangId>{3}));
  scene.at(3).priority = 200;
  EXPECT_EQ(planned(scene, wish).verdict, Plan::Verdict::kNever);
  EXPECT_EQ(may_displace(scene, wish, 1, terms).error().code, Code::kPermissionDenied);
  scene.at(1).stays_until = terms.now;
  EXPECT_EQ(planned(scene, wish).displaced(), (std::vector<GangId>{1}));
}

TEST(Plan, WhoFindsRoomElsewhereIsMovedAndWaitsNot) {
  auto scene = two_racks();
  const auto a = put(scene, "a", 2, 0, 0, 2), b = put(scene, "b", 2, 2, 0, 2);
  for (const auto gang : {a, b}) scene.at(gang).waiting_per_s = 10'000;
  // Two whole nodes of one rack are requested: a gang of half a node must leave, and it fits next to the other one.
  auto wish = wish_of(gang_of(gpu_pod(4), 2, 1));
  const auto found = planned(scene, wish);
  ASSERT_EQ(found.steps.size(), 2U);
  EXPECT_EQ(found.steps[0].what, Step::What::kMigrate);
  EXPECT_EQ(found.cost.waiting, 0);
  // A gang that may not be moved is evicted; so are all gangs if migration is disabled.
  scene.at(a).movable = scene.at(b).movable = false;
  EXPECT_EQ(planned(scene, wish).steps[0].what, Step::What::kEvict);
  scene.at(b).movable = true;
  EXPECT_EQ(planned(scene, wish).displaced(), (std::vector{b}));
  auto terms = usual_terms();
  terms.migrate = false;
  const auto evicted = planned(scene, wish, terms);
  EXPECT_EQ(evicted.steps[0].what, Step::What::kEvict);
  EXPECT_EQ(evicted.cost.waiting, 7200 * 10'000);
}

TEST(Plan, WaitingIsAnAnswerWhereItCostsLess) {
  auto scene = two_racks();
  for (NodeId node = 0; node < 4; ++node) put(scene, fmt::format("g{}", node), 4, node, 0);
  auto wish = wish_of(gang_of(gpu_pod(4), 1));
  wish.waiting_per_s = 1'000;
  wish.otherwise = std::chrono::minutes(5);
  const auto wait = planned(scene, wish);
  EXPECT_EQ(wait.verdict, Plan::Verdict::kWait);
  EXPECT_TRUE(wait.steps.empty());
  EXPECT_GT(wait.cost.total(), 300 * 1'000);
  EXPECT_EQ(still_holds(scene, wish, wait, usual_terms()).error().code, Code::kFailedPrecondition);
  wish.otherwise = std::chrono::hours(100);
  EXPECT_TRUE(planned(scene, wish).placed());
  wish.otherwise.reset();
  EXPECT_TRUE(planned(scene, wish).placed());
}

TEST(Plan, APreferredRackIsWorthItsMoney) {
  // The gangs of the first rack cost a little more; the cheaper ones use both racks.
  auto scene = two_racks();
  put(scene, "a", 4, 0, 0, 4);
  put(scene, "b", 4, 1, 0, 5);
  put(scene, "c", 4, 2, 0, 4);
  put(scene, "d", 4, 3, 0, 20);
  auto wish = wish_of(gang_of(gpu_pod(4), 2));
  wish.request.gang.preferred = 1;
  auto terms = usual_terms();
  EXPECT_EQ(planned(scene, wish, terms).displaced(), (std::vector<GangId>{0, 2}));
  terms.domain = 8'000'000;  // one more rack costs 64 dollars, an hour of four GPUs 49
  EXPECT_EQ(planned(scene, wish, terms).displaced(), (std::vector<GangId>{0, 1}));
}

TEST(Plan, AnInvalidWishIsSaidToBeSo) {
  auto scene = two_racks();
  EXPECT_EQ(plan(scene, wish_of(gang_of(gpu_pod(4), 0)), usual_terms()).error().code, Code::kInvalid);
}

// ---- the live state ----

class Moved : public ::testing::Test {
 protected:
  void SetUp() override {
    for (NodeId node = 0; node < 4; ++node) put(scene, fmt::format("g{}", node), 4, node, 0, node + 1);
    wish.request = gang_of(gpu_pod(4), 2, 1);
    found = planned(scene, wish);
    ASSERT_EQ(found.displaced(), (std::vector<GangId>{0, 1}));
    ASSERT_TRUE(still_holds(scene, wish, found, terms));
  }
  void refused(const std::string& why) {
    const auto status = still_holds(scene, wish, found, terms);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kAborted);
    EXPECT_NE(status.error().message.find(why), std::string::npos) << status.error().message;
    scene.audit();
  }
  Scene scene = two_racks();
  Terms terms = usual_terms();
  Wish wish = wish_of({});
  Plan found;
};

TEST_F(Moved, SomebodyHasEnded) {
  scene.remove(1);
  refused("has ended");
}
TEST_F(Moved, SomebodyIsElsewhere) {
  scene.move({{0, {{0, 0, 1, 15}}}, {1, {{0, 0, 0, 15}}}});
  refused("g0 is not where it was");
}
TEST_F(Moved, ThereIsRoomByItself) {
  scene.remove(2);
  scene.remove(3);
  refused("there is room though nobody leaves");
}
TEST_F(Moved, OneNeedNotLeave) {
  scene.remove(2);
  wish.request.gang.required = gang::kFleet;
  refused("stays");
}
TEST_F(Moved, ANodeIsLost) {
  scene.lose(0);
  refused("takes nobody");
}
TEST_F(Moved, ANodeIsKeptOrBarred) {
  scene.keep_spare(1, true);
  refused("takes nobody");
  scene.keep_spare(1, false);
  ASSERT_TRUE(still_holds(scene, wish, found, terms));
  scene.bar(1, true);
  refused("takes nobody");
}
TEST_F(Moved, ANodeIsNotForSuchPodsAnyMore) {
  wish.request.gang.sets[0].gates = 1;
  ASSERT_TRUE(still_holds(scene, wish, found, terms));
  scene.fleet().put_behind(0, 3);
  refused("not for such pods");
}
TEST_F(Moved, SomebodyElseCameToTheSeats) {
  scene.remove(0);
  const auto other = put(scene, "other", 4, 0, 50);
  found.steps[0].gang = other;  // as if that gang had been the victim from the start
  found.steps[0].from = scene.gang(other).seats;
  ASSERT_TRUE(still_holds(scene, wish, found, terms));
  found.steps[0].gang = 2;
  found.steps[0].from = scene.gang(2).seats;
  scene.at(2).checkpoint = terms.now;
  refused("no room for rank");
}
TEST_F(Moved, OneMayNotBeDisplacedAnyMore) {
  scene.at(0).priority = 100;
  refused("priority");
  scene.at(0).priority = 0;
  scene.at(0).touchable = false;
  refused("may not be displaced");
}
TEST_F(Moved, ItHasBecomeDearer) {
  terms.now += std::chrono::minutes(5);
  EXPECT_TRUE(still_holds(scene, wish, found, terms));
  terms.now += std::chrono::hours(1);
  refused("it costs");
}
TEST_F(Moved, AnExclusiveWishWantsTheNodeEmptyAndAnOwnedNodeIsClosed) {
  wish.request.exclusive = true;
  ASSERT_TRUE(still_holds(scene, wish, found, terms));
  pack::PodClass small;
  small.cpu_milli = 100;
  auto other = running("small", 500, gang_of(small, 1), {{0, 0, 0, 0}});
  const auto id = scene.add(other);
  refused("is not empty");
  scene.remove(id);
  other.request.exclusive = true;
  wish.request.exclusive = false;
  scene.add(other);
  refused("for itself");
}

TEST_F(Moved, CarriedOutTheWishRuns) {
  const auto id = carry_out(scene, wish, found, terms);
  scene.audit();
  EXPECT_FALSE(scene.runs(0));
  EXPECT_FALSE(scene.runs(1));
  EXPECT_EQ(scene.gang(id).name, "wish");
  EXPECT_EQ(scene.on(0), (std::vector{id}));
  EXPECT_EQ(scene.state(0).idle(), 0);
}

}  // namespace plan_test
}  // namespace qm::placement::plan::testing
