#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::config {

/// The rules of Kubernetes for names.
enum class NameRule : std::uint8_t {
  kSubdomain,   ///< of most objects: 253 characters, a-z, 0-9, "-" and "."
  kJob,         ///< of a Job: a subdomain of at most 63 characters, because the name becomes a label of its pods
  kLabel,       ///< of a namespace: 63 characters, a-z, 0-9 and "-"
  kLabelKey,    ///< of a label or annotation: an optional subdomain and "/", then 63 characters
  kLabelValue,  ///< may be empty: 63 characters, letters, digits, "-", "_" and "."
};

/// An invalid name: the error with the character or the length at fault, and a remedy with a valid name.
struct NameFault {
  std::string message, remedy;
};

/// Returns no fault for a valid name.
///
/// Source   apimachinery, pkg/util/validation; a Job's 63 characters: the job strategy's label "job-name".
/// Threads  any; reads only its arguments.
[[nodiscard]] std::optional<NameFault> name_fault(NameRule rule, std::string_view name);

/// The entry that `text` is most likely a misspelling of; empty if none is close. Case-insensitive.
///
/// Order    ties go to the earlier entry.
[[nodiscard]] std::string_view nearest(std::string_view text, const std::vector<std::string_view>& known);

}  // namespace qm::config
