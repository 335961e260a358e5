// qm-kueue-vectors FILE...: replays recorded decisions of Kueue through our engine and reports the differences.
//
// A file has a JSON array of cases, or random traces as JSON lines; either may be gzipped. Each case that differs
// has a line, and each suite a line at the end: `SUITE: N passed, N failed, N deviations`. A gates.json that is
// named, or is in the folder of a file, is compared with the defaults of the replays; a file without cases is named
// and left out.
#include "vectors.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::admission::vectors {
namespace {

struct Suite {
  Replay replay;
  int passed = 0, failed = 0, deviations = 0;
};

bool is_gates(const std::string& path) { return std::filesystem::path(path).filename() == "gates.json"; }

/// Lists of gates, each once: those that are named, and those in the folders of the files.
std::set<std::string> lists_of_gates(const std::vector<std::string>& paths) {
  std::set<std::string> out;
  for (const auto& path : paths) {
    const auto extra = std::filesystem::path(path).parent_path() / "gates.json";
    if (is_gates(path)) out.insert(path);
    if (std::filesystem::exists(extra)) out.insert(extra.string());
  }
  return out;
}

bool gates_agree(const std::string& path) {
  const auto gates = read_json(path);
  const auto others = gates ? other_defaults(*gates) : gates.error().to_string();
  if (!others.empty()) fmt::print(stderr, "{}: {}\n", path, others);
  return others.empty();
}

/// A case that lacks what its replay needs counts as a difference and does not stop the other cases.
std::string replay(const Suite& suite, const Json& record) {
  if (suite.replay == nullptr) return "this suite is not replayed yet";
  try {
    return suite.replay(record);
  } catch (const std::exception& e) {
    return fmt::format("cannot be replayed: {}", e.what());
  }
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: qm-kueue-vectors FILE...\n", stderr);
    return 2;
  }
  std::map<std::string, Suite> suites{{"random_cycles", {replay_random}}, {"quota", {replay_quota}},
                                      {"flavors", {replay_flavors}},      {"preemption", {replay_preemption}},
                                      {"cycle", {replay_cycle}},          {"order", {replay_order}},
                                      {"cycle_tas", {replay_cycle}},      {"tas_unit", {replay_tas_unit}}};
  const std::vector<std::string> paths(argv + 1, argv + argc);
  bool readable = true;
  for (const auto& path : lists_of_gates(paths)) readable = gates_agree(path) && readable;
  for (const auto& path : paths) {
    if (is_gates(path)) continue;
    const auto records = read_records(path);
    if (!records) {
      fmt::print(stderr, "{}\n", records.error().to_string());
      readable = false;
      continue;
    }
    for (const auto& record : *records) {
      const auto name = record["suite"].string_or("random_cycles");
      auto& suite = suites[name];
      const auto difference = replay(suite, record);
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
  return readable ? (good ? 0 : 1) : 2;
}

}  // namespace
}  // namespace qm::admission::vectors

int main(int argc, char** argv) { return qm::admission::vectors::run(argc, argv); }
