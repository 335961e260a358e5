#include "qm/config/names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::config {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

struct Shape {
  std::size_t most;
  bool upper_case;
  std::string_view others;  ///< allowed in addition to letters and digits, not at the ends
  std::string_view remedy;
};

const Shape& shape_of(NameRule rule) {
  static constexpr Shape kShapes[] = {
      {253, false, "-.",
       "use at most 253 lowercase letters, digits, \"-\" and \".\", with a letter or digit at both ends"},
      {63, false, "-.",
       "use at most 63 lowercase letters, digits, \"-\" and \".\", with a letter or digit at both ends"},
      {63, false, "-", "use at most 63 lowercase letters, digits and \"-\", with a letter or digit at both ends"},
      {63, true, "-_.", "use at most 63 letters, digits, \"-\", \"_\" and \".\", with a letter or digit at both ends"},
      {63, true, "-_.", "use at most 63 letters, digits, \"-\", \"_\" and \".\", with a letter or digit at both ends"}};
  return kShapes[static_cast<std::size_t>(rule)];
}

/// The bytes of the UTF-8 character that begins here.
std::string_view character_at(std::string_view text, std::size_t at) {
  std::size_t size = 1;
  while (at + size < text.size() && (static_cast<unsigned char>(text[at + size]) & 0xC0) == 0x80) ++size;
  return text.substr(at, size);
}

std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 40;
  if (name.size() <= kMost) return std::string(name);
  std::size_t cut = kMost;
  while (cut > 0 && (static_cast<unsigned char>(name[cut]) & 0xC0) == 0x80) --cut;
  return fmt::format("{}...", name.substr(0, cut));
}

/// A valid name as similar as possible to this one; empty if no valid character is left.
std::string corrected(const Shape& shape, std::string_view name) {
  std::string out;
  for (const char c : name) {
    const char kept = shape.upper_case ? c : lower(c);
    const bool alphanumeric = is_lower(kept) || is_digit(kept) || is_upper(kept);
    if (!alphanumeric && (out.empty() || shape.others.find(out.back()) != std::string_view::npos)) continue;
    out += alphanumeric || shape.others.find(kept) != std::string_view::npos ? kept : '-';
  }
  if (out.size() > shape.most) out.resize(shape.most);
  while (!out.empty() && shape.others.find(out.back()) != std::string_view::npos) out.pop_back();
  return out;
}

std::string remedy_for(const Shape& shape, std::string_view name) {
  const auto example = corrected(shape, name);
  return example.empty() || example.size() > 40 ? std::string(shape.remedy)
                                                : fmt::format("{}; for example \"{}\"", shape.remedy, example);
}

std::optional<NameFault> fault_of(const Shape& shape, std::string_view name) {
  const auto refuse = [&](std::string why) {
    return NameFault{fmt::format("\"{}\" {}", shown(name), why), remedy_for(shape, name)};
  };
  const auto alphanumeric = [&](char c) { return is_lower(c) || is_digit(c) || (shape.upper_case && is_upper(c)); };
  std::size_t position = 0;
  for (std::size_t at = 0; at < name.size();) {
    const auto character = character_at(name, at);
    ++position;
    const bool allowed =
        character.size() == 1 && (alphanumeric(name[at]) || shape.others.find(name[at]) != std::string_view::npos);
    if (!allowed) return refuse(fmt::format("is not a valid name: character {} is \"{}\"", position, character));
    at += character.size();
  }
  if (position > shape.most)
    return refuse(fmt::format("has {} characters, at most {} are allowed", position, shape.most));
  const std::string_view dots = shape.upper_case ? std::string_view() : ".";
  for (std::size_t from = 0; from <= name.size();) {
    const auto end = std::min(name.find_first_of(dots, from), name.size());
    const auto part = name.substr(from, end - from);
    if (part.empty()) return refuse("is not a valid name: it has an empty part");
    for (const char c : {part.front(), part.back()}) {
      if (!alphanumeric(c)) return refuse(fmt::format("is not a valid name: a part begins or ends with \"{}\"", c));
    }
    from = end + 1;
  }
  return std::nullopt;
}

/// Insertions, removals, replacements and swaps of neighbors.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> older(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      next[j] = std::min({row[j - 1] + (same ? 0 : 1), row[j] + 1, next[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) next[j] = std::min(next[j], older[j - 2] + 1);
    }
    std::swap(older, row);
    std::swap(row, next);
  }
  return row.back();
}

}  // namespace

std::optional<NameFault> name_fault(NameRule rule, std::string_view name) {
  const Shape& shape = shape_of(rule);
  if (name.empty()) {
    if (rule == NameRule::kLabelValue) return std::nullopt;
    return NameFault{"is empty", std::string(shape.remedy)};
  }
  if (rule != NameRule::kLabelKey) return fault_of(shape, name);
  const auto slash = name.find('/');
  if (slash == std::string_view::npos) return fault_of(shape, name);
  if (slash == 0 || slash + 1 == name.size()) {
    return NameFault{
        fmt::format("\"{}\" is not a valid key: nothing is {} the \"/\"", shown(name), slash == 0 ? "before" : "after"),
        "write the key as NAME or DOMAIN/NAME, such as example.com/team"};
  }
  if (auto fault = fault_of(shape_of(NameRule::kSubdomain), name.substr(0, slash))) return fault;
  return fault_of(shape, name.substr(slash + 1));
}

std::string_view nearest(std::string_view text, const std::vector<std::string_view>& known) {
  std::string_view out;
  std::size_t best = std::min<std::size_t>(2, text.size() / 3) + 1;
  constexpr std::size_t kLongest = 128;  // of the compared texts
  if (text.size() > kLongest) return out;
  for (const std::string_view candidate : known) {
    if (candidate.size() > text.size() + best || text.size() > candidate.size() + best) continue;
    const std::size_t far = distance(text, candidate);
    if (far < best && far < candidate.size()) {
      best = far;
      out = candidate;
    }
  }
  return out;
}

}  // namespace qm::config
