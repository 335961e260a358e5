#pragma once
#include "qm/kube_rules/pod_rules.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace qm::kube_rules {

/// Converts a template to one line of text for rows and observations, and back. Equal templates have equal
/// texts.
[[nodiscard]] std::string text_of(const PodTemplate& pods);
/// None if the text was not written by text_of of this or an earlier release.
[[nodiscard]] std::optional<PodTemplate> template_of(std::string_view text);
/// The template of the pods of a set: its rules with the requests, node selector and tolerations of its shape. Shares of
/// GPUs and MIG instances are not among the requests.
[[nodiscard]] PodTemplate template_of(const PodSet& set, const Namespace& ns);

/// Whether the text's template has claims, or claims of single pods; reads only its first letters.
[[nodiscard]] bool names_claims(std::string_view text);
[[nodiscard]] bool names_own_claims(std::string_view text);

}  // namespace qm::kube_rules
