#include "qm/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>
#include <thread>

namespace qm::metrics {
namespace {

/// Reads the exposition format strictly: every line is a comment, a sample, or a failure of the test.
std::map<std::string, double> parse(const std::string& text) {
  static const std::regex sample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})?) (\S+))re");
  static const std::regex comment(R"(# (HELP|TYPE) [a-zA-Z_:][a-zA-Z0-9_:]* .*)");
  std::map<std::string, double> values;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_match(line, match, sample)) {
      values[match[1]] = std::stod(match[2]);
    } else {
      EXPECT_TRUE(std::regex_match(line, comment)) << line;
    }
  }
  EXPECT_TRUE(text.empty() || text.back() == '\n');
  return values;
}

TEST(Metrics, CountersGaugesAndHistogramsCanBeRead) {
  Registry registry;
  auto ok = registry.counter("qm_calls_total", "Calls.", {{"code", "ok"}});
  auto failed = registry.counter("qm_calls_total", "Calls.", {{"code", "failed"}});
  auto depth = registry.gauge("qm_depth", "Depth.");
  auto seconds = registry.histogram("qm_seconds", "Seconds.", {0.1, 1});
  ok.add();
  ok.add(2);
  failed.add();
  depth.set(-4.5);
  seconds.observe(0.05);
  seconds.observe(0.5);
  seconds.observe(5);
  const auto text = registry.text();
  const auto values = parse(text);
  EXPECT_EQ(values.at(R"(qm_calls_total{code="ok"})"), 3);
  EXPECT_EQ(values.at(R"(qm_calls_total{code="failed"})"), 1);
  EXPECT_EQ(values.at("qm_depth"), -4.5);
  EXPECT_EQ(values.at(R"(qm_seconds_bucket{le="0.1"})"), 1);
  EXPECT_EQ(values.at(R"(qm_seconds_bucket{le="1"})"), 2);
  EXPECT_EQ(values.at(R"(qm_seconds_bucket{le="+Inf"})"), 3);
  EXPECT_EQ(values.at("qm_seconds_count"), 3);
  EXPECT_NE(text.find("# HELP qm_calls_total Calls.\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE qm_calls_total counter\n"), std::string::npos);
}

TEST(Metrics, TheSameNameAndLabelsAreOneMetric) {
  Registry registry;
  registry.counter("qm_a_total", "A.").add();
  registry.counter("qm_a_total", "A.").add();
  EXPECT_EQ(parse(registry.text()).at("qm_a_total"), 2);
}

TEST(Metrics, LabelValuesAreEscaped) {
  Registry registry;
  registry.gauge("qm_label", "L.", {{"name", "a\"b\\c\nd"}}).set(1);
  EXPECT_EQ(parse(registry.text()).at(R"(qm_label{name="a\"b\\c\nd"})"), 1);
}

TEST(Metrics, HooksRunBeforeEachScrape) {
  Registry registry;
  auto gauge = registry.gauge("qm_scrapes", "S.");
  int scrapes = 0;
  registry.on_scrape([&] { gauge.set(++scrapes); });
  EXPECT_EQ(parse(registry.text()).at("qm_scrapes"), 1);
  EXPECT_EQ(parse(registry.text()).at("qm_scrapes"), 2);
}

TEST(Metrics, UpdatesFromManyThreadsAllCount) {
  Registry registry;
  auto counter = registry.counter("qm_hits_total", "H.");
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([counter]() mutable {
        for (int i = 0; i < 10000; ++i)
          counter.add();
      });
    }
  }
  EXPECT_EQ(parse(registry.text()).at("qm_hits_total"), 40000);
}

TEST(Metrics, AHandleWithoutARegistryDoesNothing) {
  Counter().add();
  Gauge().set(1);
  Histogram().observe(1);
}

TEST(MetricsDeathTest, AWrongNameOrKindStopsTheProcess) {
  Registry registry;
  EXPECT_DEATH(registry.counter("not a name", "x"), "not a name");
  registry.counter("qm_twice", "x");
  EXPECT_DEATH(registry.gauge("qm_twice", "x"), "qm_twice");
}

}  // namespace
}  // namespace qm::metrics
