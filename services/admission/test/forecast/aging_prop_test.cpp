// The bound of the waiting time, in queues that start their first workload whenever it fits.
#include "qm/admission/forecast/aging.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace qm::admission::forecast {
namespace aging_prop_test {

using std::chrono::hours;
using std::chrono::minutes;

TEST(Aging, RisesToCeilingWithinBound) {
  const Aging rule{hours(10), 100};
  EXPECT_EQ(rule.priority(0, Duration::zero()), 0);
  EXPECT_EQ(rule.priority(0, hours(5)), 50);
  EXPECT_EQ(rule.priority(0, hours(5) - Duration(1)), 49);
  EXPECT_EQ(rule.priority(-100, hours(5)), 0);
  EXPECT_EQ(rule.priority(0, hours(10)), 100);
  EXPECT_EQ(rule.priority(0, hours(1000)), 100);
  EXPECT_EQ(rule.priority(200, hours(5)), 200);
  EXPECT_FALSE(rule.overdue(hours(10) - Duration(1)));
  EXPECT_TRUE(rule.overdue(hours(10)));
}

RC_GTEST_PROP(AgingProperty, ChangesAtStatedTimes, ()) {
  const Aging rule{Duration(*rc::gen::inRange<std::int64_t>(1, 1'000'000'000'000)),
                   *rc::gen::arbitrary<std::int32_t>()};
  const auto base = *rc::gen::arbitrary<std::int32_t>();
  const Duration waited(*rc::gen::inRange<std::int64_t>(0, 2 * rule.bound.count()));
  const auto next = rule.next_change(base, waited);
  RC_ASSERT(next.has_value() != rule.overdue(waited));
  if (!next) return;
  RC_ASSERT(*next > waited);
  RC_ASSERT(rule.priority(base, *next) > rule.priority(base, waited) || rule.overdue(*next));
  RC_ASSERT(rule.priority(base, *next - Duration(1)) == rule.priority(base, waited));
}

struct Job {
  int created = 0, runs = 0, size = 0;
  std::int32_t base = 0;
  int started = -1, ahead = 0;  ///< number of jobs before it in the queue when it became overdue
};

/// Simulates one queue, minute by minute: in order, with backfill of jobs that fit, until a job is overdue.
void play(std::vector<Job>& jobs, int room, const Aging& rule, bool holds_up) {
  std::vector<std::pair<int, int>> running;  // end, size
  for (int now = 0; std::ranges::any_of(jobs, [](const Job& j) { return j.started < 0; }); ++now) {
    std::erase_if(running, [&](const auto& one) {
      if (one.first > now) return false;
      room += one.second;
      return true;
    });
    std::vector<Job*> waiting;
    for (auto& job : jobs) {
      if (job.created <= now && job.started < 0) waiting.push_back(&job);
    }
    std::ranges::sort(waiting, {}, [&](const Job* j) {
      return std::tuple(-rule.priority(j->base, minutes(now - j->created)), j->created, j);
    });
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (minutes(now - waiting[i]->created) == rule.bound) waiting[i]->ahead = static_cast<int>(i);
    }
    for (auto* job : waiting) {
      if (job->size <= room) {
        job->started = now;
        room -= job->size;
        running.emplace_back(now + job->runs, job->size);
      } else if (holds_up && rule.overdue(minutes(now - job->created))) {
        break;
      }
    }
  }
}

std::vector<Job> some_jobs(int room) {
  std::vector<Job> out(static_cast<std::size_t>(*rc::gen::inRange(1, 60)));
  for (auto& job : out) {
    job = {*rc::gen::inRange(0, 150), *rc::gen::inRange(1, 20), *rc::gen::inRange(1, room + 1),
           *rc::gen::inRange(0, 4)};
  }
  std::ranges::stable_sort(out, {}, &Job::created);
  return out;
}

RC_GTEST_PROP(AgingProperty, NoWorkloadIsOvertakenBeyondTheBound, ()) {
  const int room = *rc::gen::inRange(1, 9);
  auto jobs = some_jobs(room);
  const Aging rule{minutes(*rc::gen::inRange(1, 60)), 3};
  const auto bound = static_cast<int>(rule.bound / minutes(1));
  play(jobs, room, rule, true);
  constexpr int kLongest = 20;
  for (const auto& one : jobs) {
    const int overdue = one.created + bound;
    RC_ASSERT(one.started <= overdue + (one.ahead + 1) * kLongest);
    for (const auto& other : jobs) {
      if (other.created > one.created) RC_ASSERT(other.started < overdue || other.started >= one.started);
    }
  }
}

TEST(Aging, WithoutBoundLargeWorkloadStarves) {
  std::vector<Job> jobs{{0, 5, 2, 0}};
  for (int i = 0; i < 200; ++i) jobs.push_back({i, 2, 1, 0});
  auto passed = jobs;
  const Aging rule{minutes(30), 3};
  jobs.front().created = passed.front().created = 1;
  play(jobs, 2, rule, true);
  play(passed, 2, rule, false);
  EXPECT_LE(jobs.front().started, 31 + 2);
  EXPECT_GT(passed.front().started, 150);
}

}  // namespace aging_prop_test
}  // namespace qm::admission::forecast
