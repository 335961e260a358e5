// Waiting times of jobs: hand-written cases, laws over random traces, weeks of our own jobs, and the months of Philly.
#include "qm/philly/replay.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace qm::philly {
namespace replay_test {

using trace::Job;

const Discipline kFifo{"bestfit", false, 0}, kPassing{"quartermaster", true, 0};

TEST(Fleet, ServersOfEightAndOfTwo) {
  EXPECT_EQ(fleet_of(1243, 1.0).gpus(), 1242);
  EXPECT_EQ(fleet_of(1243, 0.75).eights, 116);
  EXPECT_EQ(fleet_of(1243, 0.75).twos, 157);
  EXPECT_EQ(fleet_of(16, 0.0).twos, 8);
}

TEST(Replay, FirstComeFirstServedBlocksAndPassingDoesNot) {
  const Fleet one{1, 0};
  // Four GPUs run for 100 s; a job of eight waits for them, and a job of two behind it would fit.
  const std::vector<Job> jobs{{0, 100, 4, "a"}, {10, 50, 8, "b"}, {20, 30, 2, "c"}};
  const auto fifo = replay(jobs, one, kFifo);
  EXPECT_EQ(fifo.by_team.at("b").longest_s, 90);
  EXPECT_EQ(fifo.by_team.at("c").longest_s, 130);
  const auto passing = replay(jobs, one, kPassing);
  EXPECT_EQ(passing.by_team.at("c").longest_s, 0);
  EXPECT_EQ(passing.by_team.at("b").longest_s, 90);
  EXPECT_EQ(passing.all.waited, 1);
  EXPECT_DOUBLE_EQ(passing.all.mean_s, 30);
}

TEST(Replay, PatienceHasAnEnd) {
  const Fleet one{1, 0};
  std::vector<Job> jobs{{0, 100, 1, "small"}, {1, 10, 8, "large"}};
  for (int i = 1; i < 50; ++i) jobs.push_back({i * 50, 100, 1, "small"});  // the node is never empty
  EXPECT_GT(replay(jobs, one, kPassing).by_team.at("large").longest_s, 2400);
  const auto bounded = replay(jobs, one, {"quartermaster", true, 300});
  EXPECT_LE(bounded.by_team.at("large").longest_s, 500);
  EXPECT_GT(bounded.by_team.at("small").longest_s, 0);
}

TEST(Replay, WhatDoesNotFitTheEmptyFleetIsLeftOut) {
  const auto out = replay({{0, 10, 8, "a"}, {0, 10, 2, "a"}}, {0, 3}, kFifo);
  EXPECT_EQ(out.impossible, 1);
  EXPECT_EQ(out.all.jobs, 1);
}

TEST(ReplayLaws, RandomTraces) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto upto = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    std::vector<Job> jobs;
    std::int64_t at = 0;
    for (int i = 0; i < 150; ++i) {
      at += upto(60);
      jobs.push_back({at, 1 + upto(900), static_cast<std::int32_t>(1 << upto(5)), fmt::format("t{}", upto(3))});
    }
    const Fleet fleet{2 + upto(3), upto(6)};
    for (const auto& discipline : {kFifo, kPassing, Discipline{"fgd", true, 200}}) {
      const auto out = replay(jobs, fleet, discipline);
      EXPECT_EQ(out.all.jobs + out.impossible, std::ssize(jobs));
      EXPECT_LE(out.busiest, 1.0);
      const auto again = replay(jobs, fleet, discipline);
      EXPECT_EQ(again.all.mean_s, out.all.mean_s);
      EXPECT_EQ(again.all.longest_s, out.all.longest_s);
    }
  }
}

/// The maximum number of GPUs in use if each job starts on arrival.
std::int64_t peak_of(const std::vector<Job>& jobs) {
  std::map<std::int64_t, std::int64_t> change;
  for (const auto& job : jobs) {
    change[job.submit_s] += job.gpus;
    change[job.submit_s + job.duration_s] -= job.gpus;
  }
  std::int64_t now = 0, most = 0;
  for (const auto& [at, gpus] : change) most = std::max(most, now += gpus);
  return most;
}

// On as many GPUs as all jobs would use if each started on arrival, no job waits. On a part of them the mean wait is
// at least 15 % shorter than with first come first served, by best fit and by fragmentation, and no team waits more
// than 5 % longer.
void expect_shorter_waits(const std::string& folder, double part) {
  SCOPED_TRACE(folder);
  const auto jobs =
      trace::read_csv(qm::testing::read_file(folder + "/philly/philly_jobs.csv"), folder + "/philly/philly_jobs.csv");
  ASSERT_TRUE(jobs) << jobs.error().to_string();
  const auto peak = peak_of(*jobs);
  const Fleet whole = fleet_of(peak, 0.75),
              smaller = fleet_of(static_cast<std::int64_t>(part * static_cast<double>(peak)), 0.75);
  EXPECT_LT(replay(*jobs, whole, kPassing).all.mean_s, 1);
  const auto ours = replay(*jobs, smaller, kPassing);
  EXPECT_EQ(ours.impossible, 0);
  for (const char* policy : {"bestfit", "fgd"}) {
    const auto theirs = replay(*jobs, smaller, {policy, false, 0});
    EXPECT_LE(ours.all.mean_s, 0.85 * theirs.all.mean_s) << policy;
    EXPECT_LE(ours.all.p99_s, theirs.all.p99_s) << policy;
    for (const auto& [team, waits] : ours.by_team) {
      EXPECT_LE(waits.mean_s, 1.05 * theirs.by_team.at(team).mean_s) << policy << ", team " << team;
    }
  }
}

TEST(Philly, WaitsAreShorter) {
  // Our own jobs use 42 % of their peak on average: on four fifths of it waits are rare, and the mean of a team
  // depends on single jobs.
  expect_shorter_waits(qm::testing::data_dir() + "/traces", 2.0 / 3);
  if (const auto shared = qm::testing::shared_dir()) expect_shorter_waits(*shared + "/traces", 0.8);
}

}  // namespace replay_test
}  // namespace qm::philly
