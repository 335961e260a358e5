// Decisions with their candidates and bounds, and what-if, on the engine of script.hpp.
#include "qm/autoscaler/what_if.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::autoscaler::testing {
namespace decision_cases_test {

Money usd(double value) { return Money::nano(static_cast<std::int64_t>(value * 1e9)); }

/// The decision about a workload after a table.
CapacityDecision decided(Script& script, const std::string& table, const std::string& uid = "w",
                         std::size_t listed = 500) {
  EXPECT_EQ(script.run(table), "");
  const auto out = script.engine().decision(WorkloadUid(uid), script.now(), listed);
  EXPECT_TRUE(out) << uid;
  return out.value_or(CapacityDecision{});
}

const CapacityCandidate* find(const CapacityDecision& decision, const std::string& pool, const std::string& type,
                              Market market = Market::kOnDemand, const std::string& zone = {}) {
  const auto at = std::ranges::find_if(decision.candidates, [&](const CapacityCandidate& one) {
    return one.pool == pool && one.type == type && one.market == market && one.zone == zone;
  });
  return at == decision.candidates.end() ? nullptr : &*at;
}

std::string reason(const CapacityDecision& decision, const std::string& pool, const std::string& type,
                   Market market = Market::kOnDemand, const std::string& zone = {}) {
  const auto* one = find(decision, pool, type, market, zone);
  return one == nullptr ? "absent" : fmt::format("{}: {}", name_of(one->rejection), one->why);
}

TEST(Decisions, ALaunchShowsItsChoiceTheBoundAndTheAlternativesWithNumbers) {
  Script script;
  const auto d = decided(script, R"(
    pool p types=a8,g1,g4,h8
    want w/1 4x1
    => launch p-00001 g1 on-demand
    => launch p-00002 g1 on-demand
    => launch p-00003 g1 on-demand
    => launch p-00004 g1 on-demand
    => promise w/1 by=240 p-00001 p-00002 p-00003 p-00004
  )");
  EXPECT_EQ(d.claims.size(), 4U);
  EXPECT_EQ(d.pods, 4);
  ASSERT_FALSE(d.candidates.empty());
  EXPECT_EQ(d.candidates.front().type, "g1");
  EXPECT_EQ(d.candidates.front().rejection, Rejection::kNone);
  EXPECT_EQ(d.candidates.front().per_hour, usd(4));
  EXPECT_EQ(reason(d, "p", "g4"), "MoreExpensive: 5.00 USD/h against 4.00 of the choice (+25.0 %)");
  EXPECT_EQ(reason(d, "p", "a8"), "MoreExpensive: 40.00 USD/h against 4.00 of the choice (+900.0 %)");
  EXPECT_EQ(reason(d, "p", "c2"), "absent") << "the requirements exclude it, and it has no GPU";
  EXPECT_LE(d.bound.per_hour, usd(4));
  EXPECT_GE(d.bound.per_hour, usd(4) - Money::nano(10)) << "four GPUs at 1 USD";
  EXPECT_EQ(d.counts.at(Rejection::kCost), 3);
}

TEST(Decisions, OfManyCandidatesOnlyTheFirstAreListedAndAllAreCounted) {
  Script script;
  const auto d = decided(script, R"(
    pool p types=a8,g1,g4,h8
    want w/1 1x1
    => launch p-00001 g1 on-demand
    => promise w/1 by=240 p-00001
  )",
                         "w", 2);
  EXPECT_EQ(d.candidates.size(), 2U);
  std::int64_t all = 0;
  for (const auto& [rejection, count] : d.counts) all += count;
  EXPECT_EQ(all, 4);
}

TEST(Decisions, EachReasonOfAnUnmetDemandHasItsNumbers) {
  Script script;
  const auto d = decided(script, R"(
    pool big types=h8 gpus=8
    pool small types=g4
    pool spot types=h8 markets=spot,od zones=za gpus=8
    pool static types=h8 replicas=0
    pool tainted types=h8 taint=team
    pool broken types=h8 unready=no-class
    want w/1 2x8
  )");
  EXPECT_EQ(reason(d, "big", "h8"),
            "LimitExceeded: NodePool big has the limit nvidia.com/gpu 8: 0 in use, 16 more needed");
  EXPECT_EQ(reason(d, "small", "g4"),
            "DoesNotFit: a pod of set0 requests 8 GPUs, and a node has 4 GPUs without its DaemonSets");
  EXPECT_EQ(reason(d, "small", "h8"), "NotAllowed: spec.template.spec.requirements of the NodePool excludes the type");
  EXPECT_EQ(reason(d, "spot", "h8", Market::kSpot, "za"),
            "NoKnownPrice: the price of its spot capacity is not known, and on-demand capacity is allowed");
  EXPECT_EQ(reason(d, "static", ""), "NodePoolNotUsed: it is static: spec.replicas sets the number of its instances");
  EXPECT_EQ(reason(d, "broken", ""), "NodePoolNotUsed: not ready: no-class");
  EXPECT_TRUE(reason(d, "tainted", "h8").starts_with("DoesNotFit: its pods do not tolerate the taint team"))
      << reason(d, "tainted", "h8");
  EXPECT_NE(d.outcome.find("raise spec.limits"), std::string::npos) << d.outcome;
  EXPECT_TRUE(d.claims.empty());
}

