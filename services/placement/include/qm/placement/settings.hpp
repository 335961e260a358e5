#pragma once
#include "qm/base/result.hpp"
#include "qm/placement/engine.hpp"

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement {

/// What `--set NAME=VALUE` says to the service.
struct Settings {
  Options engine;
  std::chrono::seconds gap_period{60};             ///< between two looks at the certified gap
  std::string quota = "auto", binding = "auto";  ///< who owns both where a namespace does not say
};

/// One table has every setting: its name, its reader and what it takes; README.md explains them.
///
/// Fails    kInvalid with the setting's name: it does not exist, or its value is not understood.
[[nodiscard]] Result<Settings> settings_of(const std::map<std::string, std::string>& given);
[[nodiscard]] std::vector<std::string_view> setting_names();

}  // namespace qm::placement
