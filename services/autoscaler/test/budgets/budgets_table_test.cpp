// Disruption budgets as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/autoscaler/budgets/budgets.hpp"
#include "qm/base/parse.hpp"
#include "qm/testing/text.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace budgets_table_test {

using namespace std::chrono_literals;
using qm::testing::table_rows;
using qm::testing::trimmed;

const Instant kNow = *from_rfc3339("2026-03-11T12:30:30Z");  // a Wednesday

// The schedules of the rows: seconds between hits, and the first one. A parser of cron is not needed to know when a
// budget is active.
Result<Instant> next_hit(const std::string& schedule, Instant after) {
  struct Regular {
    std::string name;
    std::chrono::seconds period;
    const char* first;
  };
  for (const auto& [name, period, first] : std::vector<Regular>{{"minutely", 60s, "2026-01-01T00:00:00Z"},
                                                                {"hourly", 3600s, "2026-01-01T00:00:00Z"},
                                                                {"daily", 86400s, "2026-01-01T00:00:00Z"},
                                                                {"weekly", 604800s, "2026-01-04T00:00:00Z"},
                                                                {"noon", 86400s, "2026-01-01T12:00:00Z"},
                                                                {"yearly", 31536000s, "2025-01-01T00:00:00Z"}}) {
    if (name != schedule) continue;
    Instant hit = *from_rfc3339(first);
    while (hit <= after) hit += std::chrono::duration_cast<Duration>(period);
    return hit;
  }
  return fail(Error{Code::kInvalid, "\"" + schedule + "\" is not a schedule", "schedule", "write five fields"});
}

// Karpenter v1.14.1: pkg/apis/v1/{nodepool_budgets,nodepool_validation_cel}_test.go.
// Budgets, separated by ";": nodes [@schedule/minutes] [reasons by ","] | nodes of the pool | reason | allowed, or the
// malformed field
constexpr const char* kRows = R"(
# Budgets GetAllowedDisruptionsByReason should return 0 for all reasons if a budget is active for all reasons
9 ; 0 @minutely/60 | 80 | Empty | 0
9 ; 0 @minutely/60 | 80 | Drifted | 0
9 ; 0 @minutely/60 | 80 | Underutilized | 0
0 | 80 | Empty | 0
0% | 80 | Empty | 0
# Budgets GetAllowedDisruptionsByReason should return MaxInt32 for all reasons when there are no active budgets
9 @yearly/60 | 80 | Empty | max
9 @yearly/60 ; 0 @yearly/60 | 80 | Drifted | max
0% @yearly/60 | 80 | Underutilized | max
- | 80 | Empty | max
- | 0 | Drifted | max
# Budgets GetAllowedDisruptionsByReason should ignore reason-defined budgets when inactive
9 ; 3 @yearly/60 Drifted | 80 | Drifted | 9
9 ; 3 @yearly/60 Drifted,Empty | 80 | Empty | 9
# Budgets GetAllowedDisruptionsByReason should return the budget for all disruption reasons when undefined
9 @minutely/60 | 80 | Empty | 9
9 @minutely/60 | 80 | Drifted | 9
9 @minutely/60 | 80 | Underutilized | 9
# Budgets GetAllowedDisruptionsByReason should get the minimum budget for each reason
9 ; 14 Drifted,Underutilized ; 5 Drifted ; 4 Empty | 80 | Empty | 4
9 ; 14 Drifted,Underutilized ; 5 Drifted ; 4 Empty | 80 | Drifted | 5
9 ; 14 Drifted,Underutilized ; 5 Drifted ; 4 Empty | 80 | Underutilized | 9
9 ; 50% ; 100% | 10 | Empty | 5
9 ; 50% ; 100% | 40 | Empty | 9
2 Empty | 80 | Drifted | max
# Budgets AllowedDisruptions should return zero values if a schedule is invalid
9 @wrongly/60 | 80 | Empty | budgets[0].schedule
# CEL/Validation Disruption should fail when creating two budgets where one has an invalid crontab
9 ; 9 @wrongly/60 Drifted | 80 | Empty | budgets[1].schedule
# Budgets AllowedDisruptions should return zero values if a nodes value is invalid
1000a% | 80 | Empty | budgets[0].nodes
9 ; x Drifted | 80 | Empty | budgets[1].nodes
101% | 80 | Empty | budgets[0].nodes
% | 80 | Empty | budgets[0].nodes
1.5 | 80 | Empty | budgets[0].nodes
99999999999 | 80 | Empty | budgets[0].nodes
# CEL/Validation Disruption should fail when creating a budget with a negative value int
-1 | 80 | Empty | budgets[0].nodes
# CEL/Validation Disruption should fail when creating a budget with a negative value percent
-3% | 80 | Drifted | budgets[0].nodes
# CEL/Validation Disruption should fail when creating a budget with a value percent with more than 3 digits
1001% | 80 | Drifted | budgets[0].nodes
# CEL/Validation Disruption should fail when creating a budget with invalid reasons should not allow invalid reason
9 Rebooted | 80 | Empty | budgets[0].reasons
# CEL/Validation Disruption should fail when creating a budget with invalid reasons should not allow expired disruption reason
9 Expired | 80 | Empty | budgets[0].reasons
# CEL/Validation Disruption should fail when creating a budget with a cron but no duration
9 @minutely/0 | 80 | Empty | budgets[0].schedule and duration
# CEL/Validation Disruption should fail when creating a budget with a duration but no cron
9 @/60 | 80 | Empty | budgets[0].schedule and duration
# CEL/Validation Disruption should allow setting multiple reasons
6 Empty,Drifted,Underutilized | 80 | Underutilized | 6
# Budgets AllowedDisruptions should return MaxInt32 when a budget is inactive
9 @yearly/60 | 80 | Empty | max
# Budgets AllowedDisruptions should return the int value when a budget is active
9 @minutely/60 | 80 | Empty | 9
200 | 80 | Empty | 200
# Budgets AllowedDisruptions should return the string value when a budget is active
100% @minutely/60 | 80 | Empty | 80
10% | 80 | Empty | 8
10% | 81 | Empty | 9
10% | 1 | Empty | 1
1% | 100 | Empty | 1
1% | 101 | Empty | 2
33% | 10 | Empty | 4
10% | 0 | Empty | 0
# Budgets IsActive should return that a schedule is active when schedule and duration are nil
7 | 80 | Drifted | 7
# Budgets IsActive should return that a schedule is active when the schedule hit is in the middle of the duration
7 @noon/60 | 80 | Empty | 7
7 @hourly/31 | 80 | Empty | 7
7 @daily/751 | 80 | Empty | 7
# Budgets IsActive should return that a schedule is active when the duration is longer than the recurrence
7 @daily/2880 | 80 | Empty | 7
7 @hourly/120 | 80 | Empty | 7
# Budgets IsActive should return that a schedule is inactive when the schedule hit is after the duration
7 @noon/30 | 80 | Empty | max
7 @hourly/30 | 80 | Empty | max
7 @weekly/360 | 80 | Empty | max
# Budgets IsActive should always consider a schedule and time in UTC
7 @daily/750 | 80 | Empty | max
)";

