#include "fields.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qm::config {
namespace {

std::string_view type_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return "a boolean";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "text";
  return value.is_array() ? "a list" : "an object";
}

void wrong_type(const Cursor& at, std::string_view wanted, std::string remedy) {
  at.error(fmt::format("is {}, not {}", type_of(*at.value), wanted), std::move(remedy));
}

/// Returns a number with its original text, for values that are exact decimals.
std::string as_text(const Json& value) {
  return value.is_int() ? std::to_string(value.integer()) : fmt::format("{}", value.number());
}

}  // namespace

void Scope::report(Diagnostic::Severity severity, const std::string& path, std::string message, std::string remedy) {
  // A field without a line of its own has the line of its parent.
  std::string at = path;
  int line = document_.line;
  for (;;) {
    if (const auto found = document_.lines.find(at); found != document_.lines.end()) {
      line = found->second;
      break;
    }
    const auto cut = at.find_last_of(".[");
    if (cut == std::string::npos) break;
    at.resize(cut);
  }
  diagnostics_.push_back({severity, document_.file, line, path, std::move(message), std::move(remedy)});
}

void Scope::unknown(const std::string& path, std::string message, std::string remedy) {
  report(Diagnostic::Severity::kWarning, path, std::move(message), std::move(remedy));
  diagnostics_.back().unknown_field = true;
}

void Scope::error(const std::string& path, std::string message, std::string remedy) {
  failed_ = true;
  report(Diagnostic::Severity::kError, path, std::move(message), std::move(remedy));
}

void Scope::warn(const std::string& path, std::string message, std::string remedy) {
  report(Diagnostic::Severity::kWarning, path, std::move(message), std::move(remedy));
}

Cursor Cursor::member(std::string_view name) const {
  return {scope, path.empty() ? std::string(name) : fmt::format("{}.{}", path, name), &(*value)[name]};
}

Cursor Cursor::item(std::size_t index) const { return {scope, fmt::format("{}[{}]", path, index), &value->at(index)}; }

bool read_text(const Cursor& at, std::string& out) {
  if (!at.value->is_string()) {
    wrong_type(at, "text",
               at.value->is_array() || at.value->is_object() ? "write one value" : "put the value in quotes");
    return false;
  }
  if (at.value->string().empty()) {
    at.error("must not be empty", "set a value, or remove the field");
    return false;
  }
  out = at.value->string();
  return true;
}

bool read_integer(const Cursor& at, std::int64_t& out, std::int64_t least, std::int64_t most) {
  const std::string remedy = fmt::format("write a whole number from {} to {}", least, most);
  if (!at.value->is_int()) {
    constexpr double kBeyond = 9.2e18;  // a number with more digits is not a 64-bit integer
    if (!at.value->is_number()) {
      wrong_type(at, "a whole number", remedy + (Quantity::parse(at.value->string()) ? ", without quotes" : ""));
    } else if (std::abs(at.value->number()) > kBeyond) {
      at.error(fmt::format("{} is out of range", at.value->number()), remedy);
    } else {
      at.error(fmt::format("{} has a fraction", at.value->number()), remedy);
    }
    return false;
  }
  if (at.value->integer() < least || at.value->integer() > most) {
    at.error(fmt::format("{} is out of range", at.value->integer()), remedy);
    return false;
  }
  out = at.value->integer();
  return true;
}

bool read_boolean(const Cursor& at, bool& out) {
  if (!at.value->is_bool()) {
    wrong_type(at, "a boolean", "write true or false, without quotes");
    return false;
  }
  out = at.value->boolean();
  return true;
}

bool read_quantity(const Cursor& at, Quantity& out) {
  if (!at.value->is_string() && !at.value->is_number()) {
    wrong_type(at, "a quantity", "write a number with an optional suffix such as 100m, 1.5, 8Gi or 1e3");
    return false;
  }
  auto parsed = Quantity::parse(at.value->is_string() ? at.value->string() : as_text(*at.value));
  if (!parsed) {
    at.error(parsed.error().message, parsed.error().remedy);
    return false;
  }
  if (parsed->negative()) {
    at.error(fmt::format("{} is negative", parsed->to_string()), "use 0 or more");
    return false;
  }
  out = *parsed;
  return true;
}

