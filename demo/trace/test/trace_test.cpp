#include "qm/trace/trace.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace qm::trace {
namespace {

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
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n1,x,1,a\n").find("t.csv:2: \"x\" is no whole number"),
            std::string::npos);
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n1,-5,1,a\n").find("duration_s"), std::string::npos);
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n1,5,0,a\n").find("0 GPUs"), std::string::npos);
  EXPECT_NE(message("submit_s,duration_s,num_gpus,vc\n").find("holds no job"), std::string::npos);
}

TEST(Trace, CutTakesWhatRunsAndWhatComes) {
  const std::vector<Job> jobs = {
      {0, 100, 1, "a"}, {10, 5, 2, "a"}, {50, 10, 4, "a"}, {99, 1, 1, "a"}, {100, 1, 1, "a"}};
  const Window w = cut(jobs, 50, 100);
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

TEST(Trace, PicksBusyHoursWithGangsFromTheRealTrace) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto real = read_csv(qm::testing::read_file(*shared + "/traces/philly/philly_jobs.csv"), "philly_jobs.csv");
  ASSERT_TRUE(real);
  EXPECT_EQ(real->size(), 82247u);
  const Window w = busiest(*real, 4, 8);
  EXPECT_GT(w.arriving.size(), 400u);
  EXPECT_GT(std::count_if(w.arriving.begin(), w.arriving.end(), [](const Job& j) { return j.gpus > 8; }), 4);
  EXPECT_GT(w.running_gpus(), 300);
}

}  // namespace
}  // namespace qm::trace
