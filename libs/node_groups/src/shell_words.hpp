#pragma once
#include "qm/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::node_groups {

/// The simple commands of a shell script, each as its words: comments and line continuations removed, quotes resolved.
/// Commands end at a line, ";", "&&", "||" and "|".
///
/// Fails    kInvalid: a quote without its end.
[[nodiscard]] Result<std::vector<std::vector<std::string>>> shell_commands(std::string_view script);

}  // namespace qm::node_groups
