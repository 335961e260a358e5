#include "qm/settings/kind.hpp"

#include "qm/base/option_range.hpp"
#include "qm/config/manifest.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace qm::settings {

std::string one_of(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  for (std::size_t from = 0; !text.empty() && from <= text.size();) {
    const auto end = std::min(text.find(separator, from), text.size());
    out.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return out;
}

std::optional<std::string> word_of(const std::vector<std::string>& words, const std::string& text) {
  const auto contains = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  if (contains(text)) return text;
  for (const auto& [yaml, word] : {std::pair("true", "on"), std::pair("false", "off")}) {
    if (text == yaml && contains(word)) return word;
    if (text == word && contains(yaml)) return yaml;
  }
  return std::nullopt;
}

namespace {

Kind<bool> two_words(const char* no, const char* yes) {
  auto out = choice<bool>({{yes, true}, {no, false}});
  out.form.type = Type::kBool;
  return out;
}

}  // namespace

Kind<bool> boolean() { return two_words("false", "true"); }
Kind<bool> on_off() { return two_words("off", "on"); }

Kind<std::int64_t> integer(std::int64_t least, std::int64_t most, std::string unit) {
  const auto read = [least, most](const std::string& text) -> std::optional<std::int64_t> {
    std::int64_t number = 0;
    const auto* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || last != end || number < least || number > most) return std::nullopt;
    return number;
  };
  return {{.type = Type::kInteger,
           .allowed = OptionRange<std::int64_t>(least, most, unit).text(),
           .least = least,
           .most = most,
           .unit = std::move(unit)},
          read,
          [](const std::int64_t& number) { return std::to_string(number); }};
}

std::string duration_text(Duration duration) {
  struct Unit {
    std::int64_t micros;
    const char* name;
  };
  static constexpr std::array<Unit, 5> kUnits{
      {{3'600'000'000, "h"}, {60'000'000, "m"}, {1'000'000, "s"}, {1'000, "ms"}, {1, "us"}}};
  if (duration == Duration::zero()) return "0s";
  std::string out = duration < Duration::zero() ? "-" : "";
  std::int64_t rest = std::abs(duration.count());
  for (const auto& [micros, name] : kUnits) {
    if (rest >= micros) out += fmt::format("{}{}", rest / micros, name);
    rest %= micros;
  }
  return out;
}

Kind<Duration> duration(Duration least, Duration most) {
  const auto read = [least, most](const std::string& text) -> std::optional<Duration> {
    const auto duration = config::parse_duration(text);
    if (!duration || *duration < least || *duration > most) return std::nullopt;
    return *duration;
  };
  const auto range = most == Duration::max() ? std::string(" or more") : " to " + duration_text(most);
  return {{.type = Type::kDuration,
           .allowed = fmt::format("a duration of {}{}, such as 5m", duration_text(least), range),
           .unit = "h, m, s or ms",
           .pattern = R"(^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$)"},
          read,
          duration_text};
}

Kind<std::string> text(std::string allowed, std::string pattern, std::function<bool(const std::string&)> valid) {
  const auto read = [valid = std::move(valid)](const std::string& text) -> std::optional<std::string> {
    if (text.empty() || (valid && !valid(text))) return std::nullopt;
    return text;
  };
  return {{.type = Type::kText, .allowed = std::move(allowed), .pattern = std::move(pattern)},
          read,
          [](const std::string& text) { return text; }};
}

Kind<std::string> path() {
  return text("an absolute path, which begins with /", "^/",
              [](const std::string& text) { return text.starts_with('/'); });
}

}  // namespace qm::settings
