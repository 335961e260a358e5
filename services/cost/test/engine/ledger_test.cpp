#include "script.hpp"

#include <gtest/gtest.h>

namespace qm::cost::test {
namespace ledger_test {

void check(Script& script, std::string_view text) { EXPECT_EQ(script.run(text), trimmed(text)); }
void check(std::string_view text) {
  Script script;
  check(script, text);
}

TEST(Ledger, ChargesATeamForItsDeviceAndThePoolsForTheRest) {
  check(R"(
    price g5.xlarge on-demand 1.006
    launch i-1 g5.xlarge us-east-1a on-demand gpus=1 at=0
    node n1 i-1 ready at=120
    bind job/1 research ns n1 0 at=300
    release job/1 at=900
    stop i-1 at=1800
    step 3000
    > charge n1 0-120 starting-capacity/(starting):33533333 provider-payable:-33533333
    > charge n1 120-300 idle-capacity/(idle):50300000 provider-payable:-50300000
    > charge n1 300-900 team-expense/research:167666667 provider-payable:-167666667
    > charge n1 900-1800 idle-capacity/(idle):251500000 provider-payable:-251500000
    statement 3000
    > (idle) 0.301800000 1080.000s
    > (starting) 0.033533333 120.000s
    > research 0.167666667 600.000s
    > total 0.503000000 bill 0.503000000 imbalance 0 open 0
  )");
}

TEST(Ledger, SharesAreSplitByLargestRemainder) {
  // 1000 nano over three devices are 334, 333 and 333; half of the last is 167 and 166.
  check(R"(
    price t on-demand 0.0036
    launch i-1 t z on-demand gpus=3 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 0,1 at=0
    bind b/1 blue ns n1 2:500 at=0
    stop i-1 at=1
    step 700
    > charge n1 0-1 idle-capacity/(idle):167 team-expense/blue:166 team-expense/red:667 provider-payable:-1000
  )");
}

// S-120: two tenants' instances of one GPU are charged separately, and the unused part of it is idle. Its node has no
// whole GPU.
TEST(Ledger, InstancesOfOneGpuArePaidEachByItself) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0 gpus=0
    bind a/1 red ns n1 0:142 at=0
    bind b/1 blue ns n1 0:285 at=0
    stop i-1 at=1000
    step 2000
    > charge n1 0-1000 idle-capacity/(idle):573000000 team-expense/blue:285000000 team-expense/red:142000000 provider-payable:-1000000000
  )");
}

// Instances that fill a GPU leave no idle part of it, for all profiles and also on a GPU with four slices.
TEST(Ledger, InstancesThatFillAGpuLeaveNothingIdle) {
  struct Row {
    const char *type, *instances, *want;
  };
  for (const Row& row : {Row{"t", "0:1g,0:1g,0:1g,0:1g,0:1g,0:1g,0:1g", "team-expense/red:7000000000"},
                         Row{"t", "0:3g,0:4g", "team-expense/red:7000000000"},
                         Row{"t", "0:3g,0:2g,0:1g,0:1g", "team-expense/red:7000000000"},
                         Row{"t", "0:2g,0:2g", "idle-capacity/(idle):3000000000 team-expense/red:4000000000"},
                         Row{"g7e.2xlarge", "0:1g,0:1g,0:1g,0:1g", "team-expense/red:7000000000"}}) {
    check(fmt::format(R"(
    price {0} on-demand 25.2
    launch i-1 {0} z on-demand gpus=1 at=0
    node n1 i-1 ready at=0 gpus=0
    bind a/1 red ns n1 {1} at=0
    stop i-1 at=1000
    step 2000
    > charge n1 0-1000 {2} provider-payable:-7000000000
  )",
                      row.type, row.instances, row.want));
  }
  // And each is charged for its own slices only.
  check(R"(
    price t on-demand 25.2
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0 gpus=0
    bind a/1 red ns n1 0:3g at=0
    bind b/1 blue ns n1 0:4g at=0
    stop i-1 at=1000
    step 2000
    > charge n1 0-1000 team-expense/blue:4000000000 team-expense/red:3000000000 provider-payable:-7000000000
  )");
}

