// Devices that are cut: made whole for who needs them whole, cut anew for who needs a slice, and who is drained for it.
#include "qm/placement/plan/consolidate.hpp"
#include "qm/placement/plan/repair.hpp"
#include "test/plan/scenes.hpp"

namespace qm::placement::plan::testing {
namespace slices_test {

using mig::kNoState;
using mig::StateTable;
namespace seven = mig::seven;

const StateTable& table() { return StateTable::of(mig::Family::kSeven); }

mig::SpotId spot(mig::ProfileId profile, std::int8_t start) { return *table().find_spot({profile, start}); }

mig::StateId layout(std::initializer_list<mig::Spot> spots) { return table().find(std::vector<mig::Spot>(spots)); }

/// Nodes of two GPUs that can be cut.
Scene nodes_of_two(int nodes) {
  Scene scene({"rack"}, best_fit());
  for (int i = 0; i < nodes; ++i) {
    const std::vector<std::string> path{"r"};
    scene.can_be_cut(scene.add_node(path, fmt::format("n{}", i), empty_node(2)), mig::Family::kSeven);
  }
  return scene;
}

GangId holds(Scene& scene, const std::string& name, NodeId node, std::int32_t device, mig::SpotId instance,
             std::int64_t hours_lost) {
  auto gang = running(name, 0, gang_of(gpu_pod(0), 1), {{0, 0, node, 0}}, hours_lost);
  gang.slices = {{node, device, instance}};
  return scene.add(std::move(gang));
}

Wish wish_for(std::vector<mig::ProfileId> slices, std::int32_t pods = 1) {
  Wish wish{"wish", gang_of(gpu_pod(0), pods), 100};
  wish.slices = std::move(slices);
  return wish;
}

Plan planned(Scene& scene, const Wish& wish, const Terms& terms = usual_terms()) {
  auto found = plan(scene, wish, terms);
  EXPECT_TRUE(found) << found.error().to_string();
  scene.audit();
  if (found->placed()) {
    const auto status = still_holds(scene, wish, *found, terms);
    EXPECT_TRUE(status) << status.error().message;
    auto copy = scene;
    carry_out(copy, wish, *found, terms);
    copy.audit();
  }
  return *found;
}

std::vector<Recut> recuts(const Plan& plan) {
  std::vector<Recut> out;
  for (const auto& step : plan.steps) {
    if (step.recut) out.push_back(*step.recut);
  }
  return out;
}

TEST(PlanSlices, TwoSmallOnesAreDrainedAndOneIsMadeOfThem) {
  auto scene = nodes_of_two(1);
  // 3g beside two 1g that are in use, and a whole device that somebody has.
  scene.cut(0, 0, mig::Family::kSeven, layout({{seven::k1g, 0}, {seven::k1g, 1}, {seven::k3g, 4}}));
  const auto a = holds(scene, "a", 0, 0, spot(seven::k1g, 0), 1), b = holds(scene, "b", 0, 0, spot(seven::k1g, 1), 1);
  const auto big = holds(scene, "big", 0, 0, spot(seven::k3g, 4), 100);
  scene.add(running("whole", 0, gang_of(gpu_pod(1), 1), {{0, 0, 0, 2}}));
  const auto found = planned(scene, wish_for({seven::k3g}));
  ASSERT_TRUE(found.placed());
  EXPECT_TRUE(found.exact);
  // No GPU stands behind these gangs, so all are as cheap: one drain is fewer steps than two.
  EXPECT_EQ(found.displaced(), (std::vector{big}));
  scene.at(big).priority = 100;
  const auto other = planned(scene, wish_for({seven::k3g}));
  EXPECT_EQ(other.displaced(), (std::vector{a, b}));
  ASSERT_EQ(recuts(other).size(), 1U);
  EXPECT_EQ(recuts(other)[0], (Recut{0,
                                     0,
                                     layout({{seven::k1g, 0}, {seven::k1g, 1}, {seven::k3g, 4}}),
                                     layout({{seven::k3g, 0}, {seven::k3g, 4}}),
                                     {spot(seven::k1g, 0), spot(seven::k1g, 1)},
                                     {spot(seven::k3g, 0)}}));
  EXPECT_EQ(other.steps.back().slices, (std::vector<Slice>{{0, 0, spot(seven::k3g, 0)}}));
  EXPECT_EQ(other.cost.reslicing, 3 * usual_terms().reslicing.create);
}

TEST(PlanSlices, WaitingCostsDecideWhoIsDrained) {
  auto scene = nodes_of_two(1);
  const auto cut = layout({{seven::k3g, 0}, {seven::k3g, 4}});
  scene.cut(0, 0, mig::Family::kSeven, cut);
  scene.cut(0, 1, mig::Family::kSeven, cut);
  for (const auto device : {0, 1}) {
    for (const std::int8_t start : {0, 4}) holds(scene, "g", 0, device, spot(seven::k3g, start), 1);
  }
  for (const GangId gang : {0U, 1U, 3U}) scene.at(gang).waiting_per_s = 1'000;
  EXPECT_EQ(planned(scene, wish_for({seven::k3g})).displaced(), (std::vector<GangId>{2}));
  auto wish = wish_for({seven::k3g}, 2);
  const auto both = planned(scene, wish);
  EXPECT_EQ(both.displaced().size(), 2U);
  EXPECT_FALSE(both.exact);
  wish.waiting_per_s = 1;
  wish.otherwise = std::chrono::seconds(1);
  EXPECT_EQ(planned(scene, wish).verdict, Plan::Verdict::kWait);
  wish.victims.emplace();
  EXPECT_EQ(planned(scene, wish).verdict, Plan::Verdict::kNever);
}

TEST(PlanSlices, AnIdleDeviceIsCutAndCutOn) {
  auto scene = nodes_of_two(1);
  scene.add(running("whole", 500, gang_of(gpu_pod(1), 1), {{0, 0, 0, 1}}));
  const auto found = planned(scene, wish_for({seven::k3g}, 2));
  ASSERT_TRUE(found.placed());
  EXPECT_TRUE(found.displaced().empty());
  // Both instances in one cut.
  ASSERT_EQ(recuts(found).size(), 1U);
  EXPECT_EQ(recuts(found)[0].before, kNoState);
  EXPECT_EQ(recuts(found)[0].create.size(), 2U);
  EXPECT_EQ(found.cost.reslicing, usual_terms().reslicing.enable + 2 * usual_terms().reslicing.create);
  EXPECT_EQ(planned(scene, wish_for({seven::k3g}, 3)).verdict, Plan::Verdict::kNever);
}

// The layout is a fact between windows: nothing is cut under load, instances that are there are given and drained.
TEST(PlanSlices, BetweenWindowsLayoutsAreFixed) {
  auto scene = nodes_of_two(2);
  auto terms = usual_terms();
  terms.reslice = false;
  EXPECT_EQ(planned(scene, wish_for({seven::k3g}), terms).verdict, Plan::Verdict::kNever);
  EXPECT_TRUE(planned(scene, wish_for({seven::k3g})).placed());
  const auto cut = layout({{seven::k1g, 0}, {seven::k1g, 1}, {seven::k3g, 4}});
  for (const auto device : {0, 1}) scene.cut(0, device, mig::Family::kSeven, cut);
  const auto given = planned(scene, wish_for({seven::k3g}), terms);
  ASSERT_TRUE(given.placed());
  EXPECT_TRUE(recuts(given).empty());
  for (const auto device : {0, 1}) holds(scene, "g", 0, device, spot(seven::k3g, 4), 1);
  const auto drained = planned(scene, wish_for({seven::k3g}), terms);
  ASSERT_TRUE(drained.placed());
  EXPECT_EQ(drained.displaced().size(), 1U);
  EXPECT_TRUE(recuts(drained).empty());
  // Nor is a device made whole.
  EXPECT_EQ(planned(scene, Wish{"w", gang_of(gpu_pod(2), 2), 100}, terms).verdict, Plan::Verdict::kNever);
}

TEST(PlanSlices, DevicesAreMadeWholeForWhoNeedsThem) {
  auto scene = nodes_of_two(1);
  const auto cut = layout({{seven::k3g, 0}, {seven::k3g, 4}});
  scene.cut(0, 1, mig::Family::kSeven, cut);
  const Wish one{"one", gang_of(gpu_pod(1), 1), 100}, two{"two", gang_of(gpu_pod(2), 1), 100};
  EXPECT_TRUE(recuts(planned(scene, one)).empty());
  const auto idle = planned(scene, two);
  EXPECT_TRUE(idle.displaced().empty());
  ASSERT_EQ(recuts(idle).size(), 1U);
  EXPECT_EQ(recuts(idle)[0], (Recut{0, 1, cut, kNoState, {spot(seven::k3g, 0), spot(seven::k3g, 4)}, {}}));
  const auto user = holds(scene, "user", 0, 1, spot(seven::k3g, 4), 1);
  const auto found = planned(scene, two);
  EXPECT_EQ(found.displaced(), (std::vector{user}));
  EXPECT_EQ(recuts(found).size(), 1U);
  const auto terms = usual_terms();
  const auto refused = [&](const std::string& why) {
    const auto status = still_holds(scene, two, found, terms);
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message.find(why), std::string::npos) << status.error().message;
  };
  const auto other = holds(scene, "other", 0, 1, spot(seven::k3g, 0), 1);
  refused("no room");
  scene.remove(other);
  auto copy = scene;
  scene.remove(user);
  scene.cut(0, 1, mig::Family::kSeven, StateTable::empty());
  EXPECT_FALSE(still_holds(scene, two, idle, terms));
  EXPECT_EQ(still_holds(scene, two, idle, terms).error().message, "device 1 of node 0 is not cut as it was");
  // Who sits on a device that has been cut meanwhile would find it so.
  scene.cut(0, 0, mig::Family::kSeven, StateTable::empty());
  EXPECT_EQ(still_holds(scene, two, planned(copy, two), terms).error().code, Code::kAborted);
  auto whole = nodes_of_two(1);
  const auto plain = planned(whole, two);
  whole.cut(0, 0, mig::Family::kSeven, StateTable::empty());
  EXPECT_EQ(still_holds(whole, two, plain, terms).error().message, "device 0 of node 0 has been cut");
}

TEST(PlanSlices, InstancesThatWereTakenMeanwhileAreNotToBeHad) {
  auto scene = nodes_of_two(1);
  scene.cut(0, 0, mig::Family::kSeven, layout({{seven::k3g, 0}, {seven::k3g, 4}}));
  const auto wish = wish_for({seven::k3g});
  const auto found = planned(scene, wish);
  ASSERT_TRUE(recuts(found).empty());
  holds(scene, "first", 0, 0, found.steps.back().slices[0].spot, 1);
  EXPECT_NE(still_holds(scene, wish, found, usual_terms()).error().message.find("is not to be had"), std::string::npos);
}

TEST(PlanSlices, WishesThatNoFleetCouldGrant) {
  auto scene = nodes_of_two(1);
  EXPECT_EQ(plan(scene, wish_for({200}), usual_terms()).error().code, Code::kInvalid);
  auto wish = wish_for({seven::k1g});
  wish.request.gang.required = 1;
  EXPECT_EQ(plan(scene, wish, usual_terms()).error().code, Code::kInvalid);
}

TEST(PlanSlices, WhoHasInstancesIsNotMovedByOthers) {
  auto scene = nodes_of_two(2);
  scene.cut(0, 0, mig::Family::kSeven, layout({{seven::k3g, 0}}));
  const auto gang = holds(scene, "g", 0, 0, spot(seven::k3g, 0), 1);
  scene.add(running("beside", 0, gang_of(gpu_pod(1), 1), {{0, 0, 1, 1}}));
  EXPECT_EQ(consolidate(scene, usual_terms()).steps.size(), 1U);  // the other one comes to it
  EXPECT_EQ(repair(scene, gang, 0, usual_terms()).error().code, Code::kInvalid);
}

// Many wishes for slices one after the other on a small fleet: what is carried out is legal, and nobody is displaced while a wish has room.
TEST(PlanSlices, RandomWishesOneAfterTheOther) {
  int placed = 0, displaced = 0, never = 0, wholes = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    auto scene = nodes_of_two(random.between(1, 3));
    for (int i = 0; i < 30; ++i) {
      auto terms = usual_terms();
      terms.reslice = !random.one_in(4);
      Wish wish = wish_for({static_cast<mig::ProfileId>(random.below(7))}, random.between(1, 2));
      if (random.one_in(3)) wish = Wish{"whole", gang_of(gpu_pod(random.between(1, 2)), 1)};
      wish.priority = random.below(4) * 100;
      const auto found = planned(scene, wish, terms);
      if (!found.placed()) {
        ++never;
        continue;
      }
      ++placed;
      wholes += wish.slices.empty() && !recuts(found).empty() ? 1 : 0;
      displaced += static_cast<int>(found.displaced().size());
      auto none = wish;
      none.victims.emplace();
      ASSERT_EQ(planned(scene, none, terms).placed(), found.displaced().empty());
      for (const auto gang : found.displaced()) ASSERT_LT(scene.gang(gang).priority, wish.priority);
      ASSERT_TRUE(terms.reslice || recuts(found).empty());
      const auto id = carry_out(scene, wish, found, terms);
      scene.at(id).checkpoint = at_hour(kNow - random.below(10));
      scene.at(id).waiting_per_s = random.below(3) * 100;
      if (random.one_in(5)) scene.remove(id);
    }
  }
  EXPECT_GT(placed, 300);
  EXPECT_GT(displaced, 50);
  EXPECT_GT(never, 50);
  EXPECT_GT(wholes, 10);
}

}  // namespace slices_test
}  // namespace qm::placement::plan::testing
