#pragma once
#include "agent.hpp"
#include "qm/settings/table.hpp"

namespace qm::agent {

/// The table of all settings. Options::from_settings() also checks which of them may be combined.
[[nodiscard]] const settings::Table<Options>& settings_table();

}  // namespace qm::agent
