#include "qm/base/json.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace qm {
namespace {

constexpr int kMaxDepth = 64;
std::atomic<std::uint64_t> bytes_parsed{0};
const Json kNull;
const std::string kEmptyString;
const Json::Array kEmptyArray;
const Json::Object kEmptyObject;

/// False if the nesting is too deep.
bool convert(simdjson::dom::element element, int depth, Json& out) {
  using simdjson::dom::element_type;
  if (depth > kMaxDepth) return false;
  switch (element.type()) {
    case element_type::OBJECT: {
      const simdjson::dom::object object = element;
      auto& members = out.members_mut();
      members.reserve(object.size());
      for (const auto field : object) {
        auto& member = members.emplace_back(field.key, Json());
        if (!convert(field.value, depth + 1, member.second)) return false;
      }
      return true;
    }
    case element_type::ARRAY: {
      const simdjson::dom::array array = element;
      auto& items = out.items_mut();
      items.reserve(array.size());
      for (const auto item : array) {
        if (!convert(item, depth + 1, items.emplace_back())) return false;
      }
      return true;
    }
    case element_type::STRING:
      out = Json(std::string_view(element));
      break;
    case element_type::INT64:
      out = Json(static_cast<std::int64_t>(element));
      break;
    case element_type::UINT64:
      out = Json(static_cast<double>(static_cast<std::uint64_t>(element)));
      break;
    case element_type::DOUBLE:
      out = Json(static_cast<double>(element));
      break;
    case element_type::BOOL:
      out = Json(static_cast<bool>(element));
      break;
    case element_type::NULL_VALUE:
      break;
  }
  return true;
}

/// The length of the text's prefix that is written unchanged: ASCII that needs no escape.
std::size_t plain_length(std::string_view text) {
  const auto plain = [](unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; };
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), plain) - text.begin());
}

void append_number(std::string& out, double v) {
  if (!std::isfinite(v)) {
    out += "null";  // JSON has no literal for it
  } else {
    out += fmt::format("{}", v);
  }
}

void append_pretty(std::string& out, const Json& value, int indent) {
  const auto newline = [&](int n) { out.append("\n").append(static_cast<std::size_t>(n) * 2, ' '); };
  if (value.is_object() && value.size() > 0) {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : value.members()) {
      if (!first) out += ',';
      first = false;
      newline(indent + 1);
      append_json_string(out, key);
      out += ": ";
      append_pretty(out, member, indent + 1);
    }
    newline(indent);
    out += '}';
  } else if (value.is_array() && value.size() > 0) {
    out += '[';
    bool first = true;
    for (const auto& item : value.items()) {
      if (!first) out += ',';
      first = false;
      newline(indent + 1);
      append_pretty(out, item, indent + 1);
    }
    newline(indent);
    out += ']';
  } else {
    value.append_to(out);
  }
}

// Length of the valid UTF-8 sequence at `at`, or 0.
std::size_t utf8_length(std::string_view s, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char c = byte(at);
  const std::size_t n = c < 0x80                ? 1
                        : c >= 0xc2 && c < 0xe0 ? 2
                        : c >= 0xe0 && c < 0xf0 ? 3
                        : c >= 0xf0 && c < 0xf5 ? 4
                                                : 0;
  if (n == 0 || at + n > s.size()) return 0;
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  if (n == 3 && ((c == 0xe0 && byte(at + 1) < 0xa0) || (c == 0xed && byte(at + 1) >= 0xa0))) return 0;
  if (n == 4 && ((c == 0xf0 && byte(at + 1) < 0x90) || (c == 0xf4 && byte(at + 1) >= 0x90))) return 0;
  return n;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto plain = plain_length(text.substr(i));
    out.append(text, i, plain);
    i += plain;
    if (i == text.size()) break;
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
      ++i;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      switch (c) {
        case '\n':
          out += "\\n";
          break;
        case '\t':
          out += "\\t";
          break;
        case '\r':
          out += "\\r";
          break;
        default:
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      }
      ++i;
    } else if (const std::size_t n = utf8_length(text, i); n > 0) {
      out.append(text, i, n);
      i += n;
    } else {
      out += "\xef\xbf\xbd";
      ++i;
    }
  }
  out += '"';
}

Result<Json> Json::parse(std::string_view text) {
  bytes_parsed.fetch_add(text.size(), std::memory_order_relaxed);
  thread_local simdjson::dom::parser parser(64u << 20);
  const simdjson::padded_string padded(text);
  simdjson::dom::element root;
  if (const auto error = parser.parse(padded).get(root); error != simdjson::SUCCESS) {
    return fail(Error{Code::kInvalid, fmt::format("no valid JSON: {}", simdjson::error_message(error)), {}, {}});
  }
  Json out;
  if (!convert(root, 1, out)) return fail(Code::kInvalid, "JSON is nested deeper than {} levels", kMaxDepth);
  return out;
}