// A gang that started with two of its pods, lost one with its node, and scaled up by one on a third: each pod is
// charged from its bind until its device was free, and entries posted before the scale-up remain valid.
TEST(Ledger, AGangThatGrowsAndLosesMembersIsPaidPodByPod) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    launch i-2 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    node n2 i-2 ready at=0
    bind a/1 red ns n1 0 at=0
    bind a/1 red ns n2 0 at=0
    step 4250
    > charge n1 0-3600 team-expense/red:3600000000 provider-payable:-3600000000
    > charge n2 0-3600 team-expense/red:3600000000 provider-payable:-3600000000
    release a/1 at=4200 on=n2
    stop i-2 at=4200
    launch i-3 t z on-demand gpus=1 at=4000
    node n3 i-3 ready at=4000
    bind a/1 red ns n3 0 at=4600
    step 4700
    release a/1 at=5000 on=n1
    release a/1 at=5200 on=n3
    stop i-1 at=5400
    stop i-3 at=5400
    step 6000
    > charge n2 3600-4200 team-expense/red:600000000 provider-payable:-600000000
    > charge n1 3600-5000 team-expense/red:1400000000 provider-payable:-1400000000
    > charge n1 5000-5400 idle-capacity/(idle):400000000 provider-payable:-400000000
    > charge n3 4000-4600 idle-capacity/(idle):600000000 provider-payable:-600000000
    > charge n3 4600-5200 team-expense/red:600000000 provider-payable:-600000000
    > charge n3 5200-5400 idle-capacity/(idle):200000000 provider-payable:-200000000
    counts
    > entries 8 restated 0 late 0 instances 3 slices 8 assignments 1 nodes 3
    statement 6000
    > (idle) 1.200000000 1200.000s
    > red 9.800000000 9800.000s
    > total 11.000000000 bill 11.000000000 imbalance 0 open 0
  )");
}

TEST(Ledger, ALateReleaseReversesAndPostsAgain) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 0 at=600
    stop i-1 at=1800
    step 2400
    > charge n1 0-600 idle-capacity/(idle):600000000 provider-payable:-600000000
    > charge n1 600-1800 team-expense/red:1200000000 provider-payable:-1200000000
    release a/1 at=1200
    step 2500
    > reversal n1 600-1800 team-expense/red:-1200000000 provider-payable:1200000000
    > charge n1 600-1200 team-expense/red:600000000 provider-payable:-600000000
    > charge n1 1200-1800 idle-capacity/(idle):600000000 provider-payable:-600000000
    counts
    > entries 5 restated 1 late 0 instances 1 slices 3 assignments 1 nodes 1
    release a/1 at=1200
    step 2600
    statement 2600
    > (idle) 1.200000000 1200.000s
    > red 0.600000000 600.000s
    > total 1.800000000 bill 1.800000000 imbalance 0 open 0
  )");
}

TEST(Ledger, ALateStopTakesBackWhatWasChargedTooMuch) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    step 4200
    > charge n1 0-3600 idle-capacity/(idle):3600000000 provider-payable:-3600000000
    stop i-1 at=1800
    step 4300
    > reversal n1 0-3600 idle-capacity/(idle):-3600000000 provider-payable:3600000000
    > charge n1 0-1800 idle-capacity/(idle):1800000000 provider-payable:-1800000000
    statement 4300
    > (idle) 1.800000000 1800.000s
    > total 1.800000000 bill 1.800000000 imbalance 0 open 0
  )");
}

