#include "qm/admission/forecast/budgets.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

namespace qm::admission::forecast {
namespace budgets_prop_test {

using std::chrono::hours;

Instant hour(int h) { return from_micros(0) + hours(h); }
Budget::Period day(int d) { return {hour(24 * d), hour(24 * (d + 1))}; }

TEST(Budget, CountsGpuTimeAndMoneyInIntegersRoundedUp) {
  EXPECT_EQ(gpu_millis(8000, hours(1)), 8 * 3600 * 1000);
  EXPECT_EQ(gpu_millis(500, Duration(1)), 1);
  EXPECT_EQ(nano_usd(2'500'000'000, 8000, hours(2)), 40'000'000'000);
  EXPECT_EQ(nano_usd(1, 1, Duration(1)), 1);
  EXPECT_EQ(nano_usd(std::numeric_limits<std::int64_t>::max(), 8000, hours(1000)),
            std::numeric_limits<std::int64_t>::max());
}

TEST(Budget, HoldsAtAdmissionAndReleasesUnspent) {
  Budget budget;
  Budget::Hold a, b;
  EXPECT_EQ(budget.take(a, 10, hour(1)).error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(budget.take(a, 0, hour(1))) << "there is no amount to hold";
  ASSERT_TRUE(budget.grant(day(0), 100, 0, hour(0)));
  ASSERT_TRUE(budget.take(a, 60, hour(1)));
  const auto refused = budget.take(b, 41, hour(1));
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_EQ(refused.error().message, "40 is free until 1970-01-02T00:00:00Z, 41 is needed");
  EXPECT_EQ(budget.take(b, -1, hour(1)).error().code, Code::kInvalid);
  EXPECT_EQ(b, Budget::Hold{});
  ASSERT_TRUE(budget.settle(a, 10, hour(2)));
  EXPECT_EQ(a.amount(), 50);
  EXPECT_EQ(budget.free(hour(2)), 40);  // the rest is still held
  ASSERT_TRUE(budget.settle(a, 25, hour(3)));
  budget.release(a, hour(3));
  EXPECT_EQ(budget.free(hour(3)), 75);
}

TEST(Budget, LongerRunExtendsHoldAndOwesTheRest) {
  Budget budget;
  Budget::Hold a;
  ASSERT_TRUE(budget.grant(day(0), 100, 0, hour(0)));
  ASSERT_TRUE(budget.take(a, 60, hour(1)));
  ASSERT_TRUE(budget.take(a, 30, hour(5)));
  EXPECT_EQ(budget.take(a, 30, hour(5)).error().code, Code::kExhausted);
  ASSERT_TRUE(budget.settle(a, 130, hour(8)));
  budget.release(a, hour(8));
  EXPECT_EQ(budget.free(hour(8)), 0);
  EXPECT_EQ(budget.owed(), 30);
  ASSERT_TRUE(budget.grant(day(0), 150, 0, hour(9)));  // what is owed is paid first
  EXPECT_EQ(budget.owed(), 0);
  EXPECT_EQ(budget.free(hour(9)), 20);
}

TEST(Budget, LowerRestatementIsCredited) {
  Budget budget;
  Budget::Hold a;
  ASSERT_TRUE(budget.grant(day(0), 100, 0, hour(0)));
  ASSERT_TRUE(budget.take(a, 60, hour(1)));
  ASSERT_TRUE(budget.settle(a, 130, hour(8)));
  EXPECT_EQ(budget.owed(), 30);
  ASSERT_TRUE(budget.settle(a, 90, hour(9)));
  EXPECT_EQ(budget.owed(), 0);
  EXPECT_EQ(budget.at(hour(9))->spent, 90);
  EXPECT_EQ(budget.free(hour(9)), 10);
}

TEST(Budget, SmallerGrantReducesFreeAmountFirst) {
  Budget budget;
  Budget::Hold a;
  ASSERT_TRUE(budget.grant(day(0), 100, 0, hour(0)));
  ASSERT_TRUE(budget.take(a, 60, hour(1)));
  ASSERT_TRUE(budget.grant(day(0), 30, 0, hour(2)));
  EXPECT_EQ(budget.free(hour(2)), 0);
  EXPECT_EQ(budget.at(hour(2))->granted, 60);
  ASSERT_TRUE(budget.settle(a, 10, hour(3)));
  budget.release(a, hour(3));
  EXPECT_EQ(budget.at(hour(3))->granted, 30);
  EXPECT_EQ(budget.free(hour(3)), 20);
  ASSERT_TRUE(budget.grant(day(0), 50, 0, hour(4)));
  EXPECT_EQ(budget.free(hour(4)), 40);
}

TEST(Budget, RunningWorkKeepsItsHoldWhenPeriodEnds) {
  Budget budget;
  Budget::Hold a;
  ASSERT_TRUE(budget.grant(day(0), 100, 500, hour(0)));
  ASSERT_TRUE(budget.grant(day(1), 100, 0, hour(0)));
  ASSERT_TRUE(budget.take(a, 60, hour(23)));
  EXPECT_EQ(budget.free(hour(24)), 120);  // half of the 40 that were free
  ASSERT_EQ(budget.allotments().size(), 2U);
  EXPECT_EQ(budget.allotments().begin()->second.held, 60);
  EXPECT_EQ(budget.allotments().begin()->second.lapsed, 20);
  ASSERT_TRUE(budget.settle(a, 20, hour(30)));
  budget.release(a, hour(30));
  EXPECT_EQ(budget.free(hour(30)), 140);  // half of the 40 that were released late
  EXPECT_EQ(budget.allotments().size(), 1U);
  EXPECT_EQ(budget.spent_before(), 20);
  EXPECT_EQ(budget.free(hour(48)), 0);  // nothing is granted for the next day
  ASSERT_TRUE(budget.grant(day(0), 100, 0, hour(49)));
  EXPECT_EQ(budget.allotments().size(), 1U) << "a past period is not granted again";
}

TEST(Budget, NewCalendarStartsAfterPresentPeriod) {
  Budget budget;
  ASSERT_TRUE(budget.grant(day(0), 100, 0, hour(0)));
  ASSERT_TRUE(budget.grant(day(1), 100, 0, hour(0)));
  EXPECT_EQ(budget.grant({hour(24), hour(30)}, 5, 0, hour(1)).error().code, Code::kInvalid);
  budget.forget_future(hour(1));
  ASSERT_TRUE(budget.grant({hour(24), hour(30)}, 5, 0, hour(1)));
  EXPECT_EQ(budget.free(hour(1)), 100);
  EXPECT_EQ(budget.free(hour(24)), 5);
}

TEST(Budget, RefusesInvalidAllotmentAndSettlement) {
  Budget budget;
  Budget::Hold a;
  ASSERT_TRUE(budget.grant(day(0), 100, 0, hour(0)));
  const auto refused = [&](const Budget::Period& period, std::int64_t amount, int carry) {
    return budget.grant(period, amount, carry, hour(0)).error().code;
  };
  EXPECT_EQ(refused({hour(12), hour(30)}, 1, 0), Code::kInvalid);
  EXPECT_EQ(refused(day(0), -1, 0), Code::kInvalid);
  EXPECT_EQ(refused({hour(2), hour(2)}, 1, 0), Code::kInvalid);
  EXPECT_EQ(refused(day(0), 1, 1001), Code::kInvalid);
  EXPECT_EQ(refused(day(0), std::numeric_limits<std::int64_t>::max(), 0), Code::kInvalid);
  EXPECT_EQ(budget.settle(a, -1, hour(0)).error().code, Code::kInvalid);
  EXPECT_EQ(budget.free(hour(0)), 100);
}

using Holds = std::map<std::string, Budget::Hold>;

/// Invariants that hold after every step.
void check(Budget& budget, const Holds& holds, std::int64_t settled, Instant now) {
  (void)budget.free(now);  // a query advances the periods
  std::int64_t spent = budget.spent_before();
  for (const auto& [from, one] : budget.allotments()) {
    for (const auto part :
         {one.granted, one.carried_in, one.spent, one.held, one.carried_out, one.lapsed, one.free()}) {
      RC_ASSERT(part >= 0);
    }
    RC_ASSERT(one.granted >= one.granted_total);
    if (one.granted > one.granted_total) RC_ASSERT(one.free() == 0);
    std::int64_t held = 0;
    for (const auto& [name, hold] : holds) {
      const auto left = hold.left.find(from);
      if (left != hold.left.end()) held += left->second;
    }
    RC_ASSERT(held == one.held);
    const bool current = one.period.from <= now && now < one.period.to;
    if (current && budget.owed() > 0) RC_ASSERT(one.free() == 0);
    spent += one.spent;
  }
  RC_ASSERT(spent + budget.owed() == settled);
}

RC_GTEST_PROP(BudgetProperty, IsNeverOverdrawnAndRepeatsChangeNothing, ()) {
  Budget budget;
  std::int64_t settled = 0;
  Holds holds;
  std::map<int, std::pair<std::int64_t, int>> grants;
  std::map<int, std::int64_t> most;
  int now = 0;
  for (int i = 0, steps = *rc::gen::inRange(1, 120); i < steps; ++i) {
    now += *rc::gen::inRange(0, 8);
    const auto name = std::string(1, static_cast<char>('a' + *rc::gen::inRange(0, 6)));
    switch (*rc::gen::inRange(0, 6)) {
      case 0: {
        const int which = now / 24 + *rc::gen::inRange(0, 2);
        grants[which] = {*rc::gen::inRange(0, 100), *rc::gen::inRange(0, 1001)};
        most[which] = std::max(most[which], grants[which].first);
        RC_ASSERT(budget.grant(day(which), grants[which].first, grants[which].second, hour(now)).has_value());
        break;
      }
      case 1:
      case 2: {
        const auto free = budget.free(hour(now));
        const int amount = *rc::gen::inRange(0, 60);
        Budget::Hold hold;
        if (holds.contains(name)) hold = holds.at(name);
        const bool held = budget.take(hold, amount, hour(now)).has_value();
        RC_ASSERT(held == (amount == 0 || amount <= free));
        if (held) holds[name] = hold;
        break;
      }
      case 3: {
        if (!holds.contains(name)) break;
        auto& hold = holds.at(name);
        const auto more = std::max<std::int64_t>(-hold.seen, *rc::gen::inRange(-20, 50));
        RC_ASSERT(budget.settle(hold, hold.seen + more, hour(now)).has_value());
        settled += more;
        if (*rc::gen::arbitrary<bool>()) {
          budget.release(hold, hour(now));
          holds.erase(name);
        }
        break;
      }
      default: {
        // A repeated grant changes nothing, and neither does restoring from the stored rows.
        (void)budget.free(hour(now));
        const auto before = budget;
        for (const auto& [which, grant] : grants) {
          if (which >= now / 24) RC_ASSERT(budget.grant(day(which), grant.first, grant.second, hour(now)).has_value());
        }
        for (auto& [of, hold] : holds) {
          const auto kept = hold;
          RC_ASSERT(budget.settle(hold, hold.seen, hour(now)).has_value());
          RC_ASSERT(hold == kept);
        }
        RC_ASSERT(budget == before);
        budget = Budget::restored(before.allotments(), before.owed(), before.spent_before());
        RC_ASSERT(budget == before);
      }
    }
    check(budget, holds, settled, hour(now));
  }
  std::int64_t granted = 0;
  for (const auto& [which, amount] : most) granted += amount;
  RC_ASSERT(settled - budget.owed() <= granted);
}

}  // namespace budgets_prop_test
}  // namespace qm::admission::forecast
