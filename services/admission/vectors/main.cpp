// qm-kueue-vectors FILE...: replays recorded decisions of Kueue through our engine and says where they differ.
//
// A file holds a JSON array of cases, or random traces as JSON lines; either may be gzipped. Each case that differs has a line,
// and each suite a line at the end: `SUITE: N passed, N failed, N deviations`.
#include "vectors.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <string>

namespace qm::admission::vectors {
namespace {

struct Suite {
  Replay replay;
  int passed = 0, failed = 0, deviations = 0;
};

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: qm-kueue-vectors FILE...\n", stderr);
    return 2;
  }
  std::map<std::string, Suite> suites{{"random_cycles", {replay_random}}, {"quota", {replay_quota}},
                                      {"flavors", {replay_flavors}},      {"preemption", {replay_preemption}},
                                      {"cycle", {replay_cycle}},          {"order", {replay_order}},
                                      {"cycle_tas", {replay_cycle}},      {"tas_unit", {replay_tas_unit}}};
  for (int i = 1; i < argc; ++i) {
    const auto records = read_records(argv[i]);
    if (!records) {
      fmt::print(stderr, "{}\n", records.error().to_string());
      return 2;
    }
    for (const auto& record : *records) {
      const auto name = record["suite"].string_or("random_cycles");
      auto& suite = suites[name];
      const auto difference = suite.replay == nullptr ? "this suite is not replayed yet" : suite.replay(record);
      if (difference.empty()) {
        ++suite.passed;
        continue;
      }
      ++suite.failed;
      fmt::print("{} {} {}{}: {}\n", name, record["test"].string(), record["name"].string(), record["id"].string(),
                 difference);
    }
  }
  bool good = true;
  for (const auto& [name, suite] : suites) {
    if (suite.passed + suite.failed == 0) continue;
    fmt::print("{}: {} passed, {} failed, {} deviations\n", name, suite.passed, suite.failed, suite.deviations);
    good = good && suite.failed == 0;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace qm::admission::vectors

int main(int argc, char** argv) { return qm::admission::vectors::run(argc, argv); }
