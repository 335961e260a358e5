#pragma once
#include "qm/placement/engine.hpp"
#include "qm/settings/table.hpp"

#include <string>

namespace qm::placement {

/// Settings of the service.
struct Settings {
  Options engine;
  std::string quota = "auto", binding = "auto";  ///< owner of each in a namespace that does not name one
};

/// The table of all settings. Other members of Options are constants of the service.
[[nodiscard]] const settings::Table<Settings>& settings_table();

}  // namespace qm::placement
