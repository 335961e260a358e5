// Plans on small models, with expected results computed by hand.
#include "test/plan/cluster_models.hpp"

namespace qm::placement::plan::testing {
namespace plan_test {

/// Two racks of two nodes of four GPUs.
ClusterModel two_racks() {
  ClusterModel model({"rack"}, best_fit());
  for (int i = 0; i < 4; ++i) {
    const std::vector<std::string> path{fmt::format("r{}", i / 2)};
    model.add_node(path, fmt::format("n{}", i), empty_node(4));
  }
  return model;
}

/// One pod on a node, on its first idle devices.
GangId put(ClusterModel& model, const std::string& name, std::int32_t gpus, NodeId node, std::int32_t priority,
           std::int64_t hours_lost = 1) {
  const auto devices = model.devices_for(node, gpu_pod(gpus));
  return model.add(running(name, priority, gang_of(gpu_pod(gpus), 1), {{0, 0, node, devices}}, hours_lost));
}

PendingGang pending_gang(const gang::Request& request) { return PendingGang{"pending", request, 100}; }

Plan planned(ClusterModel& model, const PendingGang& pending, const CostModel& cost_model = usual_cost_model()) {
  auto found = plan(model, pending, cost_model);
  EXPECT_TRUE(found) << found.error().to_string();
  model.audit();
  return *found;
}

TEST(Plan, AGangThatFitsDisplacesNoOther) {
  auto model = two_racks();
  put(model, "a", 4, 0, 0);
  const auto pending = pending_gang(gang_of(gpu_pod(4), 2, 1));
  const auto found = planned(model, pending);
  ASSERT_TRUE(found.placed());
  EXPECT_TRUE(found.exact);
  EXPECT_TRUE(found.displaced().empty());
  ASSERT_EQ(found.steps.size(), 1U);
  EXPECT_EQ(found.steps[0].placements, (std::vector<PodPlacement>{{0, 0, 2, 15}, {0, 1, 3, 15}}));
}

TEST(Plan, EvictsTheCheapestWholeGangs) {
  auto model = two_racks();
  // A gang over both nodes of the first rack, and two gangs of one node each in the second one.
  const auto wide = model.add(running("wide", 0, gang_of(gpu_pod(4), 2), {{0, 0, 0, 15}, {0, 1, 1, 15}}, 10));
  const auto one = put(model, "one", 4, 2, 0, 3), two = put(model, "two", 4, 3, 0, 4);
  // In one rack: 80 GPU-hours against 12 and 16.
  auto pending = pending_gang(gang_of(gpu_pod(4), 2, 1));
  EXPECT_EQ(planned(model, pending).displaced(), (std::vector{one, two}));
  // The wide gang has just saved its work.
  model.at(wide).checkpoint = at_hour(kNow) - std::chrono::minutes(30);
  const auto found = planned(model, pending);
  EXPECT_EQ(found.displaced(), (std::vector{wide}));
  EXPECT_EQ(found.cost.lost_work, 4 * 3600 * usual_cost_model().gpu_second);
  EXPECT_TRUE(found.exact);
  // Only gangs that admission allows to be preempted.
  pending.victims = {one, two};
  EXPECT_EQ(planned(model, pending).displaced(), (std::vector{one, two}));
  pending.victims = {one};
  const auto none = planned(model, pending);
  EXPECT_FALSE(none.placed());
  EXPECT_EQ(still_holds(model, pending, none, usual_cost_model()).error().code, Code::kFailedPrecondition);
}

TEST(Plan, EqualPriorityMinimumRunTimeAndNonPreemptibleGangsAreKept) {
  auto model = two_racks();
  for (NodeId node = 0; node < 4; ++node) put(model, fmt::format("g{}", node), 4, node, 0);
  const auto pending = pending_gang(gang_of(gpu_pod(4), 1));
  const auto cost_model = usual_cost_model();
  model.at(0).priority = 100;
  model.at(1).min_runtime_until = cost_model.now + std::chrono::seconds(1);
  model.at(2).preemptible = false;
  EXPECT_EQ(planned(model, pending).displaced(), (std::vector<GangId>{3}));
  model.at(3).priority = 200;
  EXPECT_FALSE(planned(model, pending).placed());
  EXPECT_EQ(may_displace(model, pending, 1, cost_model).error().code, Code::kPermissionDenied);
  model.at(1).min_runtime_until = cost_model.now;
  EXPECT_EQ(planned(model, pending).displaced(), (std::vector<GangId>{1}));
}

TEST(Plan, AVictimThatFitsElsewhereIsMigratedWithoutWaiting) {
  auto model = two_racks();
  const auto a = put(model, "a", 2, 0, 0, 2), b = put(model, "b", 2, 2, 0, 2);
  for (const auto gang : {a, b}) model.at(gang).waiting_per_s = 10'000;
  // Two whole nodes of one rack are requested: a gang of half a node must leave, and it fits next to the other one.
  auto pending = pending_gang(gang_of(gpu_pod(4), 2, 1));
  const auto found = planned(model, pending);
  ASSERT_EQ(found.steps.size(), 2U);
  EXPECT_EQ(found.steps[0].what, Step::What::kMigrate);
  EXPECT_EQ(found.cost.waiting, 0);
  // A gang that may not be moved is evicted.
  model.at(a).movable = model.at(b).movable = false;
  EXPECT_EQ(planned(model, pending).steps[0].what, Step::What::kEvict);
  model.at(b).movable = true;
  EXPECT_EQ(planned(model, pending).displaced(), (std::vector{b}));
  model.at(b).movable = false;
  const auto evicted = planned(model, pending);
  EXPECT_EQ(evicted.steps[0].what, Step::What::kEvict);
  EXPECT_EQ(evicted.cost.waiting, 7200 * 10'000);
}

TEST(Plan, APreferredRackIsUsedIfItsPriceIsHigher) {
  // The gangs of the first rack cost a little more; the cheaper ones use both racks.
  auto model = two_racks();
  put(model, "a", 4, 0, 0, 4);
  put(model, "b", 4, 1, 0, 5);
  put(model, "c", 4, 2, 0, 4);
  put(model, "d", 4, 3, 0, 20);
  auto pending = pending_gang(gang_of(gpu_pod(4), 2));
  pending.request.gang.preferred = 1;
  auto cost_model = usual_cost_model();
  EXPECT_EQ(planned(model, pending, cost_model).displaced(), (std::vector<GangId>{0, 2}));
  cost_model.domain = 8'000'000;  // one more rack costs 64 dollars, an hour of four GPUs 49
  EXPECT_EQ(planned(model, pending, cost_model).displaced(), (std::vector<GangId>{0, 1}));
}

TEST(Plan, AnInvalidRequestIsRefused) {
  auto model = two_racks();
  EXPECT_EQ(plan(model, pending_gang(gang_of(gpu_pod(4), 0)), usual_cost_model()).error().code, Code::kInvalid);
}

// ---- the live state ----

class ModelChanged : public ::testing::Test {
 protected:
  void SetUp() override {
    for (NodeId node = 0; node < 4; ++node) put(model, fmt::format("g{}", node), 4, node, 0, node + 1);
    pending.request = gang_of(gpu_pod(4), 2, 1);
    found = planned(model, pending);
    ASSERT_EQ(found.displaced(), (std::vector<GangId>{0, 1}));
    ASSERT_TRUE(still_holds(model, pending, found, cost_model));
  }
  void refused(const std::string& why) {
    const auto status = still_holds(model, pending, found, cost_model);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kAborted);
    EXPECT_NE(status.error().message.find(why), std::string::npos) << status.error().message;
    model.audit();
  }
  ClusterModel model = two_racks();
  CostModel cost_model = usual_cost_model();
  PendingGang pending = pending_gang({});
  Plan found;
};

TEST_F(ModelChanged, AVictimHasEnded) {
  model.remove(1);
  refused("has ended");
}
TEST_F(ModelChanged, AVictimHasMoved) {
  model.move({{0, {{0, 0, 1, 15}}}, {1, {{0, 0, 0, 15}}}});
  refused("g0 has other placements than the plan");
}
TEST_F(ModelChanged, TheGangFitsWithoutEvictions) {
  model.remove(2);
  model.remove(3);
  refused("the gang fits without any eviction");
}
TEST_F(ModelChanged, OneVictimIsNotNeeded) {
  model.remove(2);
  pending.request.gang.required = gang::kFleet;
  refused("the gang fits without the eviction of");
}
TEST_F(ModelChanged, ANodeIsClosed) {
  model.close(0);
  refused("closed to placements");
}
TEST_F(ModelChanged, ANodeIsExcluded) {
  model.exclude(1, true);
  refused("closed to placements");
  model.exclude(1, false);
  ASSERT_TRUE(still_holds(model, pending, found, cost_model));
}
TEST_F(ModelChanged, ANodeNoLongerAdmitsThePods) {
  pending.request.gang.sets[0].gates = 1;
  ASSERT_TRUE(still_holds(model, pending, found, cost_model));
  model.fleet().set_gate(0, 3);
  refused("no longer admits the pods");
}
TEST_F(ModelChanged, AnotherGangHasThePlacements) {
  model.remove(0);
  const auto other = put(model, "other", 4, 0, 50);
  found.steps[0].gang = other;  // as if that gang had been the victim from the start
  found.steps[0].from = model.gang(other).placements;
  ASSERT_TRUE(still_holds(model, pending, found, cost_model));
  found.steps[0].gang = 2;
  found.steps[0].from = model.gang(2).placements;
  model.at(2).checkpoint = cost_model.now;
  refused("no free capacity for rank");
}
TEST_F(ModelChanged, AVictimMayNoLongerBeDisplaced) {
  model.at(0).priority = 100;
  refused("priority");
  model.at(0).priority = 0;
  model.at(0).preemptible = false;
  refused("may not be displaced");
}
TEST_F(ModelChanged, TheCostHasGrown) {
  cost_model.now += std::chrono::minutes(5);
  EXPECT_TRUE(still_holds(model, pending, found, cost_model));
  cost_model.now += std::chrono::hours(1);
  refused("the cost has grown");
}
TEST_F(ModelChanged, AnExclusiveGangNeedsAnEmptyNodeAndClosesIt) {
  pending.request.exclusive = true;
  ASSERT_TRUE(still_holds(model, pending, found, cost_model));
  pack::PodClass small;
  small.cpu_milli = 100;
  auto other = running("small", 500, gang_of(small, 1), {{0, 0, 0, 0}});
  const auto id = model.add(other);
  refused("is not empty");
  model.remove(id);
  other.request.exclusive = true;
  pending.request.exclusive = false;
  model.add(other);
  refused("belongs to an exclusive gang");
}

TEST_F(ModelChanged, AnAppliedPlanRunsTheGang) {
  const auto id = apply_plan(model, pending, found, cost_model);
  model.audit();
  EXPECT_FALSE(model.runs(0));
  EXPECT_FALSE(model.runs(1));
  EXPECT_EQ(model.gang(id).name, "pending");
  EXPECT_EQ(model.on(0), (std::vector{id}));
  EXPECT_EQ(model.state(0).idle(), 0);
}

}  // namespace plan_test
}  // namespace qm::placement::plan::testing
