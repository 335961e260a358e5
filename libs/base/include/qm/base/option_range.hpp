#pragma once
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace qm {

/// The range of a numeric option, for --help and for errors, in readable form: "1 to 10,000", "0 or more".
///
/// Units    those of the option; `unit` is printed after the numbers, as in "0 to 86,400 seconds".
/// Use      ranged(app.add_option("--hours", hours), OptionRange<int>(1, 48, "hours")).
/// Threads  any.
template <class T>
class OptionRange {
 public:
  OptionRange(T least, T most, std::string_view unit = {}) : least_(least), most_(most), unit_(unit) {}

  [[nodiscard]] std::string text() const {
    const auto end = unit_.empty() ? std::string() : " " + unit_;
    if (most_ == std::numeric_limits<T>::max()) return fmt::format("{} or more{}", shown(least_), end);
    return fmt::format("{} to {}{}", shown(least_), shown(most_), end);
  }
  /// Returns an empty text for a number in the range; otherwise the error and the allowed range.
  std::string operator()(const std::string& value) const {
    T read{};
    const auto* end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, read);
    if (error == std::errc::result_out_of_range ||
        (error == std::errc() && at == end && !(read >= least_ && read <= most_)))
      return fmt::format("{} is out of range; use {}", value, text());
    if (error != std::errc() || at != end) return fmt::format("'{}' is not a number; use {}", value, text());
    return {};
  }

 private:
  /// The number with a comma between thousands.
  static std::string shown(T number) {
    auto text = fmt::format("{}", number);
    const auto point = text.find_first_of(".e");
    auto at = point == std::string::npos ? text.size() : point;
    while (at > 3 && text[at - 4] != '-' && text.find('e') == std::string::npos) text.insert(at -= 3, ",");
    return text;
  }

  T least_, most_;
  std::string unit_;
};

/// The range of `least` or more, without an upper bound.
template <class T>
OptionRange<T> at_least(T least, std::string_view unit = {}) {
  return {least, std::numeric_limits<T>::max(), unit};
}

/// Sets the range as the check of a CLI11 option, and shows it in --help.
template <class Option, class T>
Option* ranged(Option* option, const OptionRange<T>& range) {
  return option->check(range, range.text());
}

}  // namespace qm