// S-487: the pairs of type and zone that were tried, with the time until which each is held.
TEST(Decisions, ExhaustedSpotListsEachTypeAndZoneThatWasRefused) {
  Script script;
  const auto d = decided(script, R"(
    pool p types=h8 markets=spot zones=za,zb
    price h8 za 30
    => price h8 za 30.00
    price h8 zb 31
    => price h8 zb 31.00
    want w/1 1x8
    => launch p-00001 h8 spot za
    => promise w/1 by=240 p-00001
    ice p-00001
    => claim p-00001 Failed
    => launch p-00002 h8 spot zb
    => promise w/1 by=240 p-00002
    ice p-00002
    => claim p-00002 Failed
    => withdrawn w/1
  )");
  EXPECT_TRUE(reason(d, "p", "h8", Market::kSpot, "za").starts_with("NoCapacity: refused at "));
  EXPECT_TRUE(reason(d, "p", "h8", Market::kSpot, "zb").starts_with("NoCapacity: refused at "));
  EXPECT_EQ(find(d, "p", "h8", Market::kSpot, "zb")->per_hour, usd(31));
  EXPECT_NE(
      d.outcome.find("allow further instance types or zones in spec.template.spec.requirements: of 4 offerings that "
                     "its pods fit, 2 were refused and 2 are excluded"),
      std::string::npos)
      << d.outcome;
  EXPECT_EQ(d.bound.by, "") << "nothing can be launched now";
}

TEST(Decisions, AHeavierNodePoolComesFirstWhateverTheOtherCosts) {
  Script script;
  const auto d = decided(script, R"(
    pool heavy types=h8 weight=50
    pool light types=a8
    want w/1 1x8
    => launch heavy-00001 h8 on-demand
    => promise w/1 by=240 heavy-00001
  )");
  EXPECT_EQ(reason(d, "light", "a8"),
            "LowerWeight: NodePool heavy comes first (weight 50 against 0): 40.00 USD/h against 90.00 of the choice "
            "(-55.6 %)");
  EXPECT_LE(d.bound.per_hour, usd(40)) << "the bound is over all NodePools";
}

TEST(Decisions, PodsWithRoomAreNotPartOfThePrice) {
  Script script;
  const auto d = decided(script, R"(
    pool p types=h8
    want w/1 4x8 room=2
    => launch p-00001 h8 on-demand
    => launch p-00002 h8 on-demand
    => promise w/1 by=240 p-00001 p-00002
  )");
  EXPECT_EQ(d.in_room, 2);
  EXPECT_EQ(d.candidates.front().nodes, 2);
  EXPECT_EQ(d.candidates.front().per_hour, usd(180));
}

// The engine launches at a price within the bound, whatever is asked for.
TEST(Decisions, NoLaunchCostsLessThanItsBound) {
  for (const std::string want : {"1x1", "3x2", "5x4", "2x8", "7x1+2x4", "1x0", "9x0+1x8"}) {
    Script script;
    ASSERT_EQ(script.run("pool p types=a8,c2,c4,g1,g4,h8\n"), "");
    ASSERT_TRUE(script.run("want w/1 " + want + " milli=900").find("launch") != std::string::npos) << want;
    const auto d = script.engine().decision(WorkloadUid("w"), script.now());
    ASSERT_TRUE(d) << want;
    ASSERT_EQ(d->candidates.front().rejection, Rejection::kNone) << want;
    EXPECT_LE(d->bound.per_hour, d->candidates.front().per_hour) << want;
    EXPECT_GT(d->bound.per_hour.nano(), 0) << want;
  }
}

// S-176: of workloads that are pending together, the one of the heavier NodePool gets its NodeClaim first.
TEST(Decisions, TheFirstNodeClaimIsThatOfTheHeavierNodePool) {
  expect(R"(
    pool inference types=g4 weight=100 taint=inference
    pool training types=h8 weight=50 taint=training
    want a-train/1 1x8 tolerate=training | want b-serve/1 1x4 tolerate=inference
    => launch inference-00001 g4 on-demand
    => launch training-00002 h8 on-demand
    => promise b-serve/1 by=240 inference-00001
    => promise a-train/1 by=240 training-00002
  )");
  // A higher priority still comes first.
  expect(R"(
    pool inference types=g4 weight=100 taint=inference
    pool training types=h8 weight=50 taint=training
    want a-train/1 1x8 tolerate=training prio=5 | want b-serve/1 1x4 tolerate=inference
    => launch training-00001 h8 on-demand
    => launch inference-00002 g4 on-demand
    => promise a-train/1 by=240 training-00001
    => promise b-serve/1 by=240 inference-00002
  )");
}

