#pragma once
// Shared code of benches with their own program: exit on failure and output of figures.
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

namespace qm::bench {

using Clock = std::chrono::steady_clock;

inline constexpr int kRepeats = 5;
inline constexpr int kKeys = 1000;
inline constexpr std::size_t kBytes = 300;

template <class T>
T must(qm::Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << result.error().to_string() << '\n';
  std::exit(1);
}
inline void must(qm::Status status) {
  if (status) return;
  std::cerr << status.error().to_string() << '\n';
  std::exit(1);
}

inline double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

inline double at_share(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto rank = std::ceil(share * static_cast<double>(values.size()));  // the nearest rank
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

/// Processor time that this process has used.
inline double processor_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

/// Measures by name, each with `n` values; prints the median, p99 and range of each, as a line of JSON.
class Report {
 public:
  Report(std::string bench, Json::Object about) : bench_(std::move(bench)), about_(std::move(about)) {}
  void add(const std::string& measure, double value) {
    for (auto& [name, values] : measures_)
      if (name == measure) return values.push_back(value);
    measures_.push_back({measure, {value}});
  }
  void print() const {
    for (const auto& [name, values] : measures_) {
      const auto round = [](double value) { return std::round(value * 1000) / 1000; };
      Json line = Json::object({{"bench", bench_}});
      for (const auto& [key, value] : about_) line.set(key, value);
      line.set("measure", name);
      line.set("n", static_cast<std::int64_t>(values.size()));
      line.set("median", round(at_share(values, 0.5)));
      line.set("p99", round(at_share(values, 0.99)));
      line.set("min", round(at_share(values, 0)));
      line.set("max", round(at_share(values, 1)));
      std::cout << line.dump() << std::endl;
    }
  }

 private:
  std::string bench_;
  Json::Object about_;
  std::vector<std::pair<std::string, std::vector<double>>> measures_;
};

}  // namespace qm::bench
