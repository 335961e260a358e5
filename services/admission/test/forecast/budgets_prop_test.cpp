#include "qm/admission/forecast/budgets.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <map>

namespace qm::admission::forecast {
namespace {

using std::chrono::hours;

Instant hour(int h) { return from_micros(0) + hours(h); }
Budget::Period day(int d) { return {hour(24 * d), hour(24 * (d + 1))}; }

TEST(Budget, CountsGpuTimeAndMoneyInWholeNumbersRoundedUp) {
  EXPECT_EQ(gpu_millis(8000, hours(1)), 8 * 3600 * 1000);
  EXPECT_EQ(gpu_millis(500, Duration(1)), 1);
  EXPECT_EQ(nano_usd(2'500'000'000, 8000, hours(2)), 40'000'000'000);
  EXPECT_EQ(nano_usd(1, 1, Duration(1)), 1);
  EXPECT_EQ(nano_usd(std::numeric_limits<std::int64_t>::max(), 8000, hours(1000)),
            std::numeric_limits<std::int64_t>::max());
}

TEST(Budget, HoldsAtAdmissionAndGivesBackWhatWasNotSpent) {
  Budget budget;
  EXPECT_EQ(budget.hold("a", 10, hour(2), hour(1)).error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(*budget.grant({1, day(0), 100, 0}, hour(0)));
  ASSERT_TRUE(budget.hold("a", 60, hour(5), hour(1)));
  EXPECT_EQ(budget.hold("a", 1, hour(5), hour(1)).error().code, Code::kAlreadyExists);
  const auto refused = budget.hold("b", 41, hour(5), hour(1));
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_EQ(refused.error().message, "40 is free until 1970-01-02T00:00:00Z, 41 is needed");
  EXPECT_EQ(budget.hold("b", -1, hour(5), hour(1)).error().code, Code::kInvalid);
  ASSERT_TRUE(*budget.settle({2, "a", 10, false}, hour(2)));
  EXPECT_EQ(budget.free(hour(2)), 40);  // the rest is still held
  ASSERT_TRUE(*budget.settle({3, "a", 25, true}, hour(3)));
  EXPECT_EQ(budget.free(hour(3)), 75);
}

TEST(Budget, WhoRunsLongerHasToExtendAndOwesWhatIsNotThere) {
  Budget budget;
  ASSERT_TRUE(*budget.grant({1, day(0), 100, 0}, hour(0)));
  ASSERT_TRUE(budget.hold("a", 60, hour(5), hour(1)));
  EXPECT_TRUE(budget.due(hour(4)).empty());
  EXPECT_EQ(budget.due(hour(5)), std::vector<std::string>{"a"});
  ASSERT_TRUE(budget.extend("a", 30, hour(7), hour(5)));
  EXPECT_EQ(budget.extend("a", 30, hour(9), hour(5)).error().code, Code::kExhausted);
  EXPECT_EQ(budget.extend("b", 30, hour(9), hour(5)).error().code, Code::kNotFound);
  EXPECT_TRUE(budget.due(hour(6)).empty());
  ASSERT_TRUE(*budget.settle({2, "a", 130, true}, hour(8)));
  EXPECT_EQ(budget.free(hour(8)), 0);
  EXPECT_EQ(budget.owed(), 30);
  ASSERT_TRUE(*budget.grant({3, day(0), 50, 0}, hour(9)));  // what is owed is paid first
  EXPECT_EQ(budget.owed(), 0);
  EXPECT_EQ(budget.free(hour(9)), 20);
}

TEST(Budget, RunningWorkKeepsItsHoldWhenThePeriodEnds) {
  Budget budget;
  ASSERT_TRUE(*budget.grant({1, day(0), 100, 500}, hour(0)));
  ASSERT_TRUE(*budget.grant({2, day(1), 100, 0}, hour(0)));
  ASSERT_TRUE(budget.hold("a", 60, hour(30), hour(23)));
  EXPECT_EQ(budget.free(hour(24)), 120);  // half of the 40 that were free
  ASSERT_EQ(budget.allotments().size(), 2U);
  EXPECT_EQ(budget.allotments().begin()->second.held, 60);
  EXPECT_EQ(budget.allotments().begin()->second.lapsed, 20);
  ASSERT_TRUE(*budget.settle({3, "a", 20, true}, hour(30)));
  EXPECT_EQ(budget.free(hour(30)), 140);  // half of the 40 that came back late
  EXPECT_EQ(budget.allotments().size(), 1U);
  EXPECT_EQ(budget.spent_before(), 20);
  EXPECT_EQ(budget.free(hour(48)), 0);  // nothing is granted for the day after
}

TEST(Budget, RefusesWhatIsNoAllotmentAndNoSettlement) {
  Budget budget;
  ASSERT_TRUE(*budget.grant({1, day(0), 100, 0}, hour(0)));
  const Budget::Period across{hour(12), hour(30)};
  for (const auto& bad : {Budget::Grant{2, across, 1, 0},
                          {2, day(0), -1, 0},
                          {2, {hour(2), hour(2)}, 1, 0},
                          {2, day(0), 1, 1001},
                          {2, day(0), std::numeric_limits<std::int64_t>::max() / 4, 0}}) {
    EXPECT_EQ(budget.grant(bad, hour(0)).error().code, Code::kInvalid);
  }
  EXPECT_EQ(budget.settle({2, "a", -1, false}, hour(0)).error().code, Code::kInvalid);
  EXPECT_EQ(budget.settle({2, "a", 1, false}, hour(0)).error().code, Code::kNotFound);
  EXPECT_EQ(budget.release("a", hour(0)).error().code, Code::kNotFound);
  EXPECT_EQ(budget.passed_over(), 0U);
}

/// What must hold after every step.
void check(Budget& budget, std::int64_t settled, Instant now) {
  (void)budget.free(now);  // periods turn when they are asked for
  std::int64_t spent = budget.spent_before();
  for (const auto& [from, one] : budget.allotments()) {
    for (const auto part :
         {one.granted, one.carried_in, one.spent, one.held, one.carried_out, one.lapsed, one.free()}) {
      RC_ASSERT(part >= 0);
    }
    const bool current = one.period.from <= now && now < one.period.to;
    if (current && budget.owed() > 0) RC_ASSERT(one.free() == 0);
    spent += one.spent;
  }
  RC_ASSERT(spent + budget.owed() == settled);
}

RC_GTEST_PROP(BudgetProperty, IsNeverOverdrawnAndRepetitionsChangeNothing, ()) {
  Budget budget;
  std::uint64_t sequence = 0;
  std::int64_t settled = 0, granted = 0;
  std::map<std::string, std::int64_t> running;
  std::vector<Budget::Grant> grants;
  std::vector<Budget::Settlement> settlements;
  int now = 0;
  for (int i = 0, steps = *rc::gen::inRange(1, 120); i < steps; ++i) {
    now += *rc::gen::inRange(0, 8);
    const auto name = std::string(1, static_cast<char>('a' + *rc::gen::inRange(0, 6)));
    switch (*rc::gen::inRange(0, 6)) {
      case 0: {
        grants.push_back({++sequence, day(now / 24 + *rc::gen::inRange(0, 2)), *rc::gen::inRange(0, 100),
                          *rc::gen::inRange(0, 1001)});
        RC_ASSERT(*budget.grant(grants.back(), hour(now)));
        granted += grants.back().amount;
        break;
      }
      case 1:
      case 2: {
        const auto free = budget.free(hour(now));
        const int amount = *rc::gen::inRange(0, 60);
        const bool had = running.contains(name);
        const bool held = budget.hold(name, amount, hour(now + 5), hour(now)).has_value();
        if (held) RC_ASSERT(amount <= free && !had);
        if (held) running.emplace(name, 0);
        break;
      }
      case 3: {
        if (!running.contains(name)) break;
        auto& spent = running.at(name);
        const int more = *rc::gen::inRange(0, 50);
        const bool final = *rc::gen::arbitrary<bool>();
        spent += more;
        settlements.push_back({++sequence, name, spent, final});
        RC_ASSERT(*budget.settle(settlements.back(), hour(now)));
        settled += more;
        if (final) running.erase(name);
        break;
      }
      case 4:
        (void)budget.extend(name, *rc::gen::inRange(0, 30), hour(now + 5), hour(now));
        break;
      default:
        // A replica tells it again; and one that did not start is let go.
        const auto settled_state = [&] {
          (void)budget.free(hour(now));
          return budget.allotments();
        };
        const auto before = settled_state();
        for (const auto& old : grants) RC_ASSERT(!*budget.grant(old, hour(now)));
        for (const auto& old : settlements) RC_ASSERT(!*budget.settle(old, hour(now)));
        RC_ASSERT(budget.allotments() == before);
        if (running.contains(name) && running.at(name) == 0) {
          RC_ASSERT(budget.release(name, hour(now)).has_value());
          running.erase(name);
        }
    }
    check(budget, settled, hour(now));
  }
  RC_ASSERT(settled - budget.owed() <= granted);
}

}  // namespace
}  // namespace qm::admission::forecast
