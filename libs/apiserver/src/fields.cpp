// Walks an object along fields.csv. The texts are those of Go's decoder, so that a web search finds them.
#include "qm/apiserver/fields.hpp"

#include "fields_data.hpp"
#include "qm/model/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace qm::apiserver {
namespace {

using Struct = std::map<std::string_view, std::string_view>;  // field -> type of its value
constexpr std::string_view kList = "[]", kMap = "map[string]";

const std::map<std::string_view, Struct>& structs() {
  static const auto all = [] {
    std::map<std::string_view, Struct> out;
    for (const auto& row : field_rows()) out[row.type].emplace(row.field, row.of);
    return out;
  }();
  return all;
}

/// The Go name of the type: "[]v1.Container".
std::string go_type(std::string_view of) {
  if (of.starts_with(kList)) return "[]" + go_type(of.substr(kList.size()));
  if (of.starts_with(kMap)) return "map[string]" + go_type(of.substr(kMap.size()));
  return (structs().contains(of) ? "v1." : "") + std::string(of);
}

std::string found_in(const Json& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_bool()) return "bool";
  return value.is_string() ? "string" : "number " + value.dump();
}

class Decoder {
 public:
  Decoded result;

  void read_struct(const Struct& fields, std::string_view type, const std::string& path, Json& object) {
    auto& members = object.members_mut();
    std::map<std::string_view, std::size_t> last;  // of each known field
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (const auto known = fields.find(members[i].first); known != fields.end()) last[known->first] = i;
    }
    std::set<std::string_view> seen;
    std::vector<Json::Member> kept;
    for (std::size_t i = 0; i < members.size(); ++i) {
      auto& [name, value] = members[i];
      const auto at = path.empty() ? name : path + "." + name;
      const auto known = fields.find(name);
      if (known == fields.end()) {
        result.strict.push_back(fmt::format("unknown field \"{}\"", at));
        continue;
      }
      if (!seen.insert(known->first).second) result.strict.push_back(fmt::format("duplicate field \"{}\"", at));
      if (last[known->first] != i || value.is_null()) continue;
      read(known->second, type, at, value);
      kept.push_back(std::move(members[i]));
    }
    members = std::move(kept);
  }

 private:
  /// `type` has the field. Its path has no list positions where Go omits them.
  void read(std::string_view of, std::string_view type, const std::string& path, Json& value) {
    if (of == "any" || value.is_null()) return;
    if (of.starts_with(kList)) {
      if (!value.is_array()) return wrong(of, type, path, value);
      std::size_t i = 0;
      for (auto& item : value.items_mut()) read(of.substr(kList.size()), type, fmt::format("{}[{}]", path, i++), item);
      return;
    }
    if (of.starts_with(kMap)) {
      if (!value.is_object()) return wrong(of, type, path, value);
      for (auto& [key, item] : value.members_mut()) read(of.substr(kMap.size()), type, path, item);
      return;
    }
    if (const auto found = structs().find(of); found != structs().end()) {
      if (!value.is_object()) return wrong(of, type, path, value);
      return read_struct(found->second, of, path, value);
    }
    if (of == "Quantity") return read_quantity(value);
    if (!is(of, value)) wrong(of, type, path, value);
  }

  static bool is(std::string_view of, const Json& value) {
    if (of == "string") return value.is_string();
    if (of == "bool") return value.is_bool();
    if (of == "float64") return value.is_number();
    if (of == "IntOrString") return value.is_string() || value.is_int();
    if (!value.is_int()) return false;
    const auto number = value.integer();
    return of == "int64" ||
           (number >= std::numeric_limits<std::int32_t>::min() && number <= std::numeric_limits<std::int32_t>::max());
  }

  void read_quantity(const Json& value) {
    const bool fits = value.is_string() || value.is_number();
    if (fits && Quantity::parse(value.is_string() ? value.string() : value.dump())) return;
    add_cause("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
  }

  void wrong(std::string_view of, std::string_view type, const std::string& path, const Json& value) {
    std::string plain;
    bool inside = false;
    for (const char c : path) {
      inside = (inside || c == '[') && c != ']';
      if (!inside && c != ']') plain += c;
    }
    add_cause(fmt::format("json: cannot unmarshal {} into Go struct field {}.{} of type {}", found_in(value), type,
                          plain, go_type(of.starts_with(kMap) && value.is_object() ? of.substr(kMap.size()) : of)));
  }

  void add_cause(std::string text) {
    if (result.mistake.empty()) result.mistake = std::move(text);
  }
};

}  // namespace

const std::vector<FieldRow>& field_rows() {
  static const auto all = [] {
    std::vector<FieldRow> out;
    std::string_view rest = kFieldsCsv;
    while (!rest.empty()) {
      const auto end = rest.find('\n');
      const auto line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      const auto first = line.find(','), second = line.rfind(',');
      if (first == second || line.starts_with("type,")) continue;
      out.push_back({line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1)});
    }
    return out;
  }();
  return all;
}

Decoded decode(std::string_view kind, Json& object) {
  Decoder decoder;
  const auto found = structs().find(kind);
  if (found != structs().end() && object.is_object()) decoder.read_struct(found->second, kind, "", object);
  return std::move(decoder.result);
}

}  // namespace qm::apiserver
