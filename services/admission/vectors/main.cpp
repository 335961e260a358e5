// qm-kueue-vectors FILE...: replays recorded decisions of Kueue through our engine and says where they differ.
//
// A file holds a JSON array of cases, or random traces as JSON lines; either may be gzipped. Each case that differs has a line,
// and each suite a line at the end: `SUITE: N passed, N failed, N deviations`.
#include "vectors.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::admission::vectors {
namespace {

/// The file's text, unpacked where it is packed.
std::optional<std::string> text_of(const char* path) {
  gzFile file = gzopen(path, "rb");
  if (file == nullptr) return std::nullopt;
  std::string out, part(1 << 16, '\0');
  int n = 0;
  while ((n = gzread(file, part.data(), static_cast<unsigned>(part.size()))) > 0) {
    out.append(part, 0, static_cast<std::size_t>(n));
  }
  gzclose(file);
  if (n < 0) return std::nullopt;
  return out;
}

Result<std::vector<Json>> records_of(std::string_view text) {
  std::vector<Json> out;
  if (text.starts_with('[')) {
    QM_ASSIGN(auto all, Json::parse(text));
    out = std::move(all.items_mut());
    return out;
  }
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    QM_ASSIGN(auto record, Json::parse(text.substr(begin, end - begin)));
    out.push_back(std::move(record));
    begin = end + 1;
  }
  return out;
}

struct Suite {
  Replay replay;
  int passed = 0, failed = 0, deviations = 0;
};

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: qm-kueue-vectors FILE...\n", stderr);
    return 2;
  }
  std::map<std::string, Suite> suites{
      {"random_cycles", {replay_random}}, {"quota", {replay_quota}}, {"preemption", {replay_preemption}}};
  for (int i = 1; i < argc; ++i) {
    const auto text = text_of(argv[i]);
    if (!text) {
      fmt::print(stderr, "{}: cannot be read\n", argv[i]);
      return 2;
    }
    const auto records = records_of(*text);
    if (!records) {
      fmt::print(stderr, "{}: {}\n", argv[i], records.error().to_string());
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
