#pragma once
#include "qm/admission/cluster_settings.hpp"
#include "qm/admission/webhook/settings.hpp"

namespace qm::admission {

/// Settings of the service.
struct Settings {
  ClusterSettings cluster;
  webhook::WebhookSettings webhook;
};

/// The table of all settings.
[[nodiscard]] const settings::Table<Settings>& settings_table();

/// kInvalid: a name is unknown, or a value is not allowed.
[[nodiscard]] Result<Settings> read_settings(const settings::Values& given);

}  // namespace qm::admission
