#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace qm::testing {

// What readers of text tables share.

/// The parts between the separators; empty ones are left out.
std::vector<std::string> split(std::string_view text, char separator);
/// Without the spaces and tabs at both ends.
std::string trimmed(std::string_view text);

}  // namespace qm::testing