TEST(Ledger, ACorrectedReleaseRemovesItsSplit) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 0 at=0
    release a/1 at=1200
    stop i-1 at=1800
    step 2400
    > charge n1 0-1200 team-expense/red:1200000000 provider-payable:-1200000000
    > charge n1 1200-1800 idle-capacity/(idle):600000000 provider-payable:-600000000
    release a/1 at=1800
    step 2500
    > reversal n1 0-1200 team-expense/red:-1200000000 provider-payable:1200000000
    > reversal n1 1200-1800 idle-capacity/(idle):-600000000 provider-payable:600000000
    > charge n1 0-1800 team-expense/red:1800000000 provider-payable:-1800000000
  )");
}

TEST(Ledger, NodeStatesNameThePool) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=2 at=0
    node n1 i-1 notready at=50
    node n1 i-1 ready at=100
    bind a/1 red ns n1 0 at=100
    node n1 i-1 unhealthy at=200
    node n1 i-1 ready at=300
    node n1 i-1 notready at=400
    node n1 i-1 draining at=500
    stop i-1 at=600
    step 1200
    > charge n1 0-50 starting-capacity/(starting):50000000 provider-payable:-50000000
    > charge n1 50-100 starting-capacity/(starting):50000000 provider-payable:-50000000
    > charge n1 100-200 idle-capacity/(idle):50000000 team-expense/red:50000000 provider-payable:-100000000
    > charge n1 200-300 unhealthy-capacity/(unhealthy):50000000 team-expense/red:50000000 provider-payable:-100000000
    > charge n1 300-400 idle-capacity/(idle):50000000 team-expense/red:50000000 provider-payable:-100000000
    > charge n1 400-500 unhealthy-capacity/(unhealthy):50000000 team-expense/red:50000000 provider-payable:-100000000
    > charge n1 500-600 draining-capacity/(draining):50000000 team-expense/red:50000000 provider-payable:-100000000
  )");
}

TEST(Ledger, ASpotPriceCutsTheBillAndItsFirstValueHoldsBefore) {
  check(R"(
    price t on-demand 36
    spot t z 3.6 from=100
    spot t z 7.2 from=600
    launch i-1 t z spot gpus=1 at=0
    node n1 i-1 ready at=0
    stop i-1 at=1000
    step 1600
    > charge n1 0-600 idle-capacity/(idle):600000000 provider-payable:-600000000
    > charge n1 600-1000 idle-capacity/(idle):800000000 provider-payable:-800000000
    spot t other 1 from=0
    step 1700
  )");
}

TEST(Ledger, SpotWithoutAPriceCostsOnDemandUntilAQuoteArrives) {
  check(R"(
    price t on-demand 36
    launch i-1 t z spot gpus=1 at=0
    node n1 i-1 ready at=0
    stop i-1 at=100
    step 700
    > charge n1 0-100 idle-capacity/(idle):1000000000 provider-payable:-1000000000
    spot t z 3.6 from=50
    step 800
    > reversal n1 0-100 idle-capacity/(idle):-1000000000 provider-payable:1000000000
    > charge n1 0-100 idle-capacity/(idle):100000000 provider-payable:-100000000
  )");
}

TEST(Ledger, ANewPlanHoldsFromNowOn) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    step 600
    reprice
    price t on-demand 7.2
    step 1000
    stop i-1 at=2000
    step 2600
    > charge n1 0-1000 idle-capacity/(idle):1000000000 provider-payable:-1000000000
    > charge n1 1000-2000 idle-capacity/(idle):2000000000 provider-payable:-2000000000
  )");
}

TEST(Ledger, AnUnpricedInstanceCountsItsTimeAndIsNamed) {
  Script script;
  check(script, R"(
    launch i-1 odd z on-demand gpus=2 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 1 at=0
    step 100
    statement 100
    > (idle) 0.000000000 100.000s
    > red 0.000000000 100.000s
    > total 0.000000000 bill 0.000000000 imbalance 0 open 1
  )");
  EXPECT_EQ(script.engine.unpriced(at_second(100)), std::vector<InstanceId>{InstanceId("i-1")});
}

