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

}  // namespace qm::placement::rules
