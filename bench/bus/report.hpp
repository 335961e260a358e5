#pragma once
// What the benches of the bus share: how a failure ends them and how figures are printed.
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
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
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// The same measures once per repeat; what is printed of each is its median and its range.
class Report {
 public:
  Report(std::string bench, std::string carrier, int parameter)
      : bench_(std::move(bench)), carrier_(std::move(carrier)), parameter_(parameter) {}
  void add(const std::string& measure, double value) {
    for (auto& [name, values] : measures_)
      if (name == measure) return values.push_back(value);
    measures_.push_back({measure, {value}});
  }
  void print(const char* parameter_name) const {
    for (const auto& [name, values] : measures_) {
      const auto round = [](double value) { return std::round(value * 1000) / 1000; };
      std::cout << Json::object({{"bench", bench_},
                                 {"carrier", carrier_},
                                 {parameter_name, parameter_},
                                 {"measure", name},
                                 {"median", round(at_share(values, 0.5))},
                                 {"min", round(at_share(values, 0))},
                                 {"max", round(at_share(values, 1))},
                                 {"repeats", static_cast<std::int64_t>(values.size())}})
                       .dump()
                << std::endl;
    }
  }

 private:
  std::string bench_;
  std::string carrier_;
  int parameter_;
  std::vector<std::pair<std::string, std::vector<double>>> measures_;
};

}  // namespace qm::bench
