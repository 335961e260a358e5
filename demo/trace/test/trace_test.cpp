#include "qm/trace/trace.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace qm::trace {
namespace trace_test {

TEST(Trace, ReadsColumnsByNameAndSorts) {
  const auto jobs = read_csv("vc,num_gpus,x,duration_s,submit_s\r\nb,2,?,30,50\na,1,?,10,5\n", "t.csv");
  ASSERT_TRUE(jobs) << jobs.error().to_string();
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].team, "a");
  EXPECT_EQ((*jobs)[1].gpus, 2);
}

TEST(Trace, NamesLineAndColumnOfBadInput) {
  const auto message = [](const char* text) { return read_csv(text, "t.csv").error().to_string(); };
  EXPECT_NE(message("a,b\n").find("t.csv:1: the header has no column submit_s"), std::string::npos);
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n1,2\n").find("t.csv:2: 2 of 4 columns"), std::string::npos);
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n1,x,1,a\n").find("t.csv:2: \"x\" is not a whole number"),
            std::string::npos);
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n1,-5,1,a\n").find("duration_s"), std::string::npos);
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n1,5,0,a\n").find("0 GPUs"), std::string::npos);
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n").find("has no job"), std::string::npos);
}

TEST(Trace, AWindowHasRunningJobsAndArrivals) {
  const std::vector<Job> jobs = {
      {0, 100, 1, "a"}, {10, 5, 2, "a"}, {50, 10, 4, "a"}, {99, 1, 1, "a"}, {100, 1, 1, "a"}};
  const Window w = window_of(jobs, 50, 100);
  ASSERT_EQ(w.running.size(), 1u);
  EXPECT_EQ(w.running[0].duration_s, 50);
  EXPECT_EQ(w.running_gpus(), 1);
  ASSERT_EQ(w.arriving.size(), 2u);
}

TEST(Trace, ThinningKeepsTheCountAndTheOrder) {
  Window w{0, 100, {}, {}};
  for (int i = 0; i < 100; ++i) w.arriving.push_back({i, 1, 1, "a"});
  for (int i = 0; i < 50; ++i) w.running.push_back({0, 10, 8, "a"});
  const Window t = thinned(w, 30, 80);
  EXPECT_EQ(t.arriving.size(), 30u);
  EXPECT_TRUE(
      std::is_sorted(t.arriving.begin(), t.arriving.end(), [](auto& a, auto& b) { return a.submit_s < b.submit_s; }));
  EXPECT_LE(t.running_gpus(), 80);
  EXPECT_GE(t.running_gpus(), 72);
  EXPECT_EQ(thinned(w, 1000, 1000).arriving.size(), 100u);
}

TEST(Model, SameSeedSameHours) {
  const Window a = draw({.seed = 7}), b = draw({.seed = 7}), c = draw({.seed = 8});
  ASSERT_EQ(a.arriving.size(), b.arriving.size());
  for (std::size_t i = 0; i < a.arriving.size(); ++i) EXPECT_EQ(a.arriving[i].duration_s, b.arriving[i].duration_s);
  EXPECT_NE(a.arriving.size() * 1000 + static_cast<std::size_t>(a.arriving[0].duration_s),
            c.arriving.size() * 1000 + static_cast<std::size_t>(c.arriving[0].duration_s));
  EXPECT_EQ(a.running_gpus(), 280);
}

std::int64_t quantile(std::vector<std::int64_t> values, double p) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(p * static_cast<double>(values.size())))];
}

TEST(Model, FitsTheRealTrace) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto real = read_csv(qm::testing::read_file(*shared + "/traces/philly/philly_jobs.csv"), "philly_jobs.csv");
  ASSERT_TRUE(real) << real.error().to_string();
  const Window model = draw({.seed = 3, .hours = 800, .jobs_per_hour = 100, .running_gpus = 8});
  std::map<int, std::vector<std::int64_t>> real_runs, model_runs;
  std::map<std::string, double> real_team;
  for (const auto& j : *real) {
    real_runs[j.gpus].push_back(j.duration_s);
    real_team[j.team] += 1.0 / static_cast<double>(real->size());
  }
  for (const auto& j : model.arriving) model_runs[j.gpus].push_back(j.duration_s);
  for (const auto& size : model_sizes()) {
    const double want = static_cast<double>(real_runs[size.gpus].size()) / static_cast<double>(real->size());
    const double got = static_cast<double>(model_runs[size.gpus].size()) / static_cast<double>(model.arriving.size());
    EXPECT_NEAR(got, want, 0.25 * want + 0.0005) << size.gpus << " GPUs: share of jobs";
    for (const double p : {0.25, 0.5, 0.75, 0.9}) {
      const double r = static_cast<double>(quantile(real_runs[size.gpus], p));
      const double m = static_cast<double>(quantile(model_runs[size.gpus], p));
      EXPECT_LT(std::abs(std::log(m / r)), std::log(size.gpus <= 8 ? 1.5 : 4.0))
          << size.gpus << " GPUs at " << p << ": model " << m << " real " << r;
    }
  }
  std::vector<double> shares, ours;
  for (const auto& [team, share] : real_team) shares.push_back(share);
  for (const auto& team : model_teams()) ours.push_back(team.weight);
  std::sort(shares.rbegin(), shares.rend());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(ours[i], shares[i], 0.005);
}

Result<std::vector<Job>> jobs_of(const std::string& folder) {
  const auto file = folder + "/philly/philly_jobs.csv";
  return read_csv(qm::testing::read_file(file), file);
}

