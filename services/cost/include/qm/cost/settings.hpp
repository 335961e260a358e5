#pragma once
#include "qm/cost/engine.hpp"
#include "qm/settings/table.hpp"

namespace qm::cost {

/// Settings of the service.
struct Settings {
  Options engine;
  bool alone = false;  ///< nodes and pods are read from the API server; no other service publishes them
};

/// The table of all settings. Other members of Options are constants of the service.
[[nodiscard]] const settings::Table<Settings>& settings_table();

}  // namespace qm::cost
