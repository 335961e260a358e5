#pragma once
#include "qm/testing/testing.hpp"

#include <sstream>
#include <string>
#include <vector>

namespace qm::placement::mig::testing {

/// A row of the reference tables mig-profiles-*.csv: gpu, profile, instances_per_gpu, memory_gb,
/// sms_in_seed, sms_reported_by_nvidia_smi; further columns are ignored.
struct ReferenceRow {
  std::string gpu, profile;
  int instances = 0, memory_gb = 0, sms = 0;  ///< sms as nvidia-smi reports them
};

inline std::vector<ReferenceRow> read_reference(const std::string& path) {
  std::vector<ReferenceRow> out;
  std::istringstream lines(qm::testing::read_file(path));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    std::vector<std::string> row(6);
    for (std::string& cell : row) std::getline(cells, cell, ',');
    out.push_back({row[0], row[1], std::stoi(row[2]), std::stoi(row[3]), std::stoi(row[5])});
  }
  return out;
}

}  // namespace qm::placement::mig::testing
