#include "qm/apiserver/names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::apiserver {
namespace {

constexpr std::size_t kLongestLabel = 63, kLongestSubdomain = 253;

constexpr std::string_view kSubdomain =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kLabel =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
    "character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kNamePart =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
    "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view kValue =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

bool lower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool alphanumeric(char c) { return lower(c) || (c >= 'A' && c <= 'Z'); }

/// Whether the text begins and ends with a `letter`, and has only letters and characters of `between` inside.
bool consists_of(std::string_view text, bool (*letter)(char), std::string_view between) {
  return !text.empty() && letter(text.front()) && letter(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || between.find(c) != std::string_view::npos; });
}

bool is_subdomain(std::string_view name) {
  while (true) {
    const auto dot = name.find('.');
    if (!consists_of(name.substr(0, dot), lower, "-")) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

void bound(std::string_view text, std::size_t most, std::string_view unit, Faults& out) {
  if (text.size() > most) out.push_back(fmt::format("must be no more than {} {}", most, unit));
}

}  // namespace

Faults subdomain_faults(std::string_view name) {
  Faults out;
  bound(name, kLongestSubdomain, "characters", out);
  if (!is_subdomain(name)) out.emplace_back(kSubdomain);
  return out;
}

Faults label_faults(std::string_view name) {
  Faults out;
  bound(name, kLongestLabel, "characters", out);
  if (consists_of(name, lower, "-")) return out;
  out.emplace_back(is_subdomain(name) ? "must not contain dots" : kLabel);
  return out;
}

Faults key_faults(std::string_view key) {
  Faults out;
  const auto slash = key.find('/');
  if (slash != std::string_view::npos && key.find('/', slash + 1) != std::string_view::npos) {
    return {fmt::format(
        "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')", kNamePart)};
  }
  if (slash == 0) out.emplace_back("prefix part must be non-empty");
  if (slash != std::string_view::npos && slash > 0) {
    for (auto& fault : subdomain_faults(key.substr(0, slash))) out.push_back("prefix part " + std::move(fault));
  }
  const auto name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  if (name.empty()) out.emplace_back("name part must be non-empty");
  bound(name, kLongestLabel, "bytes", out);
  if (name.size() > kLongestLabel) out.back().insert(0, "name part ");
  if (!consists_of(name, alphanumeric, "-_.")) out.push_back(fmt::format("name part {}", kNamePart));
  return out;
}

Faults value_faults(std::string_view value) {
  Faults out;
  bound(value, kLongestLabel, "bytes", out);
  if (!value.empty() && !consists_of(value, alphanumeric, "-_.")) out.emplace_back(kValue);
  return out;
}

}  // namespace qm::apiserver
