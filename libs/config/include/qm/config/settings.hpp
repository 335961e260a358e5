#pragma once
#include "qm/base/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::config {

/// Errors for invalid `--set NAME=VALUE`: option, value, allowed values, and for an unknown name the nearest known
/// one.
///
/// Threads  any; reads only their arguments.

/// "--set hold: '5m' is not valid", with the remedy "use 1 to 86,400 seconds". `allowed`: the text after "use", with
/// units.
[[nodiscard]] Error wrong_setting(std::string_view name, std::string_view value, std::string_view allowed);

/// kInvalid for the first unknown name in `given`: "--set holds: unknown setting; did you mean hold?"
[[nodiscard]] Status check_setting_names(const std::map<std::string, std::string>& given,
                                         const std::vector<std::string_view>& known);

}  // namespace qm::config
