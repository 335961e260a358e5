#pragma once
#include "qm/base/result.hpp"
#include "qm/placement/engine.hpp"

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement {

/// Settings of the service from `--set NAME=VALUE`.
struct Settings {
  Options engine;
  std::chrono::seconds gap_period{60};           ///< between two evaluations of the certified gap
  std::string quota = "auto", binding = "auto";  ///< owner of each in a namespace that does not name one
};

/// A single table has the name, the parser and the allowed values of every setting; README.md explains them.
///
/// Fails    kInvalid with the setting's name: it does not exist, or its value is not valid.
[[nodiscard]] Result<Settings> settings_of(const std::map<std::string, std::string>& given);
[[nodiscard]] std::vector<std::string_view> setting_names();

}  // namespace qm::placement
