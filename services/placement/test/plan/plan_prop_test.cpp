// Random scenes and pending gangs: plans keep the laws, cost no more than the greedy plan, and are
// close to the best of all sets.
#include "test/plan/scenes.hpp"

namespace qm::placement::plan::testing {
namespace plan_prop_test {

void keeps_the_laws(Scene& scene, const Wish& wish, const Plan& plan, const Terms& terms) {
  const auto gone = plan.displaced();
  for (const auto gang : gone) ASSERT_TRUE(may_displace(scene, wish, gang, terms));
  if (gone.empty()) return;
  ASSERT_FALSE(fits_without(scene, wish, {})) << "somebody leaves though there is room";
  for (std::size_t i = 0; i < gone.size(); ++i) {
    ASSERT_FALSE(fits_without(scene, wish, without(gone, i))) << scene.gang(gone[i]).name << " leaves in vain";
  }
}

TEST(PlanLaws, LawfulMinimalAndNoWorseThanGreedy) {
  int planned = 0, plain = 0, never = 0, migrated = 0, cheaper = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SceneSize size;
    size.shares = random.one_in(3);
    auto scene = some_scene(random, size);
    const auto wish = some_wish(random, scene, 8, 4, true);
    const auto terms = usual_terms();
    const auto found = plan(scene, wish, terms);
    ASSERT_TRUE(found) << found.error().to_string();
    ASSERT_NO_FATAL_FAILURE(scene.audit());
    const auto other = greedy(scene, wish, terms);
    ASSERT_EQ(found->placed(), other.has_value());
    if (!found->placed()) {
      ++never;
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(keeps_the_laws(scene, wish, *found, terms));
    MicroUsd as_greedy = 0;
    for (const auto gang : *other) as_greedy += evicting(scene, gang, terms);
    ASSERT_LE(found->cost.lost_work + found->cost.waiting, as_greedy);
    cheaper += found->cost.lost_work + found->cost.waiting < as_greedy ? 1 : 0;
    found->displaced().empty() ? ++plain : ++planned;
    for (const auto& step : found->steps) migrated += step.what == Step::What::kMigrate ? 1 : 0;
    ASSERT_TRUE(still_holds(scene, wish, *found, terms));
    const auto again = plan(scene, wish, terms);
    ASSERT_EQ(again->displaced(), found->displaced());
    carry_out(scene, wish, *found, terms);
    ASSERT_NO_FATAL_FAILURE(scene.audit());
  }
  RecordProperty("planned", planned);
  RecordProperty("migrated", migrated);
  RecordProperty("cheaper", cheaper);
  EXPECT_GT(planned, 300);
  EXPECT_GT(plain, 100);
  EXPECT_GT(never, 100);
  EXPECT_GT(migrated, 50);
}

TEST(PlanLaws, WhoMayNotBeEvictedIsPutElsewhereOrStays) {
  int planned = 0, peers = 0, evicted = 0, alone = 0, cheaper = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 31'000);
    SceneSize size;
    size.shares = random.one_in(3);
    auto scene = some_scene(random, size);
    const auto wish = some_wish(random, scene, 8, 4, true);
    auto terms = usual_terms();
    terms.peers = true;
    for (GangId gang = 0; gang < scene.gangs(); ++gang) scene.at(gang).evictable = random.one_in(3);
    const auto found = plan(scene, wish, terms);
    ASSERT_TRUE(found) << found.error().to_string();
    ASSERT_NO_FATAL_FAILURE(scene.audit());
    const auto by_evictions = greedy(scene, wish, terms);
    ASSERT_TRUE(found->placed() || !by_evictions) << "what evictions alone can do is done";
    if (!found->placed() || found->displaced().empty()) continue;
    ASSERT_NO_FATAL_FAILURE(keeps_the_laws(scene, wish, *found, terms));
    ++planned;
    for (const auto& step : found->steps) {
      if (step.what == Step::What::kEvict) {
        ASSERT_TRUE(may_evict(scene, wish, step.gang, terms));
        ++evicted;
      } else if (step.what == Step::What::kMigrate) {
        ASSERT_TRUE(may_migrate(scene, wish, step.gang, terms));
        peers += may_evict(scene, wish, step.gang, terms) ? 0 : 1;
      }
    }
    if (by_evictions) {
      MicroUsd as_greedy = 0;
      for (const auto gang : *by_evictions) as_greedy += evicting(scene, gang, terms);
      ASSERT_LE(found->cost.lost_work + found->cost.waiting, as_greedy);
      cheaper += found->cost.lost_work + found->cost.waiting < as_greedy ? 1 : 0;
    } else {
      ++alone;
    }
    ASSERT_TRUE(still_holds(scene, wish, *found, terms)) << still_holds(scene, wish, *found, terms).error().message;
    carry_out(scene, wish, *found, terms);
    ASSERT_NO_FATAL_FAILURE(scene.audit());
  }
  RecordProperty("planned", planned);
  RecordProperty("moved who may not be evicted", peers);
  RecordProperty("evicted", evicted);
  RecordProperty("only with moves", alone);
  RecordProperty("cheaper than evictions", cheaper);
  EXPECT_GT(planned, 150);
  EXPECT_GT(peers, 50);
  EXPECT_GT(evicted, 30);
  EXPECT_GT(alone, 20);
}

struct Ratio {
  int compared = 0, equal = 0, exact = 0;
  double worst = 1, sum = 0;
};

/// All sets of gangs, evicted.
Ratio against_all_sets(std::int64_t effort, bool rich) {
  Ratio out;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed + 7'000);
    SceneSize size;
    size.nodes = 8;
    auto scene = some_scene(random, size);
    const auto wish = some_wish(random, scene, 6, 4, rich);
    auto terms = usual_terms();
    terms.migrate = false;
    terms.effort = effort;
    terms.domain = 0;
    const auto who = allowed(scene, wish, terms);
    std::optional<MicroUsd> best;
    for (std::uint32_t set = 0; set < (1U << who.size()); ++set) {
      MicroUsd cost = 0;
      std::vector<GangId> gone;
      for (std::size_t i = 0; i < who.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        gone.push_back(who[i]);
        cost += evicting(scene, who[i], terms);
      }
      if ((!best || cost < *best) && fits_without(scene, wish, gone)) best = cost;
    }
    const auto found = plan(scene, wish, terms);
    EXPECT_EQ(found->placed(), best.has_value()) << seed;
    if (!best || *best == 0) continue;
    ++out.compared;
    const auto ratio = static_cast<double>(found->cost.total()) / static_cast<double>(*best);
    EXPECT_GE(ratio, 1.0) << seed;
    EXPECT_TRUE(!found->exact || ratio == 1.0) << seed;
    out.exact += found->exact ? 1 : 0;
    out.equal += ratio == 1.0 ? 1 : 0;
    out.worst = std::max(out.worst, ratio);
    out.sum += ratio;
  }
  const auto name = fmt::format("{}_effort_{}", rich ? "several_sets" : "one_set", effort);
  ::testing::Test::RecordProperty(
      name, fmt::format("{} compared, {} equal, {} said to be exact, worst {:.4f}, mean {:.4f}", out.compared,
                        out.equal, out.exact, out.worst, out.sum / out.compared));
  return out;
}

TEST(PlanLaws, AsCheapAsTheBestOfAllSets) {
  const auto one = against_all_sets(Terms{}.effort, false);
  EXPECT_GT(one.compared, 150);
  EXPECT_EQ(one.equal, one.compared);
  const auto rich = against_all_sets(Terms{}.effort, true);
  EXPECT_LE(rich.worst, 1.05);
}

TEST(PlanLaws, FirstGuessesAreGood) {
  const auto one = against_all_sets(0, false);
  EXPECT_LE(one.sum / one.compared, 1.1);
}

}  // namespace plan_prop_test
}  // namespace qm::placement::plan::testing
