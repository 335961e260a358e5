// Estimates compared with the actual starts: on generated jobs, and on some weeks of our own trace and, where it is
// available, of the Philly trace.
#include "replay.hpp"

#include "qm/admission/forecast/chance.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

namespace qm::admission::forecast {
namespace replay_test {

using std::chrono::hours;
using std::chrono::minutes;

double no_clock() { return 0; }

/// Two teams with jobs of one to four GPUs, each kind with its own run times; slightly less work than 16 GPUs can do.
std::vector<TraceJob> random_trace(int n, std::uint64_t seed) {
  std::vector<TraceJob> out;
  Duration at{};
  for (int i = 0; i < n; ++i) {
    const auto draw = [&](std::uint64_t what) { return chance(seed, static_cast<std::uint64_t>(i), what); };
    at += Duration(static_cast<std::int64_t>(-std::log(1 - draw(0)) * 12 * 60e6));
    const std::int64_t gpus = draw(1) < 0.7 ? 1 : 4;
    const Lifetime life(log_logistic(gpus == 1 ? minutes(40) : minutes(60), 2));
    out.push_back({at, std::min<Duration>(life.quantile(draw(2)), hours(24)), gpus, draw(3) < 0.5 ? "a" : "b"});
  }
  return out;
}

ReplaySettings small() {
  ReplaySettings out;
  out.gpus = 16;
  out.begin = hours(48);
  out.end = hours(24 * 30);
  out.every = hours(2);
  out.eta.futures = 32;
  return out;
}

TEST(Replay, IntervalsCoverTheirShareOfOutcomes) {
  const auto out = replay(random_trace(3000, 3), small(), no_clock);
  EXPECT_EQ(out.jobs, 3000U);
  const auto corrected = score(out.estimates, true);
  RecordProperty("n", static_cast<int>(corrected.n));
  RecordProperty("held_percent", static_cast<int>(100 * corrected.held));
  ASSERT_GT(corrected.n, 200U);
  EXPECT_GE(corrected.held, 0.72);
  EXPECT_LE(corrected.held, 0.88);
  EXPECT_LT(corrected.pinball_hours, corrected.naive_pinball_hours);
}

TEST(Replay, IsDeterministicAndReplaysOtherRules) {
  const auto jobs = random_trace(300, 5);
  auto settings = small();
  settings.begin = hours(6);
  const auto key = [](const Replayed& out) {
    std::vector<Duration> all;
    for (const auto& one : out.estimates) all.insert(all.end(), {one.raw.low, one.corrected.high, one.truth});
    return all;
  };
  const auto plain = key(replay(jobs, settings, no_clock));
  EXPECT_EQ(plain, key(replay(jobs, settings, no_clock)));
  for (auto* other : {&settings.strict, &settings.reclaim}) {
    *other = true;
    EXPECT_NE(plain, key(replay(jobs, settings, no_clock)));
    *other = false;
  }
  settings.arrivals = false;
  EXPECT_NE(plain, key(replay(jobs, settings, no_clock)));
}

/// Nine days of a trace with few futures, to check that it can be read and replayed. `gpus` is about half of the GPUs
/// that would be in use if each job started on arrival.
void expect_played(const std::string& folder, std::size_t n, std::int64_t gpus) {
  SCOPED_TRACE(folder);
  auto jobs = read_jobs(folder + "/philly/philly_jobs.csv");
  ASSERT_TRUE(jobs) << jobs.error().to_string();
  EXPECT_EQ(jobs->size(), n);
  std::erase_if(*jobs, [](const TraceJob& job) { return job.submitted > hours(24 * 27); });
  ReplaySettings settings;
  settings.gpus = gpus;
  settings.begin = hours(24 * 18);
  settings.every = hours(24);
  settings.most = 8;
  settings.eta.futures = 8;
  const auto out = replay(*jobs, settings, no_clock);
  const auto corrected = score(out.estimates, true);
  EXPECT_EQ(corrected.n, out.estimates.size());
  EXPECT_GT(corrected.n, 30U);
  EXPECT_GT(corrected.held, 0.4);
}

/// docs/results/forecast.md has the results for the whole public trace.
TEST(Replay, ReplaysPhillyTrace) {
  expect_played(testing::data_dir() + "/traces", 16'024, 250);
  if (const auto shared = testing::shared_dir()) expect_played(*shared + "/traces", 82'247, 600);
}

TEST(Replay, EmptyHistoryHasNoScores) {
  EXPECT_EQ(score({}, true).n, 0U);
  EXPECT_EQ(score({TracedEstimate{}}, true).n, 0U);
}

TEST(Replay, NamesInvalidLine) {
  const testing::TempDir dir;
  const auto path = dir.path() + "/jobs.csv";
  std::ofstream(path) << "submit_s,duration_s,num_gpus,vc\n0,60,8,a\n5,x,1,b\n";
  const auto bad = read_jobs(path);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("line 3"), std::string::npos);
  EXPECT_EQ(read_jobs("/nowhere").error().code, Code::kNotFound);
  std::ofstream(path) << "submit_s,duration_s,num_gpus,vc\n0,60,8,a\n";
  const auto good = read_jobs(path);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->front().team, "a");
  EXPECT_EQ(good->front().runs, minutes(1));
}

}  // namespace replay_test
}  // namespace qm::admission::forecast
