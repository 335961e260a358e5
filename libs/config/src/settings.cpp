#include "qm/config/settings.hpp"

#include "qm/config/names.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace qm::config {

Error wrong_setting(std::string_view name, std::string_view value, std::string_view allowed) {
  return {Code::kInvalid, fmt::format("--set {}: '{}' is not valid", name, value), std::string(name),
          fmt::format("use {}", allowed)};
}

Status check_setting_names(const std::map<std::string, std::string>& given,
                           const std::vector<std::string_view>& known) {
  for (const auto& [name, value] : given) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto meant = nearest(name, known);
    return fail(Error{Code::kInvalid,
                      fmt::format("--set {}: unknown setting{}", name,
                                  meant.empty() ? std::string() : fmt::format("; did you mean {}?", meant)),
                      name,
                      known.empty() ? std::string("this program has no settings of its own; remove the option")
                                    : fmt::format("the settings are {}", fmt::join(known, ", "))});
  }
  return {};
}

}  // namespace qm::config
