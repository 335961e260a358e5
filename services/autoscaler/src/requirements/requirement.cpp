// Karpenter's requirement algebra. A requirement is a set of values or its complement, cut by a range of numbers; only a
// complement keeps its range, because listed values outside of it are dropped at once.
#include "qm/autoscaler/requirements/requirement.hpp"

#include "qm/autoscaler/requirements/keys.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/parse.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

namespace qm::autoscaler {
namespace {

constexpr std::array<std::string_view, 8> kNames{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"};
constexpr std::int32_t kMostMinValues = 50;
constexpr std::size_t kShownValues = 5;
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

bool within(const std::string& value, const std::optional<std::int64_t>& gte, const std::optional<std::int64_t>& lte) {
  if (!gte && !lte) return true;
  const auto number = whole_number(value);
  return number && *number >= gte.value_or(*number) && *number <= lte.value_or(*number);
}

bool is_bound(Operator op) { return op >= Operator::kGt; }

void sort_distinct(std::vector<std::string>& values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

Error invalid(const Expression& e, std::string_view what, std::string remedy) {
  return Error{Code::kInvalid, fmt::format("operator {} on {} {}", name_of(e.op), e.key, what), "values",
               std::move(remedy)};
}

Status check(const Expression& e) {
  const bool bare = e.op == Operator::kExists || e.op == Operator::kDoesNotExist;
  if (bare && !e.values.empty()) return fail(invalid(e, "does not allow values", "remove them, or use In"));
  if (e.op == Operator::kIn && e.values.empty()) return fail(invalid(e, "needs values", "list the allowed ones"));
  if (is_bound(e.op)) {
    const auto bound = e.values.size() == 1 ? whole_number(e.values.front()) : std::nullopt;
    if (!bound || *bound < 0)
      return fail(invalid(e, "needs one whole number from 0", "write it as in values: [\"4\"]"));
  }
  if (!e.min_values) return {};
  auto listed = e.values;
  sort_distinct(listed);
  const bool too_many = e.op == Operator::kIn && static_cast<std::size_t>(std::max(*e.min_values, 0)) > listed.size();
  if (*e.min_values < 1 || *e.min_values > kMostMinValues || too_many) {
    return fail(Error{Code::kInvalid,
                      fmt::format("minValues {} on {} is not in 1..{}, with In at most the number of values",
                                  *e.min_values, e.key, kMostMinValues),
                      "minValues", "lower it, or list more values"});
  }
  return {};
}

/// The lower or upper end of a bound, inclusive; none if it is beyond all numbers.
std::optional<std::int64_t> end_of(Operator op, std::int64_t number) {
  if (op == Operator::kGt) return number == kLargest ? std::nullopt : std::optional(number + 1);
  if (op == Operator::kLt) return number == 0 ? std::nullopt : std::optional(number - 1);
  return number;
}

std::vector<std::string> combined(const Requirement& a, const Requirement& b) {
  std::vector<std::string> out;
  const auto into = std::back_inserter(out);
  if (a.complement && b.complement) {
    std::ranges::set_union(a.values, b.values, into);
  } else if (a.complement) {
    std::ranges::set_difference(b.values, a.values, into);
  } else if (b.complement) {
    std::ranges::set_difference(a.values, b.values, into);
  } else {
    std::ranges::set_intersection(a.values, b.values, into);
  }
  return out;
}

template <class Number, class Choose>
std::optional<Number> stricter(const std::optional<Number>& a, const std::optional<Number>& b, Choose choose) {
  if (!a || !b) return a ? a : b;
  return choose(*a, *b);
}

/// Whether every whole number of the range is excluded. Upstream calls such a requirement satisfiable, and then fails to
/// draw a value.
bool is_exhausted(const Requirement& r) {
  if (!r.complement || !r.lte) return false;
  const std::int64_t first = r.gte.value_or(0);
  if (*r.lte - first >= static_cast<std::int64_t>(r.values.size())) return false;
  for (std::int64_t number = first; number <= *r.lte; ++number) {
    if (!std::ranges::binary_search(r.values, std::to_string(number))) return false;
  }
  return true;
}

constexpr auto kMax = [](auto a, auto b) { return std::max(a, b); };
constexpr auto kMin = [](auto a, auto b) { return std::min(a, b); };

std::string words_of(const Expression& e) {
  if (e.values.empty()) return fmt::format("{} {}", e.key, name_of(e.op));
  const auto shown = std::min(e.values.size(), kShownValues);
  const auto end = e.values.begin() + static_cast<std::ptrdiff_t>(shown);
  const std::string others = e.values.size() > shown ? fmt::format(" and {} others", e.values.size() - shown) : "";
  return fmt::format("{} {} {}{}", e.key, name_of(e.op), fmt::join(e.values.begin(), end, ", "), others);
}

}  // namespace

std::string_view name_of(Operator op) { return kNames.at(static_cast<std::size_t>(op)); }

std::optional<Operator> operator_of(std::string_view name) {
  const auto* at = std::ranges::find(kNames, name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<Operator>(at - kNames.begin());
}

bool Requirement::has(const std::string& value) const {
  return std::ranges::binary_search(values, value) != complement && within(value, gte, lte);
}

Operator Requirement::op() const {
  if (complement) return values.empty() ? Operator::kExists : Operator::kNotIn;
  return values.empty() ? Operator::kDoesNotExist : Operator::kIn;
}

bool Requirement::allows_absence() const { return op() == Operator::kNotIn || op() == Operator::kDoesNotExist; }

Result<Requirement> requirement_of(const Expression& e) {
  QM_TRY(check(e));
  Requirement out;
  out.key = normalized_key(e.key);
  out.min_values = e.min_values;
  if (is_bound(e.op)) {
    const auto end = end_of(e.op, *whole_number(e.values.front()));
    const bool lower = e.op == Operator::kGt || e.op == Operator::kGte;
    (lower ? out.gte : out.lte) = end;
    out.complement = end.has_value();
    return out;
  }
  out.complement = e.op == Operator::kNotIn || e.op == Operator::kExists;
  out.values = e.values;
  sort_distinct(out.values);
  return out;
}

Requirement exactly(const std::string& key, const std::string& value) {
  return {normalized_key(key), false, {value}, {}, {}, {}};
}

Requirement absent(const std::string& key) { return {normalized_key(key), false, {}, {}, {}, {}}; }

Requirement intersection(const Requirement& a, const Requirement& b) {
  QM_ASSERT(a.key == b.key, "requirements on {} and {} are intersected", a.key, b.key);
  Requirement out;
  out.key = a.key;
  out.complement = a.complement && b.complement;
  out.gte = stricter(a.gte, b.gte, kMax);
  out.lte = stricter(a.lte, b.lte, kMin);
  out.min_values = stricter(a.min_values, b.min_values, kMax);
  if (out.gte && out.lte && *out.gte > *out.lte) {
    out.complement = false;
  } else {
    out.values = combined(a, b);
    std::erase_if(out.values, [&](const auto& value) { return !within(value, out.gte, out.lte); });
  }
  if (is_exhausted(out)) {
    out.complement = false;
    out.values.clear();
  }
  if (!out.complement) out.gte = out.lte = std::nullopt;
  return out;
}

bool intersects(const Requirement& a, const Requirement& b) {
  const Requirement both = intersection(a, b);
  return both.op() != Operator::kDoesNotExist || (a.allows_absence() && b.allows_absence());
}

std::optional<std::string> lowest(const Requirement& r) {
  if (!r.complement) return r.values.empty() ? std::nullopt : std::optional(r.values.front());
  // At most one more than the number of excluded values.
  for (std::int64_t number = r.gte.value_or(0);; ++number) {
    auto text = std::to_string(number);
    if (!std::ranges::binary_search(r.values, text)) return text;
    if (number == r.lte.value_or(kLargest)) return std::nullopt;
  }
}

std::vector<Expression> expressions(const Requirement& r) {
  std::vector<Expression> out;
  if (r.gte) out.push_back({r.key, Operator::kGte, {std::to_string(*r.gte)}, r.min_values});
  if (r.lte) out.push_back({r.key, Operator::kLte, {std::to_string(*r.lte)}, r.min_values});
  if (out.empty() || !r.values.empty()) out.push_back({r.key, r.op(), r.values, r.min_values});
  return out;
}

std::string words_of(const Requirement& r) {
  std::vector<std::string> parts;
  for (const auto& expression : expressions(r)) parts.push_back(words_of(expression));
  return fmt::format("{}", fmt::join(parts, " and "));
}

Requirements::Requirements(const Labels& labels) {
  for (const auto& [key, value] : labels) add(exactly(key, value));
}

void Requirements::add(const Requirement& requirement) {
  const auto [at, first] = by_key_.try_emplace(requirement.key, requirement);
  if (!first) at->second = intersection(at->second, requirement);
}

void Requirements::add(const Requirements& others) {
  for (const auto& [key, requirement] : others.by_key_) add(requirement);
}

const Requirement* Requirements::find(const std::string& key) const {
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : &at->second;
}

std::optional<std::string> Requirements::conflict(const Requirements& pod, Undefined undefined) const {
  for (const auto& [key, requirement] : pod.by_key_) {
    const Requirement* own = find(key);
    const bool any = undefined == Undefined::kWellKnownIsAny && is_well_known(key);
    if (own == nullptr ? !any && !requirement.allows_absence() : !intersects(*own, requirement)) return key;
  }
  return std::nullopt;
}

std::optional<std::string> Requirements::disjoint_key(const Requirements& others) const {
  for (const auto& [key, requirement] : others.by_key_) {
    const Requirement* own = find(key);
    if (own != nullptr && !intersects(*own, requirement)) return key;
  }
  return std::nullopt;
}

bool holds(const Expression& expression, const std::string* value) {
  const auto listed = [&] {
    return value != nullptr && std::ranges::find(expression.values, *value) != expression.values.end();
  };
  switch (expression.op) {
    case Operator::kIn:
      return listed();
    case Operator::kNotIn:
      return !listed();
    case Operator::kExists:
      return value != nullptr;
    case Operator::kDoesNotExist:
      return value == nullptr;
    default:
      break;
  }
  if (value == nullptr || expression.values.size() != 1) return false;
  const auto have = whole_number(*value), bound = whole_number(expression.values.front());
  if (!have || !bound) return false;
  switch (expression.op) {
    case Operator::kGt:
      return *have > *bound;
    case Operator::kLt:
      return *have < *bound;
    case Operator::kGte:
      return *have >= *bound;
    default:
      return *have <= *bound;
  }
}

}  // namespace qm::autoscaler
