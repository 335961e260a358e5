#pragma once
#include "qm/base/result.hpp"

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace qm::fleet {

/// The record of what really happened: one JSON line for each event, flushed at once, written only by the fleet.
///
/// A checker reads it afterwards and judges the services by it, so it contains no requests or plans. Without a path
/// the lines are kept in memory (tests).
class History {
 public:
  History() = default;
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;
  Status open(const std::string& path);
  void append(std::string line);
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }  ///< empty if a file is open
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  std::FILE* file_ = nullptr;
  std::vector<std::string> lines_;
  std::size_t count_ = 0;
};

}  // namespace qm::fleet
