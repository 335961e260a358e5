#pragma once
#include "qm/base/json.hpp"
#include "qm/settings/setting.hpp"

#include <span>
#include <string>

namespace qm::settings {

/// The settings as a table in Markdown: name, type, default, allowed values, meaning.
[[nodiscard]] std::string markdown(std::span<const Setting> settings);

/// The JSON schema (draft 7) of an object with these settings as keys, for the values of the Helm chart. Numbers and
/// booleans are those of YAML; the range of a duration is in the description only.
[[nodiscard]] Json schema(std::span<const Setting> settings);

}  // namespace qm::settings