TEST(WhatIf, WithoutAChangeThePlanIsWhatTheNextStepLaunches) {
  Script script;
  ASSERT_EQ(script.run(R"(
    owner * karpenter
    pool p types=a8,h8
    want w/1 2x8 ns=team
  )"),
            "");
  const auto digest = script.engine().digest();
  const auto plan = simulate(script.engine(), {}, script.now());
  ASSERT_TRUE(plan) << plan.error().to_string();
  ASSERT_EQ(plan->launches.size(), 2U);
  EXPECT_EQ(plan->launches[0].row.type, "a8");
  EXPECT_EQ(plan->launches[0].other_owner, "karpenter");
  EXPECT_EQ(plan->per_hour, usd(80));
  EXPECT_EQ(plan->gpus, 16);
  EXPECT_LE(plan->bound.per_hour, plan->per_hour);
  EXPECT_EQ(script.engine().digest(), digest) << "the engine itself is unchanged";
}

TEST(WhatIf, APriceANodePoolDemandOrAvailabilityChangesThePlan) {
  Script script;
  ASSERT_EQ(script.run(R"(
    owner * none
    pool p types=a8,h8 gpus=16
    want w/1 2x8
  )"),
            "");
  const Engine& engine = script.engine();
  const auto launches = [&](const WhatIf& change) {
    const auto plan = simulate(engine, change, script.now());
    EXPECT_TRUE(plan) << plan.error().to_string();
    std::string out;
    for (const auto& one : plan->launches) out += one.row.type + " ";
    return fmt::format("{}{} unmet {}", out, plan->per_hour.to_usd(0), plan->unmet.size());
  };
  EXPECT_EQ(launches({}), "a8 a8 80 unmet 0");
  WhatIf price;
  price.prices = {{"a8", std::nullopt, "", std::nullopt, 3000}};
  EXPECT_EQ(launches(price), "h8 h8 180 unmet 0");
  WhatIf dollars;
  dollars.prices = {{"h8", Market::kOnDemand, "", usd(10), 1000}};
  EXPECT_EQ(launches(dollars), "h8 h8 20 unmet 0");
  WhatIf out;
  out.availability = {{"a8", std::nullopt, "", false}};
  EXPECT_EQ(launches(out), "h8 h8 180 unmet 0");
  WhatIf more;
  more.demand.push_back({attempt_id("extra/1"), {pod_set(1, 8)}, 10, script.now()});
  EXPECT_EQ(launches(more), "a8 40 unmet 1") << "of a higher priority, and the limit is 16 GPUs";
  WhatIf pool;
  pool.pools = {*engine.tables().pools.find("p")};
  pool.pools[0].limit_gpus = 8;
  EXPECT_EQ(launches(pool), "0 unmet 1");
  pool.deleted_pools = {"p"};
  EXPECT_EQ(launches(pool), "0 unmet 1");
  WhatIf less;
  less.removed = {WorkloadUid("w")};
  EXPECT_EQ(launches(less), "0 unmet 0");
}

TEST(WhatIf, AnUnknownNameIsRefusedAndNothingIsApplied) {
  Script script;
  ASSERT_EQ(script.run("pool p types=a8\n"), "");
  const auto refused = [&](const WhatIf& change) {
    const auto plan = simulate(script.engine(), change, script.now());
    return plan ? std::string("accepted") : plan.error().message;
  };
  WhatIf type;
  type.prices = {{"x9", std::nullopt, "", usd(1), 1000}};
  EXPECT_EQ(refused(type), "instance type x9 is not in the price catalog");
  WhatIf spot;
  spot.prices = {{"a8", Market::kSpot, "", std::nullopt, 900}};
  EXPECT_EQ(refused(spot), "no spot price of a8 is known");
  WhatIf pool;
  pool.deleted_pools = {"q"};
  EXPECT_EQ(refused(pool), "NodePool q does not exist");
  WhatIf removed;
  removed.removed = {WorkloadUid("w")};
  EXPECT_EQ(refused(removed), "workload w is not on the demand list");
}

// S-208: the price of an offering has a time, an older quote changes nothing, and a newer one re-plans what is pending.
TEST(WhatIf, APriceChangeReplansPendingDemand) {
  expect(R"(
    pool p types=a8,h8 markets=spot zones=za,zb
    price h8 za 30
    => price h8 za 30.00
    price h8 zb 29
    => price h8 zb 29.00
    price a8 za 60
    => price a8 za 60.00
    want w/1 1x8
    => launch p-00001 h8 spot zb
    => promise w/1 by=240 p-00001
    tick 60
    -- refused, and while it is pending the price of another type falls below
    ice p-00001 | price a8 za 20
    => price a8 za 20.00
    => claim p-00001 Failed
    => launch p-00002 a8 spot za
    => promise w/1 by=300 p-00002
  )");
}

}  // namespace decision_cases_test
}  // namespace qm::autoscaler::testing
