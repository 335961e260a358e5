#pragma once
#include "qm/autoscaler/cluster.hpp"
#include "qm/settings/table.hpp"

#include <string>

namespace qm::autoscaler {

/// Settings of the service.
struct Settings {
  ClusterSettings cluster;
  std::string aws;  ///< endpoint of EC2; empty = that of the region
};

/// The table of all settings.
[[nodiscard]] const settings::Table<Settings>& settings_table();

}  // namespace qm::autoscaler
