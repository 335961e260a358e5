#include "qm/admission/forecast/eta.hpp"

#include "qm/admission/forecast/chance.hpp"
#include "qm/admission/forecast/correction.hpp"
#include "qm/admission/kueue/forest.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <set>

namespace qm::admission::forecast {
namespace eta_test {

using std::chrono::hours;
using std::chrono::minutes;

const Instant kNow = from_micros(0) + hours(1000);
Instant in(Duration d) { return kNow + d; }

/// A lifetime of exactly this length, up to the resolution of spans.
Scene::Life exactly(Duration d) {
  return {std::make_shared<const Lifetime>(Lifetime(Lifetime::Hazards{}).limited(d)), 0};
}
Scene::Life about(Duration d) { return {std::make_shared<const Lifetime>(log_logistic(d, 4)), 0}; }

struct World {
  kueue::Forest::Planted planted;
  kueue::Node a = 0, b = 0;
  explicit World(kueue::PreemptPolicy reclaim = kueue::PreemptPolicy::kNever, bool strict = false) {
    kueue::Forest forest;
    for (const auto* name : {"a", "b"}) {
      auto& queue = forest.queues[name];
      queue.cohort = "all";
      queue.rules.groups = {{{0}, {{0, {}}}}};
      queue.rules.reclaim_within_cohort = reclaim;
      queue.rules.strict = strict;
      kueue::Quota quota;
      quota.nominal = 4;
      queue.quotas = {{0, 0, quota}};
    }
    planted = forest.plant();
    a = planted.queues.at("a").second;
    b = planted.queues.at("b").second;
  }
  [[nodiscard]] Scene scene() const { return {emptied(planted.fields.front()), {}, {}, {}}; }
};

kueue::Work work(int id, kueue::Node queue, std::int64_t gpus) {
  kueue::Work out;
  out.id = id;
  out.queue = queue;
  out.created = id;
  out.shape = static_cast<int>(gpus);
  out.pod_sets = {{"main", 1, {}, {{0, gpus}}, {}}};
  return out;
}
Scene::Running runs(int id, kueue::Node queue, std::int64_t gpus, Scene::Life life, Duration since) {
  auto of = work(id, queue, gpus);
  of.usage = {{0, gpus}};
  return {of, std::move(life), kNow - since};
}

TEST(Eta, FollowsExpectedEndOfBlockingWorkloads) {
  const World world;
  auto scene = world.scene();
  scene.running = {runs(1, world.a, 5, exactly(hours(5)), hours(2)), runs(2, world.b, 3, exactly(hours(9)), hours(1))};
  scene.waiting = {{work(3, world.a, 5), exactly(hours(1)), {}, {}}, {work(4, world.a, 6), exactly(hours(1)), {}, {}}};
  const std::vector<int> ids{3, 4, 99};
  const auto out = Eta().ask(scene, ids, {}, kNow);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0], (Estimate{3, in(hours(3)), in(hours(3)), in(hours(3)), 64, 64, {{1, 64}}}));
  EXPECT_EQ(out[1].p50, in(hours(8)));
  EXPECT_EQ(out[1].waits_for, (std::vector<Estimate::Cause>{{2, 64}}));
}

TEST(Eta, UnknownRunTimeGivesDeterministicInterval) {
  const World world;
  auto scene = world.scene();
  for (int id = 0; id < 8; ++id) scene.running.push_back(runs(id, world.a, 1, about(hours(5)), hours(id)));
  scene.waiting = {{work(10, world.b, 3), about(hours(1)), {}, {}}};
  const std::vector<int> ids{10};
  const auto out = Eta().ask(scene, ids, {}, kNow);
  EXPECT_EQ(out, Eta().ask(scene, ids, {}, kNow));
  EXPECT_LT(*out[0].p10, *out[0].p50);
  EXPECT_LT(*out[0].p50, *out[0].p90);
  EXPECT_EQ(out[0].waits_for.size(), 3U);
  Eta::Settings other;
  other.seed = 2;
  EXPECT_NE(out, Eta(other).ask(scene, ids, {}, kNow));
}

TEST(Eta, CorrelatedErrorsDoNotCancelOut) {
  const World world;
  auto scene = world.scene();
  for (int id = 0; id < 8; ++id) scene.running.push_back(runs(id, world.a, 1, about(hours(5)), hours(0)));
  scene.waiting = {{work(10, world.b, 4), about(hours(1)), {}, {}}};
  const std::vector<int> ids{10};
  const auto width = [&](double alike) {
    Eta::Settings settings;
    settings.alike = alike;
    const auto out = Eta(settings).ask(scene, ids, {}, kNow);
    return *out[0].p90 - *out[0].p10;
  };
  EXPECT_LT(width(0) * 1.5, width(1));
}

