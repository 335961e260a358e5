#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace qm {

/// The parts between separators, including empty ones; at least one. They refer to `text`.
[[nodiscard]] inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

/// The integer that the whole text is, in decimal digits with an optional minus sign; none if it is anything else, or
/// out of range.
template <class Number = std::int64_t>
[[nodiscard]] std::optional<Number> whole_number(std::string_view text) {
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace qm
