#include "values.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace qm::node_groups {

std::optional<bool> bool_of(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTrue{"1", "t", "T", "true", "TRUE", "True"};
  constexpr std::array<std::string_view, 6> kFalse{"0", "f", "F", "false", "FALSE", "False"};
  if (std::ranges::find(kTrue, text) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, text) != kFalse.end()) return false;
  return std::nullopt;
}

std::optional<std::int64_t> share_of(std::string_view text) {
  const auto point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string digits(point == std::string_view::npos ? std::string_view() : text.substr(point + 1));
  if (whole.empty() && digits.empty()) return std::nullopt;
  const bool decimal = std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  const auto units = whole.empty() ? std::optional<std::int64_t>(0) : whole_number(whole);
  if (!decimal || !units || *units < 0 || *units > 1) return std::nullopt;
  digits.resize(3, '0');
  const std::int64_t milli = *units * 1000 + whole_number(digits).value_or(0);
  return milli > 1000 ? std::nullopt : std::optional(milli);
}

std::string share_text(std::int64_t milli) {
  std::string out = fmt::format("{}.{:03}", milli / 1000, milli % 1000);
  while (out.ends_with('0')) out.pop_back();
  if (out.ends_with('.')) out.pop_back();
  return out;
}

std::optional<Taint> taint_of(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kEffects{
      {{"NoSchedule", "NoSchedule"},
       {"PreferNoSchedule", "PreferNoSchedule"},
       {"NoExecute", "NoExecute"},
       {"NO_SCHEDULE", "NoSchedule"},
       {"PREFER_NO_SCHEDULE", "PreferNoSchedule"},
       {"NO_EXECUTE", "NoExecute"}}};
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto* effect = std::ranges::find(kEffects, text.substr(colon + 1), [](const auto& pair) { return pair.first; });
  const std::string_view pair = text.substr(0, colon);
  const auto equals = pair.find('=');
  const std::string_view key = pair.substr(0, equals);
  if (effect == kEffects.end() || key.empty()) return std::nullopt;
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
  return Taint{std::string(key), std::string(value), std::string(effect->second)};
}

Result<Labels> labels_of(std::string_view text) {
  Labels out;
  for (const std::string_view item : split(text, ',')) {
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return fail(Error{Code::kInvalid, fmt::format("'{}' is no label", item), {}, "write KEY=VALUE,..."});
    out[std::string(item.substr(0, equals))] = item.substr(equals + 1);
  }
  return out;
}

Result<std::vector<Taint>> taints_of(std::string_view text) {
  std::vector<Taint> out;
  for (const std::string_view item : split(text, ',')) {
    auto taint = taint_of(item);
    if (!taint) {
      return fail(Error{Code::kInvalid,
                        fmt::format("'{}' is no taint", item),
                        {},
                        "write KEY=VALUE:EFFECT,... with the effect NoSchedule, PreferNoSchedule or NoExecute"});
    }
    out.push_back(std::move(*taint));
  }
  return out;
}

}  // namespace qm::node_groups
