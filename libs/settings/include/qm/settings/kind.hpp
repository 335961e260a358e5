#pragma once
#include "qm/base/time.hpp"
#include "qm/settings/setting.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace qm::settings {

/// The conversion between values of T and the text of a setting, and the description of the allowed texts.
///
/// Threads  any; values.
template <class T>
struct Kind {
  Form form;
  std::function<std::optional<T>(const std::string&)> read;  ///< nullopt = the text is not allowed
  std::function<std::string(const T&)> write;                ///< the inverse; empty text = no value
};

/// "a, b or c".
[[nodiscard]] std::string one_of(const std::vector<std::string>& words);
/// The parts between separators. Empty parts are kept; an empty text has no parts.
[[nodiscard]] std::vector<std::string> split(const std::string& text, char separator);

/// The word for a given text: itself, or "on" and "off" for "true" and "false". YAML reads `on` and `off` in the
/// values of a chart as true and false. nullopt: the text is none of the words.
[[nodiscard]] std::optional<std::string> word_of(const std::vector<std::string>& words, const std::string& text);

/// One word for each value. The remedy of the error is `allowed`, or the list of the words if it is empty.
template <class T>
[[nodiscard]] Kind<T> choice(std::vector<std::pair<std::string, T>> values, std::string allowed = {}) {
  std::vector<std::string> words;
  for (const auto& [word, value] : values) words.push_back(word);
  if (allowed.empty()) allowed = one_of(words);
  const auto read = [words, values](const std::string& text) -> std::optional<T> {
    const auto word = word_of(words, text);
    if (!word) return std::nullopt;
    return std::ranges::find(values, *word, &std::pair<std::string, T>::first)->second;
  };
  const auto write = [values](const T& value) {
    const auto found = std::ranges::find(values, value, &std::pair<std::string, T>::second);
    return found == values.end() ? std::string() : found->first;
  };
  return {{.type = Type::kEnum, .allowed = std::move(allowed), .words = std::move(words)}, read, write};
}

[[nodiscard]] Kind<bool> boolean();  ///< true or false
[[nodiscard]] Kind<bool> on_off();   ///< on or off: a feature

/// A decimal number in the range, without a unit in the text.
[[nodiscard]] Kind<std::int64_t> integer(std::int64_t least, std::int64_t most, std::string unit);

/// A duration in Go's format, as in Kubernetes: "90s", "5m", "1h30m".
[[nodiscard]] Kind<Duration> duration(Duration least, Duration most = Duration::max());
/// "1h30m" for 90 minutes; "0s" for zero.
[[nodiscard]] std::string duration_text(Duration duration);

/// A text that is not empty, for which `valid` is true. `allowed`: its meaning, such as "HOST:PORT"; `pattern`: as in
/// Form.
[[nodiscard]] Kind<std::string> text(std::string allowed, std::string pattern = {},
                                     std::function<bool(const std::string&)> valid = {});
/// An absolute path.
[[nodiscard]] Kind<std::string> path();

/// Items that are separated by commas, without empty ones, for which `valid` is true. With a word for the empty list,
/// such as "none", this word is its text.
template <class List = std::vector<std::string>>
[[nodiscard]] Kind<List> list(std::string allowed, std::string empty_word = {},
                              std::function<bool(const std::vector<std::string>&)> valid = {}) {
  const auto read = [empty_word, valid](const std::string& text) -> std::optional<List> {
    if (!empty_word.empty() && text == empty_word) return List();
    const auto items = split(text, ',');
    if (items.empty() || std::ranges::count(items, std::string()) > 0 || (valid && !valid(items))) return std::nullopt;
    return List(items.begin(), items.end());
  };
  const auto write = [empty_word](const List& items) {
    std::string out;
    for (const std::string& item : items) out += (out.empty() ? "" : ",") + item;
    return out.empty() ? empty_word : out;
  };
  Form form{.type = Type::kList, .allowed = std::move(allowed)};
  if (!empty_word.empty()) form.words = {empty_word};
  return {std::move(form), read, write};
}

}  // namespace qm::settings
