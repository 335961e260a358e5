#pragma once
#include "qm/base/result.hpp"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace qm {

/// A JSON document as a value: parsed by simdjson, modified in place, serialized by a small writer.
///
/// Objects keep their keys in insertion order, so a parsed document is written back in the same order. Integers that
/// fit int64 stay integers. Reading a missing key or a wrong type never throws: it returns the null value, an empty
/// string or the fallback, so a chain such as `pod["status"]["phase"].string()` is safe on any document.
///
/// Units    none. Threads: any, as a value. Fails: parse gives kInvalid with the offset; depth is bound to 64.
/// Cost     member lookup is linear in the object's size (Kubernetes objects are narrow).
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(static_cast<std::int64_t>(v)) {}
  Json(std::int64_t v) : value_(v) {}
  Json(std::uint64_t v) : value_(static_cast<std::int64_t>(v)) {}
  Json(double v) : value_(v) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}

  /// `Json::object({{"kind", "Pod"}, {"spec", Json::object({...})}})`
  static Json object(std::initializer_list<Member> members = {}) { return Json(Object(members)); }
  static Json array(std::initializer_list<Json> items = {}) { return Json(Array(items)); }

  [[nodiscard]] static Result<Json> parse(std::string_view text);
  /// Bytes of all texts that parse() was called with in this process; any thread.
  [[nodiscard]] static std::uint64_t parsed_bytes();
  [[nodiscard]] std::string dump() const;    ///< compact
  [[nodiscard]] std::string pretty() const;  ///< two-space indent
  void append_to(std::string& out) const;    ///< compact, appended

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(value_); }
  [[nodiscard]] bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  [[nodiscard]] bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(value_); }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(value_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(value_); }

  [[nodiscard]] bool boolean(bool fallback = false) const;
  [[nodiscard]] std::int64_t integer(std::int64_t fallback = 0) const;  ///< numbers only; a double is truncated
  [[nodiscard]] double number(double fallback = 0) const;
  [[nodiscard]] const std::string& string() const;  ///< empty if the value is not a string
  [[nodiscard]] std::string string_or(std::string_view fallback) const;
  [[nodiscard]] const Array& items() const;     ///< empty if the value is not an array
  [[nodiscard]] const Object& members() const;  ///< empty if the value is not an object
  [[nodiscard]] Array& items_mut();             ///< becomes an array if it is null
  [[nodiscard]] Object& members_mut();          ///< becomes an object if it is null
  [[nodiscard]] std::size_t size() const;       ///< of an array or object, else 0

  [[nodiscard]] const Json& operator[](std::string_view key) const;  ///< null where absent
  [[nodiscard]] const Json& at(std::size_t index) const;             ///< null where absent
  [[nodiscard]] const Json* find(std::string_view key) const;
  [[nodiscard]] Json* find(std::string_view key);
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Returns the member, created as null if it was absent; a null value becomes an object.
  Json& set(std::string_view key);
  Json& set(std::string_view key, Json value);  ///< returns *this, for chains
  bool erase(std::string_view key);
  void push_back(Json value);
  /// Reads "metadata.labels" style paths (no escapes); null where any step is missing.
  [[nodiscard]] const Json& path(std::string_view dotted) const;
  /// RFC 7386 merge patch: objects merge, null deletes, everything else replaces.
  void merge_patch(const Json& patch);

  friend bool operator==(const Json& a, const Json& b);  ///< object order does not matter

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

/// Appends text as a JSON string literal, quotes included. Invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace qm