TEST(Eta, StartBeyondHorizonIsUnknown) {
  const World world;
  auto scene = world.scene();
  scene.running = {runs(1, world.a, 8, exactly(hours(24 * 30)), hours(1))};
  scene.waiting = {{work(2, world.a, 1), exactly(hours(1)), {}, {}}, {work(3, world.a, 9), exactly(hours(1)), {}, {}}};
  const std::vector<int> ids{2, 3};
  const auto out = Eta().ask(scene, ids, {}, kNow);
  EXPECT_EQ(out[0], (Estimate{2, {}, {}, {}, 64, 0, {}}));
  EXPECT_EQ(out[1], (Estimate{3, {}, {}, {}, 64, 0, {}}));
  // Nor does a future that needs more events than the limit.
  scene.running = {runs(1, world.a, 8, exactly(hours(3)), hours(1))};
  Eta::Settings settings;
  settings.events = 0;
  EXPECT_EQ(Eta(settings).ask(scene, ids, {}, kNow)[0].started, 0);
}

TEST(Eta, LaterWorkloadsMayBeAdmittedFirst) {
  const World world;
  auto scene = world.scene();
  scene.running = {runs(1, world.a, 4, exactly(hours(10)), hours(8)),
                   runs(2, world.b, 4, exactly(hours(10)), hours(7))};
  scene.waiting = {{work(3, world.a, 8), exactly(hours(1)), {}, {}}};
  scene.of_class = {exactly(hours(5))};
  const std::vector<int> ids{3};
  Arrivals arrivals;
  arrivals.add_class({work(0, world.b, 2), {}, {}});
  EXPECT_EQ(Eta().ask(scene, ids, arrivals, kNow)[0].p90, in(hours(3)));  // no arrival was observed yet
  for (int i = 0; i < 100; ++i) arrivals.came(0, kNow - hours(100 - i));
  EXPECT_GT(Eta().ask(scene, ids, arrivals, kNow)[0].p10.value_or(Instant::max()), in(hours(24)));
  scene.field.rules[static_cast<std::size_t>(world.b)].inactive = true;  // an inactive queue has no effect
  EXPECT_EQ(Eta().ask(scene, ids, arrivals, kNow)[0].p90, in(hours(3)));
}

TEST(Eta, VictimsStopAndStartAgain) {
  const World world(kueue::PreemptPolicy::kAny);
  auto scene = world.scene();
  scene.running = {runs(1, world.a, 4, exactly(hours(3)), hours(1)), runs(2, world.a, 4, exactly(hours(5)), hours(1))};
  scene.waiting = {{work(3, world.b, 4), exactly(hours(1)), {}, {}}, {work(4, world.a, 4), exactly(hours(1)), {}, {}}};
  const std::vector<int> ids{3, 4};
  const auto out = Eta().ask(scene, ids, {}, kNow);
  EXPECT_EQ(out[0].p50, in(std::chrono::seconds(30)));
  // The first workload of a is preempted, and starts again when that of b has ended; the last one waits for the other
  // to end.
  EXPECT_EQ(out[1].p50, in(hours(4)));
  EXPECT_EQ(out[1].waits_for, (std::vector<Estimate::Cause>{{2, 64}}));
}

TEST(Eta, ClaimedWorkloadStartsWhenVictimsAreGone) {
  const World world(kueue::PreemptPolicy::kAny);
  auto scene = world.scene();
  scene.running = {runs(1, world.a, 4, exactly(hours(3)), hours(1)), runs(2, world.a, 4, exactly(hours(5)), hours(1))};
  scene.running[1].work.evicted = true;
  scene.waiting = {{work(3, world.b, 4), exactly(hours(1)), {{0, 4}}, {2}}};
  const std::vector<int> ids{3};
  EXPECT_EQ(Eta().ask(scene, ids, {}, kNow)[0].p90, in(std::chrono::seconds(30)));
}

TEST(Eta, ClearRemovesAllWorkloadsAndKeepsRules) {
  const World world;
  auto field = world.planted.fields.front();
  const auto one = runs(1, world.a, 7, exactly(hours(1)), hours(0));
  field.hold(one.work);
  const auto out = emptied(field);
  EXPECT_EQ(out.tree.used(0, 0), 0);
  EXPECT_EQ(out.tree.available(world.b, 0), 8);
  EXPECT_TRUE(out.holders[static_cast<std::size_t>(world.a)].empty());
  EXPECT_EQ(field.tree.used(0, 0), 7);
}

