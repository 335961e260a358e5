#pragma once
#include "tree.hpp"

#include <string>
#include <vector>

namespace qm::tidy {

struct Finding {
  std::string path;
  std::size_t line = 0;  ///< from 1; 0 = the whole file
  std::string what;      ///< and what to write instead
  [[nodiscard]] std::string to_string() const;
};

/// A house rule checks one file and returns its violations. Pure, so that a test can prove that each rule finds its
/// violation.
struct Rule {
  std::string name;
  std::vector<Finding> (*check)(const SourceFile& file);
};
const std::vector<Rule>& rules();

/// The modules that `path` may include: a library, a service, "testing", "proto".
struct Arrows {
  std::string_view module;            ///< folder
  std::vector<std::string_view> may;  ///< in addition to itself
};
const std::vector<Arrows>& arrows();

}  // namespace qm::tidy