TEST(Ledger, InstancesWithoutGpusAreSystemCost) {
  check(R"(
    price c on-demand 3.6
    launch i-1 c z on-demand gpus=0 at=0
    node n1 i-1 ready at=100
    stop i-1 at=300
    step 900
    > charge n1 0-100 starting-capacity/(starting):100000000 provider-payable:-100000000
    > charge n1 100-300 system-capacity/(system):200000000 provider-payable:-200000000
    statement 900
    > (starting) 0.100000000 0.000s
    > (system) 0.200000000 0.000s
    > total 0.300000000 bill 0.300000000 imbalance 0 open 0
  )");
}

TEST(Ledger, ANodeNameThatComesBackIsNotChargedForTheOldStay) {
  // The release of a/1 was never received; its instance is gone, and another one got the same node name.
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 0 at=0
    stop i-1 at=100
    launch i-2 t z on-demand gpus=1 at=200
    node n1 i-2 ready at=200
    stop i-2 at=300
    step 900
    > charge n1 0-100 team-expense/red:100000000 provider-payable:-100000000
    > charge n1 200-300 idle-capacity/(idle):100000000 provider-payable:-100000000
  )");
}

TEST(Ledger, ADevicePromisedTwiceIsSharedAndStillAddsUp) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 0 at=0
    bind b/1 blue ns n1 0 at=0
    stop i-1 at=100
    step 700
    > charge n1 0-100 team-expense/blue:50000000 team-expense/red:50000000 provider-payable:-100000000
  )");
}

TEST(Ledger, APartialAnswerIsExactToTheMicrosecond) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=2 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 0 at=10
    step 20
    statement 12.5
    > (idle) 0.011250000 22.500s
    > red 0.001250000 2.500s
    > total 0.012500000 bill 0.012500000 imbalance 0 open 1
    use 11 12 workload
    > (idle) 0.000500000 1.000s
    > ns/a 0.000500000 1.000s
  )");
}