TEST(Arrivals, ReplayRecentPastFromRandomPoint) {
  Arrivals arrivals({hours(10), 100});
  for (int i = 0; i < 2; ++i) arrivals.add_class({work(0, 1, i + 1), {}, {}});
  EXPECT_FALSE(arrivals.after(kNow, 0.5).peek());  // no arrival was observed
  for (int i = 0; i <= 30; ++i) arrivals.came(i % 2, kNow - minutes(10 * (30 - i)));
  auto stream = arrivals.after(kNow, 0.5);  // 150 minutes ago
  std::vector<std::pair<int, int>> seen;
  for (int i = 0; i < 40; ++i, stream.pop()) {
    seen.emplace_back(static_cast<int>((stream.peek()->at - kNow) / minutes(1)), stream.peek()->of);
  }
  EXPECT_EQ(seen[0], std::pair(10, 0));
  EXPECT_EQ(seen[14], std::pair(150, 0));
  EXPECT_EQ(seen[15], std::pair(150, 0));  // the history repeats: the first arrival again
  EXPECT_EQ(seen[16], std::pair(160, 1));
  EXPECT_EQ(arrivals.after(kNow, 0.999999).peek()->at, in(Duration(18000)));
}

TEST(Arrivals, OldOnesAreDroppedAndNumberIsBounded) {
  Arrivals few({hours(10), 4});
  few.add_class({work(0, 1, 1), {}, {}});
  for (int i = 0; i < 50; ++i) few.came(0, in(minutes(i)));
  auto stream = few.after(in(minutes(49)), 0.0);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 4; ++i, stream.pop()) seen.insert((stream.peek()->at - kNow) / minutes(1));
  EXPECT_EQ(seen, (std::set<std::int64_t>{50, 51, 52, 53}));  // 46 to 49, four minutes of history later
  few.came(0, in(hours(100)));
  const auto old = few.after(in(hours(110)), 0.0);
  EXPECT_EQ(old.peek()->at, in(hours(120)));  // its own instant is last in the history
}

TEST(Chance, IsUniformAndUncorrelated) {
  double sum = 0, both = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const double u = chance(1, i, 5), v = chance(1, i + 1, 5);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
    both += u < 0.5 && v < 0.5 ? 1 : 0;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.01);
  EXPECT_NEAR(both / 10'000, 0.25, 0.02);
}

RC_GTEST_PROP(CorrectionProperty, MissRateConvergesToTarget, ()) {
  // The actual value is the middle times a factor that is unknown to the model and differs in each stretch of time.
  Correction correction;
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  constexpr int kEstimates = 4000;
  int below = 0, above = 0;
  for (std::uint64_t i = 0; i < kEstimates; ++i) {
    const Interval raw{minutes(50), minutes(60), minutes(70)};
    const auto corrected = correction.corrected(raw, 0);
    RC_ASSERT(corrected.low <= corrected.middle && corrected.middle <= corrected.high &&
              corrected.low >= Duration::zero());
    const double factor = 0.2 + chance(seed, i / 1000, 0) + chance(seed, i, 1);
    const Duration truth(static_cast<std::int64_t>(factor * 3.6e9));
    below += truth < corrected.low ? 1 : 0;
    above += truth > corrected.high ? 1 : 0;
    correction.learn_low(raw, 0, truth < corrected.low);
    correction.learn_high(raw, 0, truth > corrected.high);
  }
  const double most = kEstimates * 0.1 + (std::log(8.0 * 8.0) + 0.25) / 0.05;
  RC_ASSERT(above <= most);
  RC_ASSERT(below <= most);
}

TEST(Correction, NarrowsWideIntervalsAndSeparatesKinds) {
  Correction correction;
  const Interval raw{minutes(10), minutes(100), minutes(1000)}, other{minutes(1), minutes(2), minutes(3)};
  for (int i = 0; i < 1000; ++i) {
    correction.learn_low(raw, 0, false);
    correction.learn_high(raw, 0, false);
  }
  const auto narrow = correction.corrected(raw, 0);
  EXPECT_GT(narrow.low, minutes(88));
  EXPECT_LT(narrow.high, minutes(213));
  // Another kind starts with the factors common to all, and then learns its own.
  EXPECT_GT(correction.corrected(other, 2).low, minutes(1));
  for (int i = 0; i < 1000; ++i) correction.learn_high(other, 2, true);
  EXPECT_EQ(correction.corrected(other, 2).high, minutes(2 + 8 * 2));
  EXPECT_EQ(correction.corrected(raw, 0), narrow);
  EXPECT_EQ(Correction().corrected(other, 0), (Interval{Duration::zero(), minutes(2), minutes(4)}));
  EXPECT_TRUE(other.holds(minutes(3)));
  EXPECT_FALSE(other.holds(minutes(4)));
}

}  // namespace eta_test
}  // namespace qm::admission::forecast
