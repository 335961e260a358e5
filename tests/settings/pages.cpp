#include "pages.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::settings {
namespace {

/// A cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

Json strings(const std::vector<std::string>& words) {
  Json out = Json::array();
  for (const auto& word : words) out.push_back(word);
  return out;
}

/// The words of a setting, and the booleans that YAML reads instead of some of them.
Json words_schema(const std::vector<std::string>& words) {
  Json out = strings(words);
  for (const bool value : {true, false}) {
    const bool has = std::ranges::any_of(
        words, [&](const auto& word) { return word == (value ? "on" : "off") || word == (value ? "true" : "false"); });
    if (has) out.push_back(value);
  }
  return Json::object({{"enum", std::move(out)}});
}

Json schema_of(const Setting& setting) {
  const Form& form = setting.form;
  Json out = Json::object();
  switch (form.type) {
    case Type::kBool:
    case Type::kEnum:
      out = words_schema(form.words);
      break;
    case Type::kInteger:
      out.set("type", "integer").set("minimum", form.least);
      if (form.most != std::numeric_limits<std::int64_t>::max()) out.set("maximum", form.most);
      break;
    case Type::kList:
      if (std::ranges::find(form.words, "off") != form.words.end()) {
        out.set("type", Json::array({"string", "boolean"}));
        break;
      }
      [[fallthrough]];
    case Type::kDuration:
    case Type::kText:
      out.set("type", "string");
      if (form.pattern.empty()) {
        out.set("minLength", 1);
      } else {
        out.set("pattern", form.pattern);
      }
      break;
  }
  out.set("description", fmt::format("{} Use {}.", setting.help, form.allowed));
  return out;
}

}  // namespace

std::string markdown(std::span<const Setting> settings) {
  std::string out = "| setting | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const Setting& setting : settings) {
    const auto standard = setting.default_value.empty() ? std::string("not set") : "`" + setting.default_value + "`";
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", setting.name, name_of(setting.form.type), cell(standard),
                       cell(setting.form.allowed), cell(setting.help));
  }
  return out;
}

Json schema(std::span<const Setting> settings) {
  Json properties = Json::object();
  for (const Setting& setting : settings) properties.set(setting.name, schema_of(setting));
  return Json::object({{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}});
}

}  // namespace qm::settings
