#pragma once
#include "qm/placement/rules/pod_rules.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace qm::placement::rules {

/// A template as one line of text and back, which is how rows and facts carry it. Equal templates have equal texts.
[[nodiscard]] std::string text_of(const PodTemplate& pods);
/// None where the text was not written by text_of of this release or an earlier one.
[[nodiscard]] std::optional<PodTemplate> template_of(std::string_view text);

/// Whether the text is of a template with claims, or with claims that each pod has for itself; a look at its first letters.
[[nodiscard]] bool names_claims(std::string_view text);
[[nodiscard]] bool names_own_claims(std::string_view text);

}  // namespace qm::placement::rules
