#include "qm/settings/setting.hpp"

#include "qm/config/names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::settings {

std::string_view name_of(Type type) {
  switch (type) {
    case Type::kBool:
      return "bool";
    case Type::kInteger:
      return "int";
    case Type::kDuration:
      return "duration";
    case Type::kEnum:
      return "enum";
    case Type::kList:
      return "list";
    case Type::kText:
      return "text";
  }
  return {};
}

Error wrong_value(std::string_view name, std::string_view value, std::string_view allowed) {
  return {Code::kInvalid, fmt::format("--set {}: '{}' is not valid", name, value), std::string(name),
          fmt::format("use {}", allowed)};
}

Status check_names(const Values& given, std::span<const Setting> known) {
  std::vector<std::string_view> names;
  for (const Setting& setting : known) names.push_back(setting.name);
  for (const auto& [name, value] : given) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const auto meant = config::nearest(name, names);
    return fail(Error{Code::kInvalid,
                      fmt::format("--set {}: unknown setting{}", name,
                                  meant.empty() ? std::string() : fmt::format("; did you mean {}?", meant)),
                      name,
                      names.empty() ? std::string("this program has no settings of its own; remove the option")
                                    : fmt::format("the settings are {}", fmt::join(names, ", "))});
  }
  return {};
}

std::string help_text(std::span<const Setting> settings) {
  if (settings.empty()) return {};
  std::string out = "Settings, each as --set NAME=VALUE:\n";
  for (const Setting& setting : settings) {
    const auto standard = setting.default_value.empty() ? std::string() : fmt::format(" [{}]", setting.default_value);
    out += fmt::format("  {}{}  {}\n      {}\n", setting.name, standard, setting.form.allowed, setting.help);
  }
  return out;
}

}  // namespace qm::settings
