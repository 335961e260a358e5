// The main job at a small size: hours of jobs through the whole suite, with faults, judged from the fleet's own
// history by a checker that shares no code with the services.
#include "support.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace qm::e2e {
namespace replay_e2e_test {

constexpr double kMostMib = 150;

struct Replay {
  Ran ran;
  Json report;
};

Replay replay(const std::vector<std::string>& more) {
  const testing::TempDir dir;
  const std::string file = dir.path() + "/report.json";
  std::vector<std::string> argv = {program("qm-demo"), "--hours", "1", "--dir", dir.path(), "--json", file};
  argv.insert(argv.end(), more.begin(), more.end());
  Replay out;
  out.ran = run(std::move(argv), std::chrono::seconds(400));
  if (std::filesystem::exists(file)) out.report = Json::parse(testing::read_file(file)).value_or(Json());
  return out;
}

/// Invariants of every replay, with any faults.
void expect_laws(const Replay& r, std::int64_t jobs) {
  ASSERT_EQ(r.ran.code, 0) << r.ran.output;
  ASSERT_TRUE(r.report.is_object()) << r.ran.output;
  SCOPED_TRACE(r.ran.output);
  // In addition to the jobs that run when the window begins.
  EXPECT_GE(r.report["submitted"].integer(), jobs);
  EXPECT_GT(r.report["finished"].integer(), 0);
  for (const char* law : {"lost", "doubled", "double_booked", "partial_gangs", "orphan_instances",
                          "ledger_imbalance_nano", "bill_difference_nano"}) {
    EXPECT_TRUE(r.report[law].is_int()) << law << " is not in the report";
    EXPECT_EQ(r.report[law].integer(-1), 0) << law;
  }
  EXPECT_GT(r.report["provider_nano_usd"].integer(), 0);
  EXPECT_EQ(r.report["chargeback_total_nano_usd"].integer(), r.report["provider_nano_usd"].integer());
  EXPECT_GT(r.report["utilization"].number(), 0);
  EXPECT_EQ(r.report["violations"].size(), 0U);
  EXPECT_EQ(r.report["troubles"].size(), 0U);
  for (const auto& service : Suite::services()) {
    const double peak = r.report["peak_memory_mib"][service].number(-1);
    EXPECT_GT(peak, 0) << service;
    EXPECT_LE(peak, kMostMib) << service;
  }
}

TEST(Replay, HoursWithEveryFaultOnThePostgresCarrier) {
  const auto r = replay({"--nodes", "8", "--jobs", "60", "--speed", "120", "--seed", "11"});
  expect_laws(r, 60);
  EXPECT_EQ(r.report["kills"].integer(), 5) << "each service dies once";
}

TEST(Replay, HoursWithEveryFaultOnKafka) {
  if (std::getenv("QM_KAFKA") == nullptr) GTEST_SKIP() << "no Kafka: run ./qm peers kafka";
  const auto r = replay({"--nodes", "8", "--jobs", "60", "--speed", "120", "--seed", "12", "--bus", "kafka"});
  expect_laws(r, 60);
  EXPECT_EQ(r.report["kills"].integer(), 5) << "each service dies once";
}

TEST(Replay, HoursOfARecordedTrace) {
  // The public trace if present, else our own: an hour of the trace takes a long time through the whole suite.
  const std::string trace = testing::data_folders("traces").back() + "/philly/philly_jobs.csv";
  ASSERT_TRUE(std::filesystem::exists(trace)) << trace;
  const auto r = replay({"--trace", trace, "--nodes", "10", "--jobs", "60", "--speed", "120"});
  expect_laws(r, 60);
}

TEST(Replay, TwentyFiveRandomKillsLoseNothingAndDoubleNothing) {
  const auto r = replay({"--nodes", "8", "--jobs", "60", "--speed", "120", "--seed", "13", "--random-kills", "25"});
  expect_laws(r, 60);
  EXPECT_EQ(r.report["kills"].integer(), 25);
}

}  // namespace replay_e2e_test
}  // namespace qm::e2e
