// A recorded time with a simulated cloud: the bill, and what a change of it changes.
#include "qm/autoscaler/history/history.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::autoscaler::testing {
namespace history_cases_test {

using namespace std::chrono_literals;

constexpr Instant kFrom = from_micros(1'000'000'000'000);

Pool pool_of(std::vector<std::string> types) {
  Pool pool;
  pool.name = "p";
  pool.instance_types = std::move(types);
  pool.markets = {Market::kOnDemand};
  pool.consolidate_after = 5min;
  return pool;
}

History::Job job(const std::string& uid, std::int32_t pods, std::int64_t gpus, Duration after, Duration runs) {
  History::Job out;
  out.item.id = {WorkloadUid(uid), 1};
  out.item.pod_sets = {pod_set(pods, gpus)};
  out.item.since = kFrom + after;
  out.workload.uid = out.item.id.uid;
  out.workload.name = uid;
  out.workload.ns = "research";
  out.runs = runs;
  return out;
}

History history_of(std::vector<History::Job> jobs, Duration length, std::vector<Pool> pools) {
  return {kFrom, kFrom + length, std::move(jobs), {{kFrom, PoolsApplied{std::move(pools)}}}};
}

Bill bill(const History& history, const HistoryChange& change = {}, const Options& options = {}) {
  const auto out = replay_bill(history, small_catalog(), options, change);
  EXPECT_TRUE(out) << out.error().to_string();
  return out.value_or(Bill{});
}

double usd(const Bill& bill) { return static_cast<double>(bill.cost.nano()) / 1e9; }

// One job of an hour on an instance of 40 USD: four minutes of start, and its end after five idle minutes.
TEST(History, AJobPaysForItsInstanceFromTheLaunchToTheEndOfTheDrain) {
  const auto history = history_of({job("w", 1, 8, 0s, 1h)}, 3h, {pool_of({"a8", "h8"})});
  const Bill b = bill(history);
  EXPECT_EQ(b.launches, 1);
  EXPECT_EQ(b.jobs, 1);
  EXPECT_EQ(b.started, 1);
  EXPECT_EQ(b.finished, 1);
  EXPECT_EQ(b.evictions, 0);
  EXPECT_EQ(b.used_gpu_seconds, 8 * 3600);
  EXPECT_GE(b.waited, 4min);
  EXPECT_LE(b.waited, 5min);
  EXPECT_GE(usd(b), 40.0 * 69 / 60);
  EXPECT_LE(usd(b), 40.0 * 74 / 60);
  EXPECT_EQ(bill(history), b) << "equal arguments, equal bill";
}

TEST(History, TheSecondJobUsesTheNodeOfTheFirst) {
  const auto history = history_of({job("a", 1, 8, 0s, 30min), job("b", 1, 8, 34min, 30min)}, 3h, {pool_of({"a8"})});
  const Bill b = bill(history);
  EXPECT_EQ(b.launches, 1);
  EXPECT_EQ(b.finished, 2);
}

TEST(History, APriceANodePoolAvailabilityAndDemandChangeTheBill) {
  const auto history = history_of({job("w", 2, 8, 0s, 1h)}, 3h, {pool_of({"a8", "h8"})});
  const Bill present = bill(history);
  HistoryChange expensive;
  expensive.what_if.prices = {{"a8", std::nullopt, "", std::nullopt, 5000}};
  EXPECT_NEAR(usd(bill(history, expensive)), usd(present) * 90 / 40, 0.5) << "h8 is cheaper now";
  HistoryChange out;
  out.what_if.availability = {{"a8", std::nullopt, "", false}};
  EXPECT_EQ(bill(history, out).cost, bill(history, expensive).cost);
  HistoryChange limit;
  limit.what_if.pools = {pool_of({"a8", "h8"})};
  limit.what_if.pools[0].limit_gpus = 8;
  EXPECT_EQ(bill(history, limit).started, 0);
  EXPECT_EQ(bill(history, limit).cost, Money{});
  HistoryChange sooner;
  sooner.what_if.pools = {pool_of({"a8", "h8"})};
  sooner.what_if.pools[0].consolidate_after = 0s;
  EXPECT_LT(bill(history, sooner).cost, present.cost);
  HistoryChange twice;
  twice.demand_permille = 2000;
  EXPECT_EQ(bill(history, twice).finished, 2);
  EXPECT_NEAR(usd(bill(history, twice)), 2 * usd(present), 0.5);
  twice.demand_permille = 0;
  EXPECT_EQ(bill(history, twice).jobs, 0);
}

TEST(History, SpotPricesAreThoseOfTheTimeOfTheLaunch) {
  Pool pool = pool_of({"h8"});
  pool.markets = {Market::kSpot};
  pool.zones = {"za"};
  auto history = history_of({job("a", 1, 8, 10min, 30min), job("b", 1, 8, 3h, 30min)}, 5h, {pool});
  const auto quote = [](double price, Instant at) {
    return SpotPricesUpdated{{{"h8", "za", HourlyRate{Money::nano(static_cast<std::int64_t>(price * 1e9))}, at}}};
  };
  history.changes.push_back({kFrom, quote(30, kFrom)});
  history.changes.push_back({kFrom + 2h, quote(60, kFrom + 2h)});
  const Bill b = bill(history);
  EXPECT_EQ(b.launches, 2);
  const double hours = static_cast<double>(b.gpu_seconds) / 8 / 3600;
  EXPECT_NEAR(usd(b), 45 * hours, 0.5);
  HistoryChange half;
  half.what_if.prices = {{"h8", Market::kSpot, "za", std::nullopt, 500}};
  EXPECT_NEAR(usd(bill(history, half)), usd(b) / 2, 0.1);
}

TEST(History, WithoutAJobOrWithAnUnknownTypeNothingIsReplayed) {
  const auto empty = replay_bill(history_of({}, 1h, {}), small_catalog(), {}, {});
  ASSERT_FALSE(empty);
  EXPECT_FALSE(empty.error().remedy.empty());
  HistoryChange unknown;
  unknown.what_if.prices = {{"x9", std::nullopt, "", std::nullopt, 900}};
  const auto history = history_of({job("w", 1, 8, 0s, 1h)}, 3h, {pool_of({"a8"})});
  EXPECT_EQ(replay_bill(history, small_catalog(), {}, unknown).error().message,
            "instance type x9 is not in the price catalog");
  HistoryChange much;
  much.demand_permille = -1;
  EXPECT_FALSE(replay_bill(history, small_catalog(), {}, much));
}

// Everything that was recorded runs, whatever the mix, and no GPU works without being paid for.
TEST(History, AllJobsOfAMixedDayRun) {
  std::mt19937 random(7);
  std::vector<History::Job> jobs;
  for (int i = 0; i < 300; ++i) {
    const std::int32_t pods = random() % 5 == 0 ? 2 : 1;
    const std::int64_t gpus = std::int64_t{1} << (random() % 4);
    jobs.push_back(job("w" + std::to_string(i), pods, gpus, std::chrono::seconds(random() % 43'200),
                       std::chrono::seconds(300 + random() % 7200)));
    jobs.back().item.priority = static_cast<std::int32_t>(random() % 3);
  }
  std::ranges::sort(jobs, std::less<>{});
  const auto history = history_of(jobs, 24h, {pool_of({"a8", "g1", "g4", "h8"})});
  const Bill b = bill(history);
  EXPECT_EQ(b.jobs, 300);
  EXPECT_EQ(b.finished, 300);
  EXPECT_EQ(b.evictions, 0);
  EXPECT_LE(b.used_gpu_seconds, b.gpu_seconds);
  EXPECT_LE(b.longest_wait, 12min);  // three boots
}

}  // namespace history_cases_test
}  // namespace qm::autoscaler::testing
