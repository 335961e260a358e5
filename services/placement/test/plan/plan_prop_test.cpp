// Random models and pending gangs: plans keep the laws, cost no more than the greedy plan, and are
// close to the best of all sets.
#include "test/plan/cluster_models.hpp"

namespace qm::placement::plan::testing {
namespace plan_prop_test {

void keeps_the_laws(ClusterModel& model, const PendingGang& pending, const Plan& plan, const CostModel& cost_model) {
  const auto gone = plan.displaced();
  for (const auto gang : gone) ASSERT_TRUE(may_displace(model, pending, gang, cost_model));
  if (gone.empty()) return;
  ASSERT_FALSE(fits_without(model, pending, {})) << "a gang is displaced though the pending gang fits";
  for (std::size_t i = 0; i < gone.size(); ++i) {
    ASSERT_FALSE(fits_without(model, pending, without(gone, i)))
        << model.gang(gone[i]).name << " need not be displaced";
  }
}

TEST(PlanLaws, KeepsTheRulesIsMinimalAndCostsAtMostGreedy) {
  int planned = 0, plain = 0, never = 0, migrated = 0, cheaper = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ModelSize size;
    size.shares = random.one_in(3);
    auto model = random_model(random, size);
    const auto pending = random_pending_gang(random, model, 8, 4, true);
    const auto cost_model = usual_cost_model();
    const auto found = plan(model, pending, cost_model);
    ASSERT_TRUE(found) << found.error().to_string();
    ASSERT_NO_FATAL_FAILURE(model.audit());
    const auto other = greedy(model, pending, cost_model);
    ASSERT_EQ(found->placed(), other.has_value());
    if (!found->placed()) {
      ++never;
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(keeps_the_laws(model, pending, *found, cost_model));
    MicroUsd as_greedy = 0;
    for (const auto gang : *other) as_greedy += eviction_cost(model, gang, cost_model);
    ASSERT_LE(found->cost.lost_work + found->cost.waiting, as_greedy);
    cheaper += found->cost.lost_work + found->cost.waiting < as_greedy ? 1 : 0;
    found->displaced().empty() ? ++plain : ++planned;
    for (const auto& step : found->steps) migrated += step.what == Step::What::kMigrate ? 1 : 0;
    ASSERT_TRUE(still_holds(model, pending, *found, cost_model));
    const auto again = plan(model, pending, cost_model);
    ASSERT_EQ(again->displaced(), found->displaced());
    apply_plan(model, pending, *found, cost_model);
    ASSERT_NO_FATAL_FAILURE(model.audit());
  }
  RecordProperty("planned", planned);
  RecordProperty("migrated", migrated);
  RecordProperty("cheaper", cheaper);
  EXPECT_GT(planned, 300);
  EXPECT_GT(plain, 100);
  EXPECT_GT(never, 100);
  EXPECT_GT(migrated, 50);
}

TEST(PlanLaws, AGangThatMayNotBeEvictedIsMigratedOrKept) {
  int planned = 0, peers = 0, evicted = 0, alone = 0, cheaper = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 31'000);
    ModelSize size;
    size.shares = random.one_in(3);
    auto model = random_model(random, size);
    const auto pending = random_pending_gang(random, model, 8, 4, true);
    auto cost_model = usual_cost_model();
    cost_model.peers = true;
    for (GangId gang = 0; gang < model.gangs(); ++gang) model.at(gang).evictable = random.one_in(3);
    const auto found = plan(model, pending, cost_model);
    ASSERT_TRUE(found) << found.error().to_string();
    ASSERT_NO_FATAL_FAILURE(model.audit());
    const auto by_evictions = greedy(model, pending, cost_model);
    ASSERT_TRUE(found->placed() || !by_evictions) << "a plan of evictions alone exists";
    if (!found->placed() || found->displaced().empty()) continue;
    ASSERT_NO_FATAL_FAILURE(keeps_the_laws(model, pending, *found, cost_model));
    ++planned;
    for (const auto& step : found->steps) {
      if (step.what == Step::What::kEvict) {
        ASSERT_TRUE(may_evict(model, pending, step.gang, cost_model));
        ++evicted;
      } else if (step.what == Step::What::kMigrate) {
        ASSERT_TRUE(may_migrate(model, pending, step.gang, cost_model));
        peers += may_evict(model, pending, step.gang, cost_model) ? 0 : 1;
      }
    }
    if (by_evictions) {
      MicroUsd as_greedy = 0;
      for (const auto gang : *by_evictions) as_greedy += eviction_cost(model, gang, cost_model);
      ASSERT_LE(found->cost.lost_work + found->cost.waiting, as_greedy);
      cheaper += found->cost.lost_work + found->cost.waiting < as_greedy ? 1 : 0;
    } else {
      ++alone;
    }
    ASSERT_TRUE(still_holds(model, pending, *found, cost_model))
        << still_holds(model, pending, *found, cost_model).error().message;
    apply_plan(model, pending, *found, cost_model);
    ASSERT_NO_FATAL_FAILURE(model.audit());
  }
  RecordProperty("planned", planned);
  RecordProperty("migrated that may not be evicted", peers);
  RecordProperty("evicted", evicted);
  RecordProperty("only with migrations", alone);
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
    ModelSize size;
    size.nodes = 8;
    auto model = random_model(random, size);
    const auto pending = random_pending_gang(random, model, 6, 4, rich);
    auto cost_model = usual_cost_model();
    for (GangId gang = 0; gang < model.gangs(); ++gang) model.at(gang).movable = false;
    cost_model.effort = effort;
    cost_model.domain = 0;
    const auto candidates = allowed(model, pending, cost_model);
    std::optional<MicroUsd> best;
    for (std::uint32_t set = 0; set < (1U << candidates.size()); ++set) {
      MicroUsd cost = 0;
      std::vector<GangId> gone;
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        gone.push_back(candidates[i]);
        cost += eviction_cost(model, candidates[i], cost_model);
      }
      if ((!best || cost < *best) && fits_without(model, pending, gone)) best = cost;
    }
    const auto found = plan(model, pending, cost_model);
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
      name, fmt::format("{} compared, {} equal, {} reported as exact, worst {:.4f}, mean {:.4f}", out.compared,
                        out.equal, out.exact, out.worst, out.sum / out.compared));
  return out;
}

TEST(PlanLaws, AsCheapAsTheBestOfAllVictimSets) {
  const auto one = against_all_sets(CostModel{}.effort, false);
  EXPECT_GT(one.compared, 150);
  EXPECT_EQ(one.equal, one.compared);
  const auto rich = against_all_sets(CostModel{}.effort, true);
  EXPECT_LE(rich.worst, 1.05);
}

TEST(PlanLaws, TheFirstEstimatesAreClose) {
  const auto one = against_all_sets(0, false);
  EXPECT_LE(one.sum / one.compared, 1.1);
}

}  // namespace plan_prop_test
}  // namespace qm::placement::plan::testing