bool read_money(const Cursor& at, Money& out) {
  if (!at.value->is_string() && !at.value->is_number()) {
    wrong_type(at, "an amount in dollars", "write a decimal number such as \"98.32\"");
    return false;
  }
  auto parsed = Money::parse_usd(at.value->is_string() ? at.value->string() : as_text(*at.value));
  if (!parsed) {
    at.error(parsed.error().message, parsed.error().remedy);
    return false;
  }
  if (*parsed < Money()) {
    at.error(fmt::format("{} is negative", parsed->to_usd(2)), "use 0 or more");
    return false;
  }
  out = *parsed;
  return true;
}

bool read_duration(const Cursor& at, Duration& out, bool never) {
  std::string text;
  if (!read_text(at, text)) return false;
  if (never && text == "Never") {
    out = Duration::max();
    return true;
  }
  auto parsed = parse_duration(text);
  if (!parsed || *parsed < Duration::zero()) {
    at.error(parsed ? fmt::format("\"{}\" is negative", text) : parsed.error().message,
             never ? "write a duration such as 30m or 720h, or Never" : "write a duration such as 30s, 15m or 1h30m");
    return false;
  }
  out = *parsed;
  return true;
}

void read_labels(const Cursor& at, Labels& out) {
  if (!is_object(at)) return;
  for (const auto& [key, value] : at.value->members()) {
    if (value.is_string()) {
      out[key] = value.string();
    } else {
      wrong_type(at.member(key), "text", "put the value in quotes");
    }
  }
}

void read_texts(const Cursor& at, std::vector<std::string>& out) {
  each_item(at, [&](const Cursor& item) {
    std::string text;
    if (read_text(item, text)) out.push_back(std::move(text));
  });
}

void read_quantities(const Cursor& at, std::map<std::string, Quantity>& out) {
  if (!is_object(at)) return;
  for (const auto& member : at.value->members()) {
    Quantity quantity;
    if (read_quantity(at.member(member.first), quantity)) out[member.first] = quantity;
  }
}

void check_name(const Cursor& at, std::string_view name, NameRule rule) {
  if (at.scope->origin() == Origin::kStore) return;
  if (auto fault = name_fault(rule, name)) at.error(std::move(fault->message), std::move(fault->remedy));
}

void check_labels(const Cursor& at) {
  if (!is_object(at)) return;
  for (const auto& [key, value] : at.value->members()) {
    const Cursor label = at.member(key);
    check_name(label, key, NameRule::kLabelKey);
    if (value.is_string()) {
      check_name(label, value.string(), NameRule::kLabelValue);
    } else if (!value.is_null()) {
      wrong_type(label, "text", "put the value in quotes");
    }
  }
}

void check_annotations(const Cursor& at) {
  if (!is_object(at)) return;
  for (const auto& [key, value] : at.value->members()) {
    const Cursor annotation = at.member(key);
    check_name(annotation, key, NameRule::kLabelKey);
    if (!value.is_string() && !value.is_null()) wrong_type(annotation, "text", "put the value in quotes");
  }
}

void check_amount(const Cursor& at, std::string_view resource, const Quantity& amount) {
  if (at.scope->origin() == Origin::kStore) return;
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const bool in_milli = resource == "cpu" || resource == words::kGpuResource;
  const auto most = in_milli ? Quantity::of_milli(kMost) : Quantity::of(kMost);
  if (amount <= most) return;
  at.error(fmt::format("{} of {} is out of range", amount.to_string(), resource),
           fmt::format("use at most {}", Quantity::of(most.units() - 1).to_string()));
}

void each_item(const Cursor& at, const std::function<void(const Cursor&)>& fn) {
  if (!at.value->is_array())
    return wrong_type(at, "a list", "write a list: one line that starts with \"- \" for each item");
  for (std::size_t i = 0; i < at.value->size(); ++i) fn(at.item(i));
}

