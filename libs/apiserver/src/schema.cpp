// Walks an object together with the schema. The texts are those of the API server's validation.
#include "qm/apiserver/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <regex>
#include <set>

namespace qm::apiserver {
namespace {

constexpr const char* kKeepUnknown = "x-kubernetes-preserve-unknown-fields";
constexpr std::size_t kLongestForPattern = 4096;

std::string under(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

/// Every object has these fields, independent of its schema; the schema does not apply to their content.
bool is_of_each_object(const std::string& path, std::string_view name) {
  return path.empty() && (name == "apiVersion" || name == "kind" || name == "metadata");
}

void prune_at(const Json& schema, const std::string& path, Json& value, std::vector<std::string>& out) {
  if (value.is_array()) {
    std::size_t i = 0;
    for (auto& item : value.items_mut()) prune_at(schema["items"], fmt::format("{}[{}]", path, i++), item, out);
    return;
  }
  if (!value.is_object()) return;
  const Json &properties = schema["properties"], &others = schema["additionalProperties"];
  const bool keeps = schema[kKeepUnknown].boolean() || others.boolean();
  auto& members = value.members_mut();
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < members.size(); ++i) last[members[i].first] = i;
  std::set<std::string> seen;
  std::vector<Json::Member> kept;
  for (std::size_t i = 0; i < members.size(); ++i) {
    auto& [name, member] = members[i];
    const auto at = under(path, name);
    if (!seen.insert(name).second) out.push_back(fmt::format("duplicate field \"{}\"", at));
    if (last[name] != i) continue;
    const Json* known = properties.find(name);
    if (known == nullptr && others.is_object()) known = &others;
    if (known == nullptr && !keeps && !is_of_each_object(path, name)) {
      out.push_back(fmt::format("unknown field \"{}\"", at));
      continue;
    }
    if (known != nullptr && !is_of_each_object(path, name)) prune_at(*known, at, member, out);
    kept.push_back(std::move(members[i]));
  }
  members = std::move(kept);
}

class Checker {
 public:
  explicit Checker(Causes& out) : out_(out) {}

  void check(const Json& schema, const std::string& path, const Json& value) {
    if (!has_type(schema, path, value)) return;
    check_enum(schema, path, value);
    if (value.is_string()) check_text(schema, path, value.string());
    if (value.is_number()) check_number(schema, path, value);
    if (value.is_array()) check_list(schema, path, value);
    if (value.is_object()) check_object(schema, path, value);
  }

 private:
  void invalid(const std::string& path, std::string_view value, std::string_view why) {
    out_.push_back({path, fmt::format("Invalid value: {}: {} in body {}", value, path, why)});
  }

  bool has_type(const Json& schema, const std::string& path, const Json& value) {
    if (schema["x-kubernetes-int-or-string"].boolean()) {
      if (value.is_int() || value.is_string()) return true;
      invalid(path, quoted(kind_of(value)), fmt::format("must be of type integer,string: {}", quoted(kind_of(value))));
      return false;
    }
    const auto& type = schema["type"].string();
    const auto is = kind_of(value);
    const bool fits = type.empty() || type == is || (type == "number" && is == "integer");
    if (!fits) invalid(path, quoted(is), fmt::format("must be of type {}: {}", type, quoted(is)));
    return fits;
  }

  static std::string kind_of(const Json& value) {
    if (value.is_object()) return "object";
    if (value.is_array()) return "array";
    if (value.is_bool()) return "boolean";
    if (value.is_string()) return "string";
    if (value.is_null()) return "null";
    return value.is_int() ? "integer" : "number";
  }
  static std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text); }
  static std::string shown(const Json& value) { return value.is_string() ? quoted(value.string()) : value.dump(); }

  void check_enum(const Json& schema, const std::string& path, const Json& value) {
    const auto& allowed = schema["enum"].items();
    if (allowed.empty() || std::ranges::find(allowed, value) != allowed.end()) return;
    std::vector<std::string> texts;
    for (const auto& one : allowed) texts.push_back(shown(one));
    out_.push_back(
        {path, fmt::format("Unsupported value: {}: supported values: {}", shown(value), fmt::join(texts, ", "))});
  }