std::uint64_t Json::parsed_bytes() { return bytes_parsed.load(std::memory_order_relaxed); }

std::string Json::dump() const {
  std::string out;
  append_to(out);
  return out;
}

std::string Json::pretty() const {
  std::string out;
  append_pretty(out, *this, 0);
  return out;
}

void Json::append_to(std::string& out) const {
  struct Writer {
    std::string& out;
    void operator()(std::monostate) const { out += "null"; }
    void operator()(bool v) const { out += v ? "true" : "false"; }
    void operator()(std::int64_t v) const { out += fmt::format("{}", v); }
    void operator()(double v) const { append_number(out, v); }
    void operator()(const std::string& v) const { append_json_string(out, v); }
    void operator()(const Array& v) const {
      out += '[';
      for (std::size_t i = 0; i < v.size(); ++i) {
        if (i > 0) out += ',';
        v[i].append_to(out);
      }
      out += ']';
    }
    void operator()(const Object& v) const {
      out += '{';
      for (std::size_t i = 0; i < v.size(); ++i) {
        if (i > 0) out += ',';
        append_json_string(out, v[i].first);
        out += ':';
        v[i].second.append_to(out);
      }
      out += '}';
    }
  };
  std::visit(Writer{out}, value_);
}

bool Json::boolean(bool fallback) const { return is_bool() ? std::get<bool>(value_) : fallback; }

std::int64_t Json::integer(std::int64_t fallback) const {
  if (is_int()) return std::get<std::int64_t>(value_);
  if (const auto* d = std::get_if<double>(&value_); d != nullptr && std::abs(*d) < 9.2e18) {
    return static_cast<std::int64_t>(*d);
  }
  return fallback;
}

double Json::number(double fallback) const {
  if (is_int()) return static_cast<double>(std::get<std::int64_t>(value_));
  const auto* d = std::get_if<double>(&value_);
  return d != nullptr ? *d : fallback;
}

const std::string& Json::string() const { return is_string() ? std::get<std::string>(value_) : kEmptyString; }
std::string Json::string_or(std::string_view fallback) const { return is_string() ? string() : std::string(fallback); }
const Json::Array& Json::items() const { return is_array() ? std::get<Array>(value_) : kEmptyArray; }
const Json::Object& Json::members() const { return is_object() ? std::get<Object>(value_) : kEmptyObject; }

Json::Array& Json::items_mut() {
  if (!is_array()) value_ = Array{};
  return std::get<Array>(value_);
}

Json::Object& Json::members_mut() {
  if (!is_object()) value_ = Object{};
  return std::get<Object>(value_);
}

std::size_t Json::size() const { return is_array() ? items().size() : members().size(); }

const Json* Json::find(std::string_view key) const {
  for (const auto& member : members()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json* Json::find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

const Json& Json::operator[](std::string_view key) const {
  const Json* found = find(key);
  return found != nullptr ? *found : kNull;
}

const Json& Json::at(std::size_t index) const { return index < items().size() ? items()[index] : kNull; }

Json& Json::set(std::string_view key) {
  auto& list = members_mut();
  for (auto& member : list) {
    if (member.first == key) return member.second;
  }
  return list.emplace_back(std::string(key), Json()).second;
}

Json& Json::set(std::string_view key, Json value) {
  set(key) = std::move(value);
  return *this;
}

bool Json::erase(std::string_view key) {
  if (!is_object()) return false;
  return std::erase_if(std::get<Object>(value_), [&](const Member& m) { return m.first == key; }) > 0;
}

void Json::push_back(Json value) { items_mut().push_back(std::move(value)); }

const Json& Json::path(std::string_view dotted) const {
  const Json* at = this;
  while (!dotted.empty()) {
    const auto dot = dotted.find('.');
    at = at->find(dotted.substr(0, dot));
    if (at == nullptr) return kNull;
    dotted = dot == std::string_view::npos ? std::string_view{} : dotted.substr(dot + 1);
  }
  return *at;
}

void Json::merge_patch(const Json& patch) {
  if (!patch.is_object()) {
    *this = patch;
    return;
  }
  if (!is_object()) value_ = Object{};
  for (const auto& [key, value] : patch.members()) {
    if (value.is_null()) {
      erase(key);
    } else {
      set(key).merge_patch(value);
    }
  }
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.members()) {
      const Json* other = b.find(key);
      if (other == nullptr || !(*other == value)) return false;
    }
    return true;
  }
  if (a.is_number() && b.is_number() && a.is_int() != b.is_int()) return a.number() == b.number();
  return a.value_ == b.value_;
}

}  // namespace qm
