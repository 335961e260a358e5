#include "yaml.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace qm::cli {
namespace {

/// Plain if it can only be read as this string: letters first, then a narrow set, and no word with a meaning in YAML
/// 1.1 or 1.2. Any other string is written as a JSON string, which YAML reads unchanged.
bool plain(const std::string& text) {
  static constexpr std::array kMeant{"true", "false", "yes", "no", "on", "off", "null", "y", "n"};
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text[0])) == 0 || text.back() == ' ') return false;
  const bool narrow = std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./ ()+").find(c) != std::string_view::npos;
  });
  if (!narrow) return false;
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(kMeant, lower) == kMeant.end();
}

std::string scalar(const Json& value) {
  if (!value.is_string()) return value.dump();
  if (plain(value.string())) return value.string();
  std::string out;
  append_json_string(out, value.string());
  return out;
}

std::string key_text(const std::string& key) { return scalar(Json(key)); }

bool nested(const Json& value) { return (value.is_object() || value.is_array()) && value.size() > 0; }

std::string leaf(const Json& value) {
  if (value.is_object()) return "{}";
  if (value.is_array()) return "[]";
  return scalar(value);
}

void write(const Json& value, std::size_t indent, std::string& out);

/// Writes the value after "key:" or "-".
void write_child(const Json& child, std::size_t indent, std::string& out) {
  if (nested(child)) {
    out += "\n";
    write(child, indent, out);
  } else {
    out += " " + leaf(child) + "\n";
  }
}

void write(const Json& value, std::size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  for (const auto& [key, child] : value.members()) {
    out += margin + key_text(key) + ":";
    // A list may have the same indent as its key.
    write_child(child, child.is_array() ? indent : indent + 2, out);
  }
  for (const auto& item : value.items()) {
    if (item.is_object() && item.size() > 0) {
      // The first member is on the line of the dash.
      std::string block;
      write(item, indent + 2, block);
      block[indent] = '-';
      out += block;
    } else {
      out += margin + "-";
      write_child(item, indent + 2, out);
    }
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  if (!nested(value)) return leaf(value) + "\n";
  std::string out;
  write(value, 0, out);
  return out;
}

}  // namespace qm::cli
