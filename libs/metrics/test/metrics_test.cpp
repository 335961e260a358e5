#include "qm/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

namespace qm::metrics {
namespace metrics_test {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':'; }

/// The length of a sample's name with its labels, or 0 if they are malformed.
std::size_t series_length(const std::string& line) {
  std::size_t at = 0;
  while (at < line.size() && is_name(line[at])) ++at;
  if (at == 0 || at == line.size() || line[at] != '{') return at;
  ++at;
  while (at < line.size() && line[at] != '}') {
    const auto name = at;
    while (at < line.size() && is_name(line[at])) ++at;
    if (at == name || line.compare(at, 2, "=\"") != 0) return 0;
    for (at += 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\') ++at;
    }
    if (++at < line.size() && line[at] == ',') ++at;
  }
  return at < line.size() ? at + 1 : 0;
}

/// Parses the exposition format strictly: every line is a comment, a sample, or a failure of the test.
std::map<std::string, double> parse(const std::string& text) {
  std::map<std::string, double> values;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# HELP qm_") || line.starts_with("# TYPE qm_")) continue;
    const auto length = series_length(line);
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + length, &end);
    EXPECT_TRUE(length > 0 && line[length] == ' ' && end == line.c_str() + line.size()) << line;
    values[line.substr(0, length)] = value;
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

TEST(Metrics, ACollectedSeriesEndsWithItsObject) {
  Registry registry;
  registry.gauge("qm_stays", "S.").set(1);
  std::vector<std::string> nodes = {"a", "b"};
  registry.on_collect([&] {
    Family use{"qm_use", "Use.", Family::Kind::kGauge, {}};
    for (const auto& node : nodes) use.series.push_back({{{"node", node}}, 0.5});
    return std::vector<Family>{use, {"qm_seen_total", "Seen.", Family::Kind::kCounter, {{{}, 7}}}};
  });
  const auto text = registry.text();
  EXPECT_NE(text.find("# HELP qm_use Use.\n# TYPE qm_use gauge\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# TYPE qm_seen_total counter\n"), std::string::npos) << text;
  auto values = parse(text);
  EXPECT_EQ(values.at(R"(qm_use{node="a"})"), 0.5);
  EXPECT_EQ(values.at("qm_seen_total"), 7);
  EXPECT_EQ(values.at("qm_stays"), 1);
  nodes = {"b"};
  values = parse(registry.text());
  EXPECT_FALSE(values.contains(R"(qm_use{node="a"})"));
  EXPECT_TRUE(values.contains(R"(qm_use{node="b"})"));
  nodes.clear();
  EXPECT_EQ(registry.text().find("qm_use"), std::string::npos) << "no series, no family";
}

TEST(Metrics, UpdatesFromManyThreadsAllCount) {
  Registry registry;
  auto counter = registry.counter("qm_hits_total", "H.");
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([counter]() mutable {
        for (int i = 0; i < 10000; ++i) counter.add();
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
  EXPECT_DEATH(
      {
        registry.on_collect([] { return std::vector<Family>{{"2nd", "x", Family::Kind::kGauge, {{{}, 1}}}}; });
        (void)registry.text();
      },
      "2nd");
  registry.counter("qm_twice", "x");
  EXPECT_DEATH(registry.gauge("qm_twice", "x"), "qm_twice");
}

}  // namespace metrics_test
}  // namespace qm::metrics
