#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace qm::testing {

// Shared functions of parsers of text tables.

/// The parts between the separators, without empty ones.
std::vector<std::string> split(std::string_view text, char separator);
/// Without the spaces and tabs at both ends.
std::string trimmed(std::string_view text);

}  // namespace qm::testing
