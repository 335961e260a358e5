#pragma once
// Tables of command line flags: one reader for every tool.
#include "qm/base/result.hpp"
#include "qm/config/names.hpp"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::node_groups {

/// One flag of a tool: its effect on the options T, or why it has none here.
template <class T>
struct Flag {
  std::string_view name;
  bool boolean = false;  ///< without a value it is true
  std::function<Status(std::string_view text, T& out)> set = {};
  std::string_view note = {};  ///< of a flag without an effect; empty = it does not concern the nodes
};

inline tl::unexpected<Error> bad_flag(std::string_view flag, std::string message, std::string remedy) {
  return fail(
      Error{Code::kInvalid, fmt::format("--{}: {}", flag, message), fmt::format("--{}", flag), std::move(remedy)});
}

/// The table's flag with the name; null if there is none. "no-NAME" is the negation of a boolean flag.
template <class T>
const Flag<T>* find_flag(std::span<const Flag<T>> table, std::string_view name, bool& negated) {
  const auto named = [&](std::string_view wanted) -> const Flag<T>* {
    for (const auto& flag : table) {
      if (flag.name == wanted) return &flag;
    }
    return nullptr;
  };
  negated = false;
  if (const auto* flag = named(name)) return flag;
  if (!name.starts_with("no-")) return nullptr;
  const auto* flag = named(name.substr(3));
  negated = flag != nullptr && flag->boolean;
  return negated ? flag : nullptr;
}

/// The flags of `args` with their effects on `out`; words that are no flag are appended to `words`, and notes to `notes`.
template <class T>
Status read_flag_table(std::span<const std::string> args, std::span<const Flag<T>> table, T& out,
                       std::vector<std::string>& words, std::vector<std::string>& notes) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string_view text = args[i];
    if (!text.starts_with('-') || text == "-") {
      words.emplace_back(text);
      continue;
    }
    text.remove_prefix(text.starts_with("--") ? 2 : 1);
    const auto equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    bool negated = false;
    const Flag<T>* flag = find_flag(table, name, negated);
    if (flag == nullptr) {
      std::vector<std::string_view> known;
      for (const auto& each : table) known.push_back(each.name);
      const auto nearest = config::nearest(name, known);
      return bad_flag(
          name, "unknown flag",
          nearest.empty() ? "remove it; it has no counterpart here" : fmt::format("did you mean --{}?", nearest));
    }
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = text.substr(equals + 1);
    } else if (flag->boolean) {
      value = negated ? "false" : "true";
    } else if (i + 1 < args.size()) {
      value = args[++i];
    } else {
      return bad_flag(name, "it has no value", fmt::format("write --{}=VALUE", name));
    }
    if (value.find('$') != std::string_view::npos)
      return bad_flag(name, fmt::format("{} is a shell variable", value), "write its value");
    if (flag->set) {
      QM_TRY(flag->set(value, out));
    } else if (!flag->note.empty()) {
      notes.push_back(fmt::format("--{} has no effect: {}", name, flag->note));
    }
  }
  return {};
}

}  // namespace qm::node_groups
