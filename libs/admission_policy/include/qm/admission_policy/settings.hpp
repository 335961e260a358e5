#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/base/result.hpp"
#include "qm/settings/table.hpp"

#include <string>

namespace qm::admission_policy {

/// The table of the policy's settings (--set NAME=VALUE of qm-admission). The file of a policy is read first; the other
/// settings override it.
[[nodiscard]] const settings::Table<Settings>& settings_table();

/// The namespace of admission is excluded, and its service accounts may do manually what admission decides.
void complete(Settings& settings, const std::string& home);

/// The policy by the settings of the webhook, so that `qmctl admit` refuses what the webhook refuses. Settings of its
/// server (webhook, webhook-url, webhook-only) are ignored; of webhook-service only the namespace counts.
///
/// Fails    kInvalid names the setting and its valid values, or the nearest known name.
[[nodiscard]] Result<Settings> read_policy_settings(const settings::Values& given);

}  // namespace qm::admission_policy