/// Compares the model with its own figures, by counting: shares of sizes and teams, and the part of run times below
/// each quantile.
TEST(Model, FollowsItsFigures) {
  const Window model = draw({.seed = 5, .hours = 800, .jobs_per_hour = 100, .running_gpus = 8});
  const auto all = static_cast<double>(model.arriving.size());
  EXPECT_NEAR(all, 80'000, 4 * std::sqrt(80'000)) << "jobs come as a Poisson process";
  double weights = 0;
  for (const auto& size : model_sizes()) {
    weights += size.weight;
    std::vector<std::int64_t> runs;
    for (const auto& job : model.arriving) {
      if (job.gpus == size.gpus) runs.push_back(job.duration_s);
    }
    const auto n = static_cast<double>(runs.size());
    EXPECT_NEAR(n, size.weight * all, 5 * std::sqrt(size.weight * all)) << size.gpus << " GPUs";
    EXPECT_GE(std::ranges::min(runs), std::max<std::int64_t>(1, size.at[0]));
    EXPECT_LE(std::ranges::max(runs), size.max);
    constexpr double kParts[] = {0, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99};
    for (std::size_t i = 1; i < std::size(kParts); ++i) {
      const auto below = [&](std::int64_t limit) {
        return static_cast<double>(std::ranges::count_if(runs, [&](auto run) { return run <= limit; })) / n;
      };
      // Whole seconds: the quantile is between the part below it and the part not above it.
      const double slack = 5 * std::sqrt(kParts[i] * (1 - kParts[i]) / n);
      EXPECT_LE(below(size.at[i] - 1), kParts[i] + slack) << size.gpus << " GPUs at " << kParts[i];
      EXPECT_GE(below(size.at[i]), kParts[i] - slack) << size.gpus << " GPUs at " << kParts[i];
    }
  }
  EXPECT_NEAR(weights, 1, 0.001);
  std::map<std::string, double> teams;
  for (const auto& job : model.arriving) ++teams[job.team];
  for (const auto& team : model_teams()) {
    EXPECT_NEAR(teams[team.team], team.weight * all, 5 * std::sqrt(team.weight * all)) << team.team;
  }
}

/// Evaluates each window of the grid by a scan of all jobs.
std::int64_t busiest_by_counting(const std::vector<Job>& jobs, std::int64_t length, std::int32_t gpus_per_node) {
  const std::int64_t windows = jobs.back().submit_s / length + 1;
  std::vector<std::int64_t> count(static_cast<std::size_t>(windows)), gangs(static_cast<std::size_t>(windows));
  for (const auto& job : jobs) {
    const auto at = static_cast<std::size_t>(job.submit_s / length);
    ++count[at];
    gangs[at] += job.gpus > gpus_per_node ? 1 : 0;
  }
  const auto fullest = std::ranges::max(count);
  std::size_t best = 0;
  bool any = false;
  for (std::size_t i = 0; i < count.size(); ++i) {
    if (count[i] * 3 < fullest) continue;
    if (any && (gangs[i] < gangs[best] || (gangs[i] == gangs[best] && count[i] <= count[best]))) continue;
    best = i;
    any = true;
  }
  return static_cast<std::int64_t>(best) * length;
}

TEST(Trace, PicksBusyHoursWithGangsFromTheRealTrace) {
  for (const auto& folder : qm::testing::data_folders("traces")) {
    SCOPED_TRACE(folder);
    const auto jobs = jobs_of(folder);
    ASSERT_TRUE(jobs) << jobs.error().to_string();
    const Window w = busiest(*jobs, 4, 8);
    EXPECT_EQ(w.from_s, busiest_by_counting(*jobs, 4 * 3600, 8));
    const auto arrived = std::ranges::count_if(
        *jobs, [&](const Job& j) { return j.submit_s >= w.from_s && j.submit_s < w.from_s + 4 * 3600; });
    EXPECT_EQ(std::ssize(w.arriving), arrived);
    std::int64_t running = 0;
    for (const auto& j : *jobs) {
      if (j.submit_s < w.from_s && j.submit_s + j.duration_s > w.from_s) running += j.gpus;
    }
    EXPECT_EQ(w.running_gpus(), running);
  }

  // Our own jobs have one afternoon with a deadline: 24 gangs of 16 GPUs on the 24th day.
  const auto own = jobs_of(qm::testing::data_dir() + "/traces");
  ASSERT_TRUE(own) << own.error().to_string();
  EXPECT_EQ(own->size(), 16'024U);
  const Window deadline = busiest(*own, 4, 8);
  EXPECT_EQ(deadline.from_s, 23 * 86'400 + 12 * 3'600);
  EXPECT_GE(std::ranges::count_if(deadline.arriving, [](const Job& j) { return j.gpus == 16 && j.team == "delta"; }),
            24);

  const auto shared = qm::testing::shared_dir();
  if (!shared) return;
  const auto real = jobs_of(*shared + "/traces");
  ASSERT_TRUE(real);
  EXPECT_EQ(real->size(), 82247u);
  const Window w = busiest(*real, 4, 8);
  EXPECT_GT(w.arriving.size(), 400u);
  EXPECT_GT(std::count_if(w.arriving.begin(), w.arriving.end(), [](const Job& j) { return j.gpus > 8; }), 4);
  EXPECT_GT(w.running_gpus(), 300);
}

}  // namespace trace_test
}  // namespace qm::trace
