#pragma once
#include "qm/testing/testing.hpp"

#include <chrono>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace qm::hardening {

struct Ran {
  int code = -1;       ///< -1: it did not start, or did not end in time
  std::string output;  ///< stdout and stderr
};
/// Runs a line of shell in the source folder.
inline Ran sh(const std::string& line) {
  const testing::TempDir folder;
  testing::Process::Options options;
  options.argv = {"/bin/bash", "-c", std::string("cd ") + QM_SOURCE_DIR + " && " + line};
  options.output = folder.path() + "/output";
  auto process = testing::Process::start(options);
  if (!process) return {-1, process.error().to_string()};
  const auto code = (*process)->wait(std::chrono::minutes(2));
  return {code.value_or(-1), testing::read_file(options.output)};
}

/// The programs in the images, as tools/images.sh lists them.
inline std::vector<std::string> shipped() {
  const std::string script = testing::read_file(std::string(QM_SOURCE_DIR) + "/tools/images.sh");
  const std::string begin = "readonly PROGRAMS=(";
  const auto at = script.find(begin);
  if (at == std::string::npos) return {};
  std::istringstream in(script.substr(at + begin.size(), script.find(')', at) - at - begin.size()));
  return {std::istream_iterator<std::string>(in), {}};
}

inline std::string program(const std::string& name) { return std::string(QM_BIN_DIR) + "/" + name; }

}  // namespace qm::hardening