  void check_text(const Json& schema, const std::string& path, const std::string& text) {
    const auto length =
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
    if (length < schema["minLength"].integer(0)) {
      invalid(path, quoted(text), fmt::format("should be at least {} chars long", schema["minLength"].integer()));
    }
    if (const auto& most = schema["maxLength"]; most.is_int() && length > most.integer()) {
      out_.push_back({path, fmt::format("Too long: may not be more than {} bytes", most.integer())});
    }
    const auto& pattern = schema["pattern"].string();
    if (pattern.empty() || text.size() > kLongestForPattern || std::regex_search(text, std::regex(pattern))) return;
    invalid(path, quoted(text), fmt::format("should match '{}'", pattern));
  }

  void check_number(const Json& schema, const std::string& path, const Json& value) {
    const auto& format = schema["format"].string();
    const bool fits = format != "int32" || (value.integer() >= std::numeric_limits<std::int32_t>::min() &&
                                            value.integer() <= std::numeric_limits<std::int32_t>::max());
    if (!fits) invalid(path, value.dump(), "must be of type int32");
    const auto bound = [&](const char* name, bool below, const char* words) {
      const auto& limit = schema[name];
      if (!limit.is_number()) return;
      const bool breaks = below ? value.number() < limit.number() : value.number() > limit.number();
      if (breaks) invalid(path, value.dump(), fmt::format("should be {} than or equal to {}", words, limit.dump()));
    };
    bound("minimum", true, "greater");
    bound("maximum", false, "less");
  }

  void check_list(const Json& schema, const std::string& path, const Json& value) {
    const auto size = static_cast<std::int64_t>(value.size());
    if (size < schema["minItems"].integer(0)) {
      invalid(path, std::to_string(size), fmt::format("should have at least {} items", schema["minItems"].integer()));
    }
    if (const auto& most = schema["maxItems"]; most.is_int() && size > most.integer()) {
      out_.push_back({path, fmt::format("Too many: {}: must have at most {} items", size, most.integer())});
    }
    const auto& keys = schema["x-kubernetes-list-map-keys"].items();
    const auto& type = schema["x-kubernetes-list-type"].string();
    std::set<std::string> seen;
    std::size_t i = 0;
    for (const auto& item : value.items()) {
      const auto at = fmt::format("{}[{}]", path, i++);
      check(schema["items"], at, item);
      if (type != "map" && type != "set") continue;
      Json key = type == "set" ? item : Json::object();
      for (const auto& name : keys) key.set(name.string(), item[name.string()]);
      if (!seen.insert(key.dump()).second) out_.push_back({at, fmt::format("Duplicate value: {}", key.dump())});
    }
  }

  void check_object(const Json& schema, const std::string& path, const Json& value) {
    for (const auto& name : schema["required"].items()) {
      if (!value.contains(name.string())) out_.push_back({under(path, name.string()), "Required value"});
    }
    const Json &properties = schema["properties"], &others = schema["additionalProperties"];
    for (const auto& [name, member] : value.members()) {
      const Json* known = properties.find(name);
      if (known == nullptr && others.is_object()) known = &others;
      if (known != nullptr && !is_of_each_object(path, name)) check(*known, under(path, name), member);
    }
  }

  Causes& out_;
};

}  // namespace

std::vector<std::string> prune(const Json& schema, Json& object) {
  std::vector<std::string> out;
  prune_at(schema, "", object, out);
  return out;
}

void set_schema_defaults(const Json& schema, Json& object) {
  if (object.is_array()) {
    for (auto& item : object.items_mut()) set_schema_defaults(schema["items"], item);
    return;
  }
  if (!object.is_object()) return;
  for (const auto& [name, of] : schema["properties"].members()) {
    if (const Json* value = of.find("default"); value != nullptr && object[name].is_null()) object.set(name, *value);
    if (Json* member = object.find(name)) set_schema_defaults(of, *member);
  }
  const Json& others = schema["additionalProperties"];
  if (!others.is_object()) return;
  for (auto& [name, member] : object.members_mut()) {
    if (!schema["properties"].contains(name)) set_schema_defaults(others, member);
  }
}

void check_schema(const Json& schema, const Json& object, Causes& out) { Checker(out).check(schema, "", object); }

}  // namespace qm::apiserver
