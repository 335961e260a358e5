#pragma once
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace qm::images {

inline constexpr const char* kNoContainers =
    "QM_CONTAINERS is not set: run ./qm peers containers, then ./qm test --peers";

/// A setting of the peers; empty if it is not set.
inline std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

struct Ran {
  int code = -1;       ///< -1: it did not start, or did not end in time
  std::string output;  ///< stdout and stderr
};
/// Runs a line of shell in the source folder.
inline Ran sh(const std::string& line, std::chrono::seconds timeout = std::chrono::minutes(2)) {
  const testing::TempDir folder;
  testing::Process::Options options;
  options.argv = {"/bin/bash", "-c", fmt::format("cd {} && {}", QM_SOURCE_DIR, line)};
  options.output = folder.path() + "/output";
  auto process = testing::Process::start(options);
  if (!process) return {-1, process.error().to_string()};
  const auto code = (*process)->wait(timeout);
  return {code.value_or(-1), testing::read_file(options.output)};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

inline const std::vector<std::string>& targets() {
  static const std::vector<std::string> all{"qm-admission", "qm-placement", "qm-autoscaler", "qm-telemetry", "qm-cost",
                                            "qm-agent",     "qmctl",        "qm-fleet",      "quartermaster"};
  return all;
}

/// Builds every target of the Dockerfile once for this binary, from the programs in its folder (or in QM_BIN_DIR);
/// returns the error.
inline std::string build_once() {
  static const std::string wrong = [] {
    const auto programs = setting("QM_BIN_DIR");
    const auto ran =
        sh(fmt::format("QM_BIN_DIR={} tools/images.sh build test", programs.empty() ? QM_BIN_DIR : programs),
           std::chrono::minutes(10));
    return ran.code == 0 ? std::string() : ran.output;
  }();
  return wrong;
}

inline std::string image(const std::string& target) { return "localhost/quartermaster/" + target + ":test"; }

}  // namespace qm::images
