#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace qm::cli {

/// Splits one line of a CSV; a quoted cell may contain commas.
std::vector<std::string> cells_of(std::string_view line);

}  // namespace qm::cli
