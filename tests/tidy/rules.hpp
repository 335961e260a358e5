#pragma once
#include "tree.hpp"

#include <string>
#include <vector>

namespace qm::tidy {

struct Finding {
  std::string path;
  std::size_t line = 0;  ///< from 1; 0 = the file as a whole
  std::string what;      ///< and what to write instead
  [[nodiscard]] std::string to_string() const;
};

/// A rule of the house looks at one file and says what is against it. Pure, so that each can be shown to find its
/// fault.
struct Rule {
  std::string name;
  std::vector<Finding> (*check)(const SourceFile& file);
};
const std::vector<Rule>& rules();

/// What `path` may include of ours: a library, a service, "testing", "proto".
struct Arrows {
  std::string_view module;            ///< folder
  std::vector<std::string_view> may;  ///< beside itself
};
const std::vector<Arrows>& arrows();

}  // namespace qm::tidy
