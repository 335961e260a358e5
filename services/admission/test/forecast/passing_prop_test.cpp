// Backfill in the scheduler: no workload of a strict queue starts later than without it while run times hold, and
// utilization is higher.
#include "qm/admission/forecast/reservations.hpp"
#include "qm/admission/kueue/continuous.hpp"
#include "qm/admission/kueue/forest.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <queue>

namespace qm::admission::forecast {
namespace passing_prop_test {

using rc::gen::inRange;

struct Job {
  std::int64_t comes = 0, run = 0, gpus = 0;  ///< minutes
  std::int32_t priority = 0;
};

kueue::Continuous decider(std::int64_t gpus, bool backfill) {
  kueue::Forest forest;
  kueue::Forest::Queue queue;
  queue.rules.groups = {{{0}, {{0, {}}}}};
  queue.rules.strict = true;
  queue.rules.backfill = backfill;
  queue.quotas = {{0, 0, {gpus, {}, {}}}};
  forest.queues["q"] = std::move(queue);
  auto planted = forest.plant();
  kueue::Continuous out(std::move(planted.fields.front()));
  out.set_backfill(std::make_unique<Reservations>());
  return out;
}

/// The start of each job, in minutes; each runs exactly as long as declared.
std::vector<std::int64_t> starts(const std::vector<Job>& jobs, std::int64_t gpus, bool backfill) {
  auto rules = decider(gpus, backfill);
  std::vector<std::int64_t> out(jobs.size(), -1);
  std::priority_queue<std::pair<std::int64_t, int>, std::vector<std::pair<std::int64_t, int>>, std::greater<>> ends;
  for (std::size_t next = 0; next < jobs.size() || !ends.empty();) {
    std::int64_t now = ends.empty() ? jobs[next].comes : ends.top().first;
    if (next < jobs.size()) now = std::min(now, jobs[next].comes);
    for (; !ends.empty() && ends.top().first == now; ends.pop()) rules.finish(ends.top().second);
    for (; next < jobs.size() && jobs[next].comes == now; ++next) {
      const auto& job = jobs[next];
      kueue::Work work;
      work.id = static_cast<int>(next);
      work.uid = WorkloadUid(std::to_string(1000 + next));
      work.priority = job.priority;
      work.created = now * 60'000'000;
      work.run_us = job.run * 60'000'000;
      work.shape = static_cast<int>(job.gpus);
      work.pod_sets = {{"main", 1, {}, {{0, job.gpus}}, {}}};
      rules.enqueue(std::move(work));
    }
    for (const auto& [id, assignment] : rules.run(now * 60'000'000).admitted) {
      const auto i = static_cast<std::size_t>(id);
      out[i] = now;
      ends.emplace(now + jobs[i].run, id);
    }
  }
  return out;
}

RC_GTEST_PROP(BackfillSimulation, NoWorkloadStartsLaterThanInPlainOrder, ()) {
  const auto gpus = *inRange<std::int64_t>(1, 9);
  std::vector<Job> jobs;
  std::int64_t at = 0;
  const int n = *inRange(1, 40);
  for (int i = 0; i < n; ++i) {
    at += *inRange<std::int64_t>(0, 30);
    jobs.push_back({at, *inRange<std::int64_t>(2, 200), *inRange<std::int64_t>(1, gpus + 1), 0});
  }
  const auto plain = starts(jobs, gpus, false), filled = starts(jobs, gpus, true);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    RC_ASSERT(plain[i] >= 0 && filled[i] >= 0);
    RC_ASSERT(filled[i] <= plain[i]);
  }
}

TEST(BackfillSimulation, UtilizationIsHigher) {
  // A large job every two hours behind small ones: without backfill the capacity reserved for it is idle.
  std::vector<Job> jobs;
  for (int i = 0; i < 40; ++i) jobs.push_back({i * 15, i % 8 == 3 ? 60 : 45, i % 8 == 3 ? 8 : 1 + i % 3, 0});
  const auto used = [&](bool backfill) {
    const auto at = starts(jobs, 8, backfill);
    std::int64_t last = 0, work = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      last = std::max(last, at[i] + jobs[i].run);
      work += jobs[i].run * jobs[i].gpus;
    }
    return static_cast<double>(work) / static_cast<double>(last * 8);
  };
  RecordProperty("plain_percent", static_cast<int>(100 * used(false)));
  RecordProperty("filled_percent", static_cast<int>(100 * used(true)));
  EXPECT_GE(used(true), used(false));
  double plain = 0, filled = 0;
  const auto a = starts(jobs, 8, false), b = starts(jobs, 8, true);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    plain += static_cast<double>(a[i] - jobs[i].comes);
    filled += static_cast<double>(b[i] - jobs[i].comes);
  }
  RecordProperty("plain_wait_minutes", static_cast<int>(plain / 40));
  RecordProperty("filled_wait_minutes", static_cast<int>(filled / 40));
  EXPECT_LT(filled, plain);
}

}  // namespace passing_prop_test
}  // namespace qm::admission::forecast