TEST(Ledger, RefusesWindowsThatItCannotAnswer) {
  Script script;
  script.run("price t on-demand 3.6\nlaunch i-1 t z on-demand gpus=1 at=0\nstep 1000000\n");
  const auto empty = script.engine.allocate(at_second(50), at_second(50), Group::kTeam);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::kInvalid);
  EXPECT_EQ(empty.error().field, "until_us");
  const auto old = script.engine.allocate(at_second(500), at_second(900'000), Group::kTeam);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, Code::kOutOfRange);
  EXPECT_FALSE(old.error().remedy.empty());
  const auto month = script.engine.statement("1970-13", at_second(1000));
  ASSERT_FALSE(month);
  EXPECT_EQ(month.error().field, "period");
  EXPECT_TRUE(script.engine.allocate(at_second(0), at_second(900'000), Group::kTeam));
}

// S-307, S-498: spend by namespace, by team, by workload and by node each adds up to the bill.
TEST(Ledger, EachPartitionAddsUpToTheBill) {
  Script script;
  script.run(R"(
    price p on-demand 55.04
    launch i-1 p z on-demand gpus=8 at=0
    node n1 i-1 ready at=60
    bind train/1 research lab n1 0,1,2 at=60
    bind serve/1 product shop n1 3,4:250 at=61
    bind probe/1 product lab n1 4:333 at=100
    release train/1 at=1777
    stop i-1 at=7001
    launch i-2 p z on-demand gpus=8 at=333
    step 9000
  )");
  EXPECT_EQ(script.engine.audit(), "");
  // 55.04 USD/h for 7001 s and for 8667 s, each accrued on its own clock.
  const Money bill = Money::nano(55'040'000'000LL * 7001 / 3600) + Money::nano(55'040'000'000LL * 8667 / 3600);
  for (const auto group : {Group::kTeam, Group::kNamespace, Group::kWorkload, Group::kNode}) {
    const auto rows = script.engine.allocate(Instant{}, at_second(9000), group);
    ASSERT_TRUE(rows);
    Amount sum;
    for (const auto& [key, amount] : *rows) sum += amount;
    EXPECT_EQ(sum.nano, bill);
    EXPECT_EQ(sum.gpu_micros, std::int64_t{8} * (7001 + 8667) * 1'000'000);
  }
  const auto spaces = *script.engine.allocate(Instant{}, at_second(9000), Group::kNamespace);
  EXPECT_EQ(spaces.size(), 4u);  // lab, shop, (idle), (starting)
  const auto jobs = *script.engine.allocate(Instant{}, at_second(9000), Group::kWorkload);
  EXPECT_EQ(jobs.at("lab/train").gpu_micros, std::int64_t{3} * 1717 * 1'000'000);
  EXPECT_EQ(jobs.at("shop/serve").gpu_micros, std::int64_t{6940} * 1'250'000);
}

TEST(Ledger, MonthsAreSplitAtMidnightUtc) {
  // December begins at second 2592000. The instance runs half an hour into each month.
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=2590200
    node n1 i-1 ready at=2590200
    stop i-1 at=2593800
    step 2600000
    > charge n1 2590200-2592000 idle-capacity/(idle):1800000000 provider-payable:-1800000000
    > charge n1 2592000-2593800 idle-capacity/(idle):1800000000 provider-payable:-1800000000
    statement 2600000 2026-11
    > (idle) 1.800000000 1800.000s
    > total 1.800000000 bill 1.800000000 imbalance 0 open 0
    statement 2593600 2026-12
    > (idle) 1.600000000 1600.000s
    > total 1.600000000 bill 1.600000000 imbalance 0 open 1
    statement 2600000 2027-01
    > total 0.000000000 bill 0.000000000 imbalance 0 open 0
  )");
}

TEST(Ledger, FoldsWhatIsOldAndKeepsTheSums) {
  Script script;
  check(script, R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    launch i-2 t z on-demand gpus=1 at=0
    node n2 i-2 ready at=0
    bind a/1 red ns n2 0 at=0
    release a/1 at=1800
    stop i-2 at=3600
    step 5000
    > charge n1 0-3600 idle-capacity/(idle):3600000000 provider-payable:-3600000000
    > charge n2 0-1800 team-expense/red:1800000000 provider-payable:-1800000000
    > charge n2 1800-3600 idle-capacity/(idle):1800000000 provider-payable:-1800000000
    counts
    > entries 3 restated 0 late 0 instances 2 slices 3 assignments 1 nodes 2
  )");
  script.run("step 400000");  // 111 hours on
  check(script, R"(
    counts
    > entries 112 restated 0 late 0 instances 1 slices 47 assignments 0 nodes 1
    statement 400000
    > (idle) 401.800000000 401800.000s
    > red 1.800000000 1800.000s
    > total 403.600000000 bill 403.600000000 imbalance 0 open 1
    stop i-2 at=3000
    release a/1 at=1000
    step 400100
    counts
    > entries 112 restated 0 late 1 instances 1 slices 47 assignments 1 nodes 1
    statement 400100
    > (idle) 401.900000000 401900.000s
    > red 1.800000000 1800.000s
    > total 403.700000000 bill 403.700000000 imbalance 0 open 1
  )");
}

TEST(Ledger, OneInstanceUnderTwoKeysIsBilledOnce) {
  Engine engine;
  const InstanceUpdated by_id{
      InstanceId("i-1"), ClaimName("i-1"), 7, "t", "z", "on-demand", NodeName("n"), 1, from_micros(1'000'000), {}};
  InstanceUpdated by_claim = by_id;
  by_claim.claim = ClaimName("claim-x");
  by_claim.version = 1;
  by_claim.stopped = from_micros(11'000'000);
  const std::vector<Engine::Command> batch{
      PriceApplied{PricePlan{"p", {{"t", "", "", HourlyRate{Money::nano(3'600'000'000'000)}}}}, {}}, by_claim, by_id};
  engine.step(batch, from_micros(20'000'000));
  EXPECT_EQ(engine.statement("", from_micros(20'000'000))->total.nano, Money::nano(10'000'000'000));
}

TEST(Prices, TheMostSpecificEntryWins) {
  const auto rate = [](std::int64_t n) { return HourlyRate{Money::nano(n)}; };
  const PricePlan plan{"p",
                       {{"", "", "", rate(1)},
                        {"t", "", "", rate(2)},
                        {"", "spot", "z", rate(3)},
                        {"t", "spot", "", rate(4)},
                        {"t", "on-demand", "z", rate(5)},
                        {"t", "on-demand", "", rate(6)}}};
  EXPECT_EQ(planned_rate(plan, "t", "on-demand", "z"), rate(5));
  EXPECT_EQ(planned_rate(plan, "t", "on-demand", "y"), rate(6));
  EXPECT_EQ(planned_rate(plan, "t", "spot", "z"), rate(4));
  EXPECT_EQ(planned_rate(plan, "u", "spot", "z"), rate(3));
  EXPECT_EQ(planned_rate(plan, "u", "spot", "y"), rate(1));
  EXPECT_EQ(planned_rate(PricePlan{}, "t", "spot", "z"), std::nullopt);
}

// S-207: the saving by spot is computed from the charges of two instances, not from a price list.
TEST(Prices, SpotSavingsFollowFromTheLedger) {
  struct Row {
    const char *type, *on_demand, *spot;
  };
  for (const auto& row :
       {Row{"g4dn.xlarge", "0.526", "0.158"}, Row{"g5.xlarge", "1.006", "0.302"}, Row{"g5.2xlarge", "1.212", "0.364"},
        Row{"g5.12xlarge", "5.672", "1.702"}, Row{"p3.2xlarge", "3.060", "0.918"}}) {
    Script script;
    script.run(fmt::format(R"(
      price {0} on-demand {1}
      spot {0} z {2} from=0
      launch od {0} z on-demand gpus=1 at=0
      launch sp {0} z spot gpus=1 at=0
      node od od ready at=0
      node sp sp ready at=0
      step 360000)",
                           row.type, row.on_demand, row.spot));
    const auto charge = *script.engine.allocate(at_second(0), at_second(360000), Group::kNode);
    const double saving = 100.0 * (1 - static_cast<double>(charge.at("sp").nano.nano()) /
                                           static_cast<double>(charge.at("od").nano.nano()));
    EXPECT_GT(saving, 69.9) << row.type;
    EXPECT_LT(saving, 70.1) << row.type;
  }
}

// S-300: the saving by a commitment, from the charges of the same hundred hours under three plans.
TEST(Prices, CommitmentSavingsFollowFromTheLedger) {
  const auto charged = [](const std::string& usd_hour) {
    Script script;
    script.run(fmt::format(R"(
      price p5.48xlarge on-demand {}
      launch n p5.48xlarge z on-demand gpus=8 at=0
      node n n ready at=0
      step 360000)",
                           usd_hour));
    return static_cast<double>(
        script.engine.allocate(at_second(0), at_second(360000), Group::kNode)->at("n").nano.nano());
  };
  const double full = charged("98.32");
  EXPECT_DOUBLE_EQ(full, 9832e9);
  EXPECT_NEAR(100 * (1 - charged("65.93") / full), 32.9, 0.05);
  EXPECT_NEAR(100 * (1 - charged("45.66") / full), 53.6, 0.05);
}

TEST(Prices, TheBuiltInPlanPricesEachTypeOfTheTable) {
  EXPECT_EQ(builtin_prices().entries.size(), 113u);
  const auto p5 = planned_rate(builtin_prices(), "p5.48xlarge", "on-demand", "us-east-1a");
  ASSERT_TRUE(p5);
  EXPECT_EQ(p5->per_hour.to_usd(2), "55.04");
  EXPECT_FALSE(planned_rate(builtin_prices(), "p5e.48xlarge", "on-demand", "us-east-1a"));
}

}  // namespace ledger_test
}  // namespace qm::cost::test
