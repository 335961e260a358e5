#include "fields.hpp"

#include "qm/base/parse.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace qm::autoscaler::replicas {
namespace {

std::string shown(const Json& value) {
  auto out = value.dump();
  if (out.size() > 80) out = out.substr(0, 80) + "...";
  return out;
}

}  // namespace

Fields::Fields(const Json& of, std::string path, Fault& fault) : of_(of), path_(std::move(path)), fault_(fault) {
  if (!of_.is_null() && !of_.is_object() && !fault_) {
    fault_ = Error{Code::kInvalid, fmt::format("{}: {} must be an object", path_, shown(of_)), path_, {}};
  }
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json& Fields::any(std::string_view name) {
  known_.emplace(name);
  return of_[name];
}

Fields Fields::object(std::string_view name) { return {any(name), path_of(name), fault_}; }

std::optional<std::int32_t> Fields::integer(std::string_view name, std::int32_t least, std::int32_t most) {
  const auto& value = any(name);
  if (value.is_null()) return {};
  if (!value.is_int() || value.integer() < least || value.integer() > most) {
    wrong(name, "is out of range", fmt::format("use a whole number from {} to {}", least, most));
    return {};
  }
  return static_cast<std::int32_t>(value.integer());
}

std::string Fields::text(std::string_view name, bool required) {
  const auto& value = any(name);
  if (value.is_null() ? required : !value.is_string()) wrong(name, "must be a text");
  return value.string();
}

std::optional<std::size_t> Fields::word(std::string_view name, std::initializer_list<std::string_view> words) {
  const auto value = text(name, false);
  if (value.empty()) return {};
  const auto at = std::ranges::find(words, value);
  if (at == words.end()) {
    wrong(name, "is not a known word", fmt::format("use one of {}", fmt::join(words, ", ")));
    return {};
  }
  return static_cast<std::size_t>(at - words.begin());
}

std::optional<std::int64_t> Fields::quantity_milli(std::string_view name) {
  const auto& value = any(name);
  if (value.is_null()) return {};
  const auto quantity = Quantity::parse(value.is_string() ? value.string() : value.dump());
  if (!quantity || quantity->milli() <= 0) {
    wrong(name, "must be a quantity above 0", "write it as 500m, 10 or 2Gi");
    return {};
  }
  return quantity->milli();
}

std::int64_t Fields::whole_text(std::string_view name, std::int64_t fallback, std::int64_t least) {
  const auto value = text(name, false);
  if (value.empty()) return fallback;
  const auto number = whole_number(value);
  if (number && *number >= least) return *number;
  wrong(name, "is out of range", fmt::format("use a whole number from {}", least));
  return fallback;
}

std::optional<double> Fields::number_text(std::string_view name) {
  const auto value = text(name, false);
  if (value.empty()) return {};
  const auto number = double_of(value);
  if (!number || !std::isfinite(*number)) wrong(name, "must be a number");
  return number;
}

bool Fields::boolean_text(std::string_view name, bool fallback) {
  const auto value = text(name, false);
  if (value.empty()) return fallback;
  const auto out = boolean_of(value);
  if (!out) wrong(name, "must be true or false");
  return out.value_or(fallback);
}

void Fields::known(std::initializer_list<std::string_view> names) {
  for (const auto name : names) known_.emplace(name);
}

void Fields::wrong(std::string_view name, std::string_view what, std::string remedy) {
  if (fault_) return;
  const auto path = path_of(name);
  const auto& value = of_[name];
  fault_ =
      Error{Code::kInvalid,
            value.is_null() ? fmt::format("{} {}", path, what) : fmt::format("{}: {} {}", path, shown(value), what),
            path, std::move(remedy)};
}

void Fields::end() {
  for (const auto& [name, value] : of_.members()) {
    if (known_.contains(name)) continue;
    wrong(name, "is not a supported field", "remove it, or check its spelling");
    return;
  }
}

std::optional<bool> boolean_of(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  return {};
}

std::optional<double> double_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (end != text.data() + text.size() || text.empty()) return {};
  if (error == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  return error == std::errc() ? std::optional(out) : std::nullopt;
}

}  // namespace qm::autoscaler::replicas