bool is_object(const Cursor& at) {
  if (at.value->is_object()) return true;
  wrong_type(at, "an object", "write its fields on the lines below, indented");
  return false;
}

void unknown_field(const Cursor& at, const std::vector<std::string_view>& known) {
  const auto cut = at.path.rfind('.');
  const std::string_view name =
      cut == std::string::npos ? std::string_view(at.path) : std::string_view(at.path).substr(cut + 1);
  const auto meant = nearest(name, known);
  at.scope->unknown(at.path, "unknown field, it has no effect",
                    meant.empty() ? "remove it" : fmt::format("did you mean {}?", meant));
}

const Table<Taint>& taint_table() {
  static const Table<Taint> table{
      required(text("key", &Taint::key)), or_empty(text("value", &Taint::value)),
      required(one_of("effect", &Taint::effect, {"NoSchedule", "PreferNoSchedule", "NoExecute"})),
      kept<Taint>("timeAdded")};
  return table;
}

const Table<Toleration>& toleration_table() {
  static const Table<Toleration> table{
      or_empty(text("key", &Toleration::key)), or_empty(one_of("operator", &Toleration::op, {"Exists", "Equal"})),
      or_empty(text("value", &Toleration::value)),
      or_empty(one_of("effect", &Toleration::effect, {"NoSchedule", "PreferNoSchedule", "NoExecute"})),
      kept<Toleration>("tolerationSeconds")};
  return table;
}

Result<Duration> parse_duration(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return fail(Error{Code::kInvalid,
                      fmt::format("\"{}\" is not a duration: {}", text.substr(0, 40), why),
                      {},
                      "write a duration such as 30s, 15m or 1h30m"});
  };
  struct Unit {
    std::string_view name;
    std::int64_t nanos;
  };
  static constexpr Unit kUnits[] = {{"ns", 1},
                                    {"us", 1'000},
                                    {"µs", 1'000},
                                    {"ms", 1'000'000},
                                    {"s", 1'000'000'000},
                                    {"m", 60'000'000'000},
                                    {"h", 3'600'000'000'000}};
  std::string_view rest = text;
  const bool minus = rest.starts_with('-');
  if (minus || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest == "0") return Duration::zero();
  if (rest.empty()) return refuse("it is empty");
  __extension__ typedef __int128 Wide;
  Wide total = 0;
  while (!rest.empty()) {
    const auto digits = [&](std::string_view from) {
      return std::min(from.find_first_not_of("0123456789"), from.size());
    };
    const std::size_t whole = digits(rest);
    const bool point = whole < rest.size() && rest[whole] == '.';
    const std::size_t part = point ? digits(rest.substr(whole + 1)) : 0;
    if (whole + part == 0) return refuse("a number is missing");
    if (whole > 18 || part > 18) return refuse("it has too many digits");
    std::int64_t units = 0;
    for (const char c : rest.substr(0, whole)) units = units * 10 + (c - '0');
    std::int64_t fraction = 0;
    std::int64_t scale = 1;
    for (const char c : rest.substr(whole + (point ? 1 : 0), part)) {
      fraction = fraction * 10 + (c - '0');
      scale *= 10;
    }
    rest.remove_prefix(whole + (point ? 1 : 0) + part);
    const std::string_view name = rest.substr(0, std::min(rest.find_first_of("0123456789."), rest.size()));
    const auto unit = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& u) { return u.name == name; });
    if (unit == std::end(kUnits))
      return refuse(name.empty() ? "a unit is missing" : "its unit is not one of ns, us, ms, s, m, h");
    rest.remove_prefix(name.size());
    total += Wide(units) * unit->nanos + Wide(fraction) * unit->nanos / scale;
  }
  total /= 1000;
  if (total > std::numeric_limits<std::int64_t>::max()) return refuse("it is too long");
  return Duration(static_cast<std::int64_t>(minus ? -total : total));
}

}  // namespace qm::config
