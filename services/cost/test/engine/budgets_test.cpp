// The published state of budgets: allotments by the calendar, and the spending of attempts.
#include "qm/cost/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::cost {
namespace budgets_test {

using namespace std::chrono_literals;

Instant at(const char* text) { return *from_rfc3339(text); }

Budget gpu_hours(std::int64_t hours, BudgetPeriod period = BudgetPeriod::kDay) {
  Budget out;
  out.name = "research";
  out.cluster_queue = "research";
  out.amount = hours * 3'600'000;
  out.period = period;
  return out;
}

/// An engine with the newest event of each budget and attempt, as a consumer has them.
struct Books {
  Engine engine;
  std::map<std::string, BudgetRow> budgets;
  std::map<AttemptId, Spent> spent;
  std::size_t published = 0;

  Output step(const std::vector<Engine::Command>& batch, Instant now) {
    auto out = engine.step(batch, now);
    engine.commit();
    EXPECT_EQ(engine.audit(), "");
    for (const auto& row : out.budgets) budgets[row.budget.name] = row;
    for (const auto& one : out.spent) spent[one.attempt] = one;
    published += out.budgets.size() + out.spent.size();
    return out;
  }
};

const AttemptId kJob{WorkloadUid("job"), 1};

AssignmentUpdated stay(const AttemptId& id, std::uint64_t version, Instant bound, Instant released) {
  AssignmentUpdated out;
  out.id = id;
  out.version = version;
  out.owner = {"research", "ns", "job", id.uid.value()};
  out.members = {{NodeName("n1"), {{0, 1000}, {1, 1000}}, bound, released}};
  out.ended = released != Instant{};
  return out;
}
InstanceUpdated instance_row(Instant launched) {
  return {InstanceId("i-1"), ClaimName("c"), 1, "g5.48xlarge", "z", "on-demand", NodeName("n1"), 8, launched, {}};
}

/// As after a restart: an engine that was loaded from the rows of another.
Engine loaded(const Engine& from) {
  State rows;
  const auto copy = [](auto& to, const auto& table) {
    for (const auto& [key, row] : table) to.restore(key, row);
  };
  const State& state = from.state();
  copy(rows.instances, state.instances);
  copy(rows.spot, state.spot);
  copy(rows.nodes, state.nodes);
  copy(rows.assignments, state.assignments);
  copy(rows.plans, state.plans);
  copy(rows.slices, state.slices);
  copy(rows.totals, state.totals);
  copy(rows.accounts, state.accounts);
  copy(rows.budgets, state.budgets);
  copy(rows.spent, state.spent);
  copy(rows.meta, state.meta);
  Engine out;
  out.load(std::move(rows));
  return out;
}

TEST(Budgets, AllotmentsFollowTheCalendarAndTheNextIsPublishedAhead) {
  Books books;
  const Instant now = at("2026-11-22T22:30:00Z");
  auto out = books.step({BudgetsApplied{{gpu_hours(10)}}}, now);
  auto row = books.budgets.at("research");
  EXPECT_EQ(row.sequence, 1u);
  ASSERT_EQ(row.periods.size(), 2u);
  EXPECT_EQ(row.periods.begin()->first, at("2026-11-22T00:00:00Z"));
  EXPECT_EQ(row.periods.begin()->second.to, at("2026-11-23T00:00:00Z"));
  EXPECT_EQ(row.periods.rbegin()->second.to, at("2026-11-24T00:00:00Z"));
  EXPECT_EQ(row.periods.rbegin()->second.amount, 36'000'000);
  EXPECT_EQ(out.wake_at, at("2026-11-23T00:00:00Z"));
  EXPECT_TRUE(books.step({Tick{}, BudgetsApplied{{gpu_hours(10)}}}, now + 1min).budgets.empty())
      << "a repetition has no event";
  out = books.step({Tick{}}, at("2026-11-23T00:00:00Z"));
  ASSERT_EQ(out.budgets.size(), 1u);
  EXPECT_EQ(out.budgets[0].sequence, 2u);
  EXPECT_EQ(out.budgets[0].periods.begin()->first, at("2026-11-23T00:00:00Z"));
  EXPECT_EQ(out.budgets[0].periods.size(), 2u);
  // After days without a step the current period is still correct.
  out = books.step({Tick{}}, at("2026-11-30T12:00:00Z"));
  EXPECT_EQ(out.budgets[0].periods.begin()->first, at("2026-11-30T00:00:00Z"));
}

TEST(Budgets, PeriodsOfOtherCalendars) {
  using Around = std::pair<Instant, Instant>;
  EXPECT_EQ(period_around(at("2026-11-22T23:30:00Z"), BudgetPeriod::kDay, 2h),
            Around(at("2026-11-22T22:00:00Z"), at("2026-11-23T22:00:00Z")));
  EXPECT_EQ(period_around(at("2026-11-22T23:30:00Z"), BudgetPeriod::kWeek, 0h),
            Around(at("2026-11-16T00:00:00Z"), at("2026-11-23T00:00:00Z")));
  EXPECT_EQ(period_around(at("2026-11-22T23:30:00Z"), BudgetPeriod::kWeek, 1h),
            Around(at("2026-11-22T23:00:00Z"), at("2026-11-29T23:00:00Z")));
  EXPECT_EQ(period_around(at("2026-12-31T20:00:00Z"), BudgetPeriod::kMonth, -5h),
            Around(at("2026-12-01T05:00:00Z"), at("2027-01-01T05:00:00Z")));
  EXPECT_EQ(period_around(at("2026-12-01T04:59:59Z"), BudgetPeriod::kMonth, -5h),
            Around(at("2026-11-01T05:00:00Z"), at("2026-12-01T05:00:00Z")));
}

TEST(Budgets, AYearOfACalendar) {
  using Around = std::pair<Instant, Instant>;
  EXPECT_EQ(period_around(at("2026-12-31T23:30:00Z"), BudgetPeriod::kYear, 0h),
            Around(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")));
  EXPECT_EQ(period_around(at("2026-12-31T23:30:00Z"), BudgetPeriod::kYear, 1h),
            Around(at("2026-12-31T23:00:00Z"), at("2027-12-31T23:00:00Z")));
}

TEST(Budgets, ChangesArePublishedAndAPeriodThatBeganKeepsItsEnd) {
  Books books;
  const Instant now = at("2026-11-25T12:00:00Z");
  books.step({BudgetsApplied{{gpu_hours(10, BudgetPeriod::kMonth)}}}, now);
  auto other = gpu_hours(12, BudgetPeriod::kWeek);
  other.carry_over_permille = 250;
  auto out = books.step({BudgetsApplied{{other}}}, now + 1min);
  ASSERT_EQ(out.budgets.size(), 1u);
  const auto& row = out.budgets[0];
  EXPECT_EQ(row.sequence, 2u);
  EXPECT_EQ(row.periods.begin()->second.to, at("2026-12-01T00:00:00Z"));
  EXPECT_EQ(row.periods.begin()->second.amount, 12 * 3'600'000);
  EXPECT_EQ(row.periods.rbegin()->first, at("2026-12-01T00:00:00Z"));
  EXPECT_EQ(row.periods.rbegin()->second.to, at("2026-12-07T00:00:00Z")) << "to the end of the week";
  EXPECT_EQ(row.periods.rbegin()->second.carry_over_permille, 250);
  out = books.step({BudgetsApplied{}}, now + 2min);
  EXPECT_TRUE(out.budgets.at(0).withdrawn);
  EXPECT_EQ(out.budgets.at(0).sequence, 3u);
  EXPECT_FALSE(out.wake_at);
  out = books.step({BudgetsApplied{{other}}}, now + 3min);
  EXPECT_FALSE(out.budgets.at(0).withdrawn);
  EXPECT_EQ(out.budgets.at(0).sequence, 4u) << "it goes on where it was";
}

TEST(Budgets, DollarsAreHeldAtTheHighestPriceOfAnInstance) {
  Books books;
  auto budget = gpu_hours(0);
  budget.unit = BudgetUnit::kNanoUsd;
  const auto price = [](const char* type, const char* market, std::int64_t nano) {
    return PriceEntry{type, market, "", HourlyRate{Money::nano(nano)}};
  };
  const PricePlan plan{"p",
                       {price("g5.48xlarge", "on-demand", 15), price("g5.48xlarge", "spot", 7),
                        price("m5.large", "on-demand", 1), price("", "on-demand", 99)}};
  const Instant now = at("2026-11-25T12:00:00Z");
  books.step({PriceApplied{plan, {}}, BudgetsApplied{{budget}}}, now);
  ASSERT_EQ(books.budgets.at("research").prices.size(), 1u) << "others have no GPUs that are known";
  EXPECT_EQ(books.budgets.at("research").prices[0].instance_type, "g5.48xlarge");
  EXPECT_NE(books.budgets.at("research").prices[0].gpu_product, "");
  EXPECT_EQ(books.budgets.at("research").prices[0].nano_usd_gpu_hour, 2) << "15 over 8, rounded up";
  books.step({PriceApplied{{"q", {price("g5.48xlarge", "on-demand", 80)}}, {}}}, now + 1h);
  EXPECT_EQ(books.budgets.at("research").prices[0].nano_usd_gpu_hour, 10);
  EXPECT_EQ(books.budgets.at("research").sequence, 2u);
}

TEST(Budgets, AnAttemptIsPublishedAsItIsChargedAndIsFinalSoonAfterItsEnd) {
  Books books;
  const Instant day = at("2026-11-22T00:00:00Z");
  books.step({PriceApplied{{"p", {{"", "", "", HourlyRate{Money::nano(8'000)}}}}, {}}, BudgetsApplied{{gpu_hours(10)}},
              instance_row(day), NodeUpdated{NodeName("n1"), InstanceId("i-1"), NodeState::kReady, day, 8, 1}},
             day);
  books.step({stay(kJob, 1, day + 30min, {})}, day + 31min);
  EXPECT_TRUE(books.spent.empty()) << "nothing is posted yet";
  auto out = books.step({Tick{}}, day + 70min);
  ASSERT_EQ(out.spent.size(), 1u);
  EXPECT_EQ(books.spent.at(kJob).row, (SpentRow{{Money::nano(1'000), 2 * 1'800'000'000LL}, false}));
  // It ends within the hour: the rest is posted as soon as possible, not after the hour.
  out = books.step({stay(kJob, 2, day + 30min, day + 75min)}, day + 76min);
  EXPECT_EQ(out.wake_at, day + 85min);
  out = books.step({Tick{}}, day + 85min);
  EXPECT_EQ(books.spent.at(kJob).row, (SpentRow{{Money::nano(1'500), 2 * 2'700'000'000LL}, true}));
  EXPECT_EQ(books.engine.statement("2026-11", day + 85min)->lines.at("research").nano, Money::nano(1'500));
  const auto published = books.published;
  books.step({stay(kJob, 2, day + 30min, day + 75min), Tick{}}, day + 3h);
  EXPECT_EQ(books.published, published) << "published once";
  // A second attempt of the workload has a separate account.
  const AttemptId again{WorkloadUid("job"), 2};
  books.step({stay(again, 1, day + 4h, day + 5h)}, day + 6h);
  EXPECT_EQ(books.spent.at(again).row, (SpentRow{{Money::nano(2'000), 2 * 3'600'000'000LL}, true}));
  EXPECT_EQ(books.spent.at(kJob).row.amount.nano, Money::nano(1'500));
  // Folded usage is removed, and that is published.
  books.step({Tick{}}, day + 72h);
  EXPECT_TRUE(books.spent.at(kJob).forgotten);
  EXPECT_TRUE(books.spent.at(kJob).row.final);
  EXPECT_EQ(books.engine.state().spent.size(), 0u);
}

TEST(Budgets, AnAttemptThatNeverHeldAnythingIsFinalAtOnce) {
  Books books;
  const Instant day = at("2026-11-22T00:00:00Z");
  AssignmentUpdated expired;
  expired.id = kJob;
  expired.version = 2;
  expired.ended = true;
  books.step({expired}, day);
  EXPECT_TRUE(books.spent.empty()) << "not requested";
  books.step({BudgetsApplied{{gpu_hours(10)}}}, day + 1min);
  expired.version = 3;
  books.step({expired}, day + 2min);
  EXPECT_EQ(books.spent.at(kJob).row, (SpentRow{{}, true}));
}

TEST(Budgets, AnUnbilledInstanceIsAwaitedForALimitedTime) {
  Books books;
  const Instant day = at("2026-11-22T00:00:00Z");
  books.step({BudgetsApplied{{gpu_hours(10)}}, stay(kJob, 2, day, day + 1h)}, day + 2h);
  EXPECT_TRUE(books.spent.empty());
  books.step({Tick{}}, day + 2h + 10min);
  EXPECT_EQ(books.spent.at(kJob).row, (SpentRow{{}, true}));
}

TEST(Budgets, OrderRepeatsAndRestartsChangeNothing) {
  const Instant day = at("2026-11-22T00:00:00Z");
  const std::vector<Engine::Command> facts{BudgetsApplied{{gpu_hours(10)}}, instance_row(day),
                                           NodeUpdated{NodeName("n1"), InstanceId("i-1"), NodeState::kReady, day, 8, 1},
                                           stay(kJob, 1, day + 30min, {}), stay(kJob, 2, day + 30min, day + 100min)};
  std::vector<int> order{0, 1, 2, 3, 4};
  int orders = 0;
  do {
    Books books;
    Instant now = day + 105min;
    for (const int one : order) {
      // A step that is undone, and executed again by an engine that was loaded from rows.
      (void)books.engine.step(std::span(&facts[static_cast<std::size_t>(one)], 1), now);
      books.engine.undo();
      Engine next = loaded(books.engine);
      EXPECT_EQ(next.digest(), books.engine.digest());
      books.engine = std::move(next);
      books.step({facts[static_cast<std::size_t>(one)], facts[static_cast<std::size_t>(one)]}, now);
      now += 2min;
    }
    books.step({Tick{}}, day + 4h);
    EXPECT_EQ(books.spent.at(kJob).row, (SpentRow{{{}, 2 * 4'200'000'000LL}, true}));
    EXPECT_EQ(books.budgets.at("research").sequence, 1u);
    ++orders;
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(orders, 120);
}

/// The same steps by a running engine, and by one that is restarted before each of them.
struct Twins {
  Books runs, restarts;
  std::optional<Instant> step(const std::vector<Engine::Command>& batch, Instant now) {
    const auto wake_at = runs.step(batch, now).wake_at;
    restarts.engine = loaded(restarts.engine);
    EXPECT_EQ(restarts.step(batch, now).wake_at, wake_at) << to_rfc3339(now);
    EXPECT_EQ(restarts.engine.digest(), runs.engine.digest()) << to_rfc3339(now);
    return wake_at;
  }
};

TEST(Budgets, AnEndThatMovesIsFinalAfterTheLastOne) {
  Twins twins;
  const Instant day = at("2026-11-22T00:00:00Z");
  twins.step({BudgetsApplied{{gpu_hours(10)}}, instance_row(day),
              NodeUpdated{NodeName("n1"), InstanceId("i-1"), NodeState::kReady, day, 8, 1}},
             day);
  twins.step({stay(kJob, 1, day + 30min, day + 40min)}, day + 41min);
  EXPECT_EQ(twins.step({stay(kJob, 2, day + 30min, day + 48min)}, day + 49min), day + 58min);
  twins.step({Tick{}}, day + 50min);
  EXPECT_FALSE(twins.runs.spent.contains(kJob)) << "the end of before counts no more";
  twins.step({Tick{}}, day + 58min);
  EXPECT_EQ(twins.runs.spent.at(kJob).row, (SpentRow{{{}, 2 * 1'080'000'000LL}, true}));
}

TEST(Budgets, AnAttemptIsFinalAsSoonAsItsInstancesAreKnown) {
  Twins twins;
  const Instant day = at("2026-11-22T00:00:00Z");
  twins.step({BudgetsApplied{{gpu_hours(10)}}, stay(kJob, 2, day + 5min, day + 20min)}, day + 21min);
  EXPECT_EQ(twins.step({Tick{}}, day + 31min), day + 90min) << "an hour after it could be final";
  EXPECT_TRUE(twins.runs.spent.empty());
  twins.step({instance_row(day), NodeUpdated{NodeName("n1"), InstanceId("i-1"), NodeState::kReady, day, 8, 1}},
             day + 40min);
  EXPECT_EQ(twins.runs.spent.at(kJob).row, (SpentRow{{{}, 2 * 900'000'000LL}, true}));
}

}  // namespace budgets_test
}  // namespace qm::cost
