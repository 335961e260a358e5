#pragma once
#include "qm/base/result.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::settings {

enum class Type : std::uint8_t { kBool, kInteger, kDuration, kEnum, kList, kText };
[[nodiscard]] std::string_view name_of(Type type);  ///< "bool", "int", "duration", "enum", "list", "text"

/// The allowed values of a setting, for errors, --help, the documentation and the schema of the chart.
struct Form {
  Type type = Type::kText;
  std::string allowed;             ///< as text after "use ": "1 to 1,000 nodes", "enforce, warn or off"
  std::vector<std::string> words;  ///< kBool and kEnum: all values; kList: values that are not lists, such as "none"
  std::int64_t least = 0;          ///< kInteger
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::string unit;     ///< kInteger and kDuration
  std::string pattern;  ///< kDuration, kList and kText: a regular expression that values match; empty = any text
};

/// The description of one setting of a program, which is given as --set NAME=VALUE.
struct Setting {
  std::string name;
  Form form;
  std::string default_value;  ///< as it would be given; empty = not set
  std::string help;           ///< one sentence
};

/// Given settings: values by name.
using Values = std::map<std::string, std::string>;

/// "--set hold: '5x' is not valid", with the remedy "use a duration of 1s to 24h". `allowed`: Form::allowed.
[[nodiscard]] Error wrong_value(std::string_view name, std::string_view value, std::string_view allowed);

/// kInvalid for the first unknown name: "--set holds: unknown setting; did you mean hold?", with all names as remedy.
[[nodiscard]] Status check_names(const Values& given, std::span<const Setting> known);

/// The settings as the end of --help: two lines each. Empty text if there are none.
[[nodiscard]] std::string help_text(std::span<const Setting> settings);

}  // namespace qm::settings