Budget budget_of(const std::string& text) {
  Budget out;
  for (const auto& word : qm::testing::split(text, ' ')) {
    if (out.nodes.empty()) {
      out.nodes = word;
    } else if (word.starts_with('@')) {
      const auto slash = word.find('/');
      out.schedule = word.substr(1, slash - 1);
      out.duration = std::chrono::minutes(std::stoi(word.substr(slash + 1)));
    } else {
      out.reasons = qm::testing::split(word, ',');
    }
  }
  return out;
}

TEST(Budgets, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 4U) << row;
    std::vector<Budget> budgets;
    for (const auto part : split(cells[0], ';')) {
      if (trimmed(part) != "-") budgets.push_back(budget_of(trimmed(part)));
    }
    DisruptionReason reason = DisruptionReason::kUnderutilized;
    for (const auto each : {DisruptionReason::kEmpty, DisruptionReason::kDrifted}) {
      if (name_of(each) == cells[2]) reason = each;
    }
    const auto allowed = allowed_disruptions(budgets, reason, std::stoi(cells[1]), kNow, next_hit);
    const std::string expected = cells[3];
    if (expected.starts_with("budgets")) {
      EXPECT_EQ(allowed.nodes, 0) << row;
      EXPECT_TRUE(allowed.malformed.starts_with("spec.disruption." + expected)) << row << ": " << allowed.malformed;
    } else {
      EXPECT_EQ(allowed.nodes, expected == "max" ? kUnlimitedDisruptions : std::stoi(expected)) << row;
      EXPECT_EQ(allowed.malformed, "") << row;
    }
  }
  EXPECT_GE(rows.size(), 58U);
}

std::int64_t allowed_at(const std::vector<Budget>& budgets, const char* time) {
  const auto out = allowed_disruptions(budgets, DisruptionReason::kEmpty, 80, *from_rfc3339(time), next_in_utc);
  EXPECT_EQ(out.malformed, "");
  return out.nodes;
}

// S-198: one node at a time, and none from Monday to Friday between 9 and 19 UTC.
TEST(Budgets, BusinessHoursBlockDisruptionToTheMinute) {
  const std::vector<Budget> budgets{{"1", {}, {}, {}}, {"0", "0 9 * * MON-FRI", 10h, {}}};
  EXPECT_EQ(allowed_at(budgets, "2026-03-11T12:00:00Z"), 0) << "Wednesday";
  EXPECT_EQ(allowed_at(budgets, "2026-03-11T08:59:59Z"), 1);
  EXPECT_EQ(allowed_at(budgets, "2026-03-11T09:00:00Z"), 0);
  EXPECT_EQ(allowed_at(budgets, "2026-03-11T18:59:59Z"), 0);
  EXPECT_EQ(allowed_at(budgets, "2026-03-11T19:00:00Z"), 1);
  EXPECT_EQ(allowed_at(budgets, "2026-03-14T12:00:00Z"), 1) << "Saturday";
}

// S-199: names, lists and steps. A schedule needs a duration, and a schedule that cannot be read allows nothing.
TEST(Budgets, SchedulesHaveNamesListsAndStepsAndNeedADuration) {
  EXPECT_EQ(allowed_at({{"0", "*/20 8,12-13 * JAN-MAR,DEC wed", 5min, {}}}, "2026-03-11T12:44:00Z"), 0);
  EXPECT_EQ(allowed_at({{"0", "*/20 8,12-13 * JAN-MAR,DEC wed", 5min, {}}}, "2026-03-11T12:45:00Z"),
            kUnlimitedDisruptions);
  const auto malformed = [](const Budget& budget) {
    const auto out = allowed_disruptions(std::vector{budget}, DisruptionReason::kDrifted, 80, kNow, next_in_utc);
    EXPECT_EQ(out.nodes, 0);
    return out.malformed;
  };
  EXPECT_EQ(malformed({"5", "0 9 * * MON-FRI", {}, {}}),
            "spec.disruption.budgets[0].schedule and duration need each other");
  EXPECT_NE(malformed({"5", "0 9 * * FUNDAY", 1h, {}}).find("spec.disruption.budgets[0].schedule: "),
            std::string::npos);
  EXPECT_NE(malformed({"5", "0 0 31 2 *", 1h, {}}).find("names no time"), std::string::npos);
}

}  // namespace budgets_table_test
}  // namespace qm::autoscaler
