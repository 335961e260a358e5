// Operators and functions of formulas.
#include "arithmetic.hpp"
#include "formula_nodes.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

namespace qm::autoscaler::replicas::formula {
namespace {

using Arguments = std::span<const Value>;
constexpr std::size_t kAny = kMostElements;

tl::unexpected<Error> no_meaning(std::string_view function, const Value& value) {
  return fail(Code::kInvalid, "{} has no meaning for a value of type {}", function, type_of(value));
}

/// The numbers of the arguments, with those of lists in lists.
Status collect(std::string_view function, Arguments arguments, std::vector<const Value*>& out) {
  for (const Value& value : arguments) {
    if (value.list() != nullptr) {
      QM_TRY(collect(function, *value.list(), out));
    } else if (value.is_number()) {
      out.push_back(&value);
    } else {
      return no_meaning(function, value);
    }
  }
  return {};
}

bool less(const Value& a, const Value& b) {
  if (a.integer() != nullptr && b.integer() != nullptr) return *a.integer() < *b.integer();
  return a.number() < b.number();
}

Result<Value> extreme(const std::string& function, Arguments arguments) {
  std::vector<const Value*> numbers;
  QM_TRY(collect(function, arguments, numbers));
  const Value* out = nullptr;
  for (const Value* one : numbers) {
    if (out == nullptr || (function == "max" ? less(*out, *one) : less(*one, *out))) out = one;
  }
  return out == nullptr ? Value{} : *out;
}

Result<Value> middle(const std::string& function, Arguments arguments) {
  std::vector<const Value*> numbers;
  QM_TRY(collect(function, arguments, numbers));
  if (numbers.empty()) return Value{0.0};
  std::vector<double> sorted;
  for (const Value* one : numbers) sorted.push_back(one->number());
  if (function == "mean") {
    return Value{std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size())};
  }
  std::ranges::sort(sorted);
  const auto half = sorted.size() / 2;
  return Value{sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2};
}

Result<Value> sum(const List& list) {
  Value out{std::int64_t{0}};
  for (const Value& one : list) {
    if (!one.is_number()) return no_meaning("sum", one);
    QM_ASSIGN(out, binary("+", out, one));
  }
  return out;
}

Result<Value> rounded(const std::string& function, const Value& of) {
  if (!of.is_number()) return no_meaning(function, of);
  const double v = of.number();
  if (function == "abs") {
    if (of.integer() != nullptr) return *of.integer() < 0 ? binary("-", Value{std::int64_t{0}}, of) : of;
    return Value{std::abs(v)};
  }
  if (function == "int") return of.integer() != nullptr ? of : Value{to_int64(v)};
  if (function == "ceil") return Value{std::ceil(v)};
  if (function == "floor") return Value{std::floor(v)};
  return Value{function == "round" ? std::round(v) : v};  // "float"
}

Result<Value> bits(const std::string& function, Arguments arguments) {
  for (const Value& value : arguments) {
    if (value.integer() == nullptr) return no_meaning(function, value);
  }
  const auto a = *arguments[0].integer();
  if (function == "bitnot") return Value{~a};
  const auto b = *arguments[1].integer();
  if (function == "bitand") return Value{a & b};
  if (function == "bitor") return Value{a | b};
  if (function == "bitxor") return Value{a ^ b};
  if (function == "bitnand") return Value{a & ~b};
  if (b < 0) return fail(Code::kInvalid, "{} by the negative number {}", function, b);
  if (function == "bitshr") return Value{a >> std::min<std::int64_t>(b, 63)};
  const auto u = static_cast<std::uint64_t>(a);
  if (b > 63) return Value{std::int64_t{0}};
  return Value{static_cast<std::int64_t>(function == "bitshl" ? u << b : u >> b)};
}

Result<Value> concatenated(Arguments arguments) {
  List out;
  for (const Value& value : arguments) {
    if (value.list() == nullptr) return no_meaning("concat", value);
    out.insert(out.end(), value.list()->begin(), value.list()->end());
  }
  return Value{std::move(out)};
}

void flatten(const List& list, List& out) {
  for (const Value& value : list) {
    if (value.list() != nullptr) {
      flatten(*value.list(), out);
    } else {
      out.push_back(value);
    }
  }
}

Result<Value> of_list(const std::string& function, const List& list, Arguments arguments) {
  if (function == "sum") return sum(list);
  if (function == "len") return Value{static_cast<std::int64_t>(list.size())};
  if (function == "first") return list.empty() ? Value{} : list.front();
  if (function == "last") return list.empty() ? Value{} : list.back();
  if (function == "take") {
    const auto* n = arguments[1].integer();
    if (n == nullptr) return no_meaning("take", arguments[1]);
    if (*n < 0) return fail(Code::kInvalid, "take of the negative number {}", *n);
    const auto kept = std::min(static_cast<std::size_t>(*n), list.size());
    return Value{List(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(kept))};
  }
  if (function == "reverse") return Value{List(list.rbegin(), list.rend())};
  List out;
  if (function == "flatten") {
    flatten(list, out);
  } else if (function == "uniq") {
    for (const Value& one : list) {
      if (std::ranges::none_of(out, [&](const Value& seen) { return equal(seen, one); })) out.push_back(one);
    }
  } else if (function == "sort") {
    for (const Value& one : list) {
      if (!one.is_number()) return no_meaning("sort", one);
    }
    out = list;
    std::ranges::stable_sort(out, less);
  } else {  // count, all, any, none and one of a list of conditions
    std::int64_t held = 0;
    for (const Value& one : list) {
      if (one.boolean() == nullptr) return no_meaning(function, one);
      held += *one.boolean() ? 1 : 0;
    }
    return Value{held};
  }
  return Value{std::move(out)};
}

struct Function {
  std::string_view name;
  Arity arity;
};
constexpr std::array<Function, 40> kFunctions{{{"abs", {1, 1}},
                                               {"ceil", {1, 1}},
                                               {"floor", {1, 1}},
                                               {"round", {1, 1}},
                                               {"int", {1, 1}},
                                               {"float", {1, 1}},
                                               {"max", {1, kAny}},
                                               {"min", {1, kAny}},
                                               {"mean", {1, kAny}},
                                               {"median", {1, kAny}},
                                               {"len", {1, 1}},
                                               {"first", {1, 1}},
                                               {"last", {1, 1}},
                                               {"take", {2, 2}},
                                               {"reverse", {1, 1}},
                                               {"concat", {1, kAny}},
                                               {"flatten", {1, 1}},
                                               {"uniq", {1, 1}},
                                               {"sort", {1, 1}},
                                               {"bitand", {2, 2}},
                                               {"bitor", {2, 2}},
                                               {"bitxor", {2, 2}},
                                               {"bitnand", {2, 2}},
                                               {"bitnot", {1, 1}},
                                               {"bitshl", {2, 2}},
                                               {"bitshr", {2, 2}},
                                               {"bitushr", {2, 2}},
                                               {"sum", {1, 2, true}},
                                               {"count", {1, 2, true}},
                                               {"all", {2, 2, true}},
                                               {"any", {2, 2, true}},
                                               {"none", {2, 2, true}},
                                               {"one", {2, 2, true}},
                                               {"filter", {2, 2, true}},
                                               {"map", {2, 2, true}},
                                               {"find", {2, 2, true}},
                                               {"findIndex", {2, 2, true}},
                                               {"findLast", {2, 2, true}},
                                               {"findLastIndex", {2, 2, true}},
                                               {"reduce", {2, 3, true}}}};

Result<Value> of_integers(std::string_view op, std::int64_t a, std::int64_t b) {
  if (op == "+") return Value{wrapped_sum(a, b)};
  if (op == "-") {
    std::int64_t out = 0;
    static_cast<void>(__builtin_sub_overflow(a, b, &out));
    return Value{out};
  }
  if (op == "*") return Value{wrapped_product(a, b)};
  if (b == 0) return fail(Code::kInvalid, "{} % 0 is not defined", a);
  return Value{b == -1 ? std::int64_t{0} : a % b};
}

Result<Value> range(std::int64_t from, std::int64_t to) {
  List out;
  if (to >= from && to - from >= static_cast<std::int64_t>(kMostElements)) {
    return fail(Code::kInvalid, "{}..{} has more than {} elements", from, to, kMostElements);
  }
  for (auto n = from; n <= to; ++n) out.push_back(Value{n});
  return Value{std::move(out)};
}

Result<Value> of_numbers(std::string_view op, const Value& a, const Value& b) {
  const double x = a.number(), y = b.number();
  if (op == "/") return Value{x / y};
  if (op == "**") return Value{std::pow(x, y)};
  if (op == "<") return Value{less(a, b)};
  if (op == ">") return Value{less(b, a)};
  if (op == "<=") return Value{x <= y};
  if (op == ">=") return Value{x >= y};
  if (a.integer() != nullptr && b.integer() != nullptr) {
    if (op == "..") return range(*a.integer(), *b.integer());
    return of_integers(op, *a.integer(), *b.integer());
  }
  if (op == "+") return Value{x + y};
  if (op == "-") return Value{x - y};
  if (op == "*") return Value{x * y};
  return fail(Code::kInvalid, "{} has no meaning for {} and {}", op, type_of(a), type_of(b));
}

}  // namespace

std::string_view type_of(const Value& value) {
  constexpr std::array<std::string_view, 5> kNames{"nil", "bool", "int", "float64", "list"};
  return kNames[value.of.index()];
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.list() != nullptr && b.list() != nullptr) return std::ranges::equal(*a.list(), *b.list(), equal);
  if (a.boolean() != nullptr && b.boolean() != nullptr) return *a.boolean() == *b.boolean();
  return a.is_nil() && b.is_nil();
}

std::optional<Arity> arity_of(std::string_view function) {
  const auto at = std::ranges::find(kFunctions, function, &Function::name);
  return at == kFunctions.end() ? std::nullopt : std::optional(at->arity);
}

Result<Value> call(const std::string& function, std::span<const Value> arguments) {
  if (function == "max" || function == "min") return extreme(function, arguments);
  if (function == "mean" || function == "median") return middle(function, arguments);
  if (function.starts_with("bit")) return bits(function, arguments);
  if (function == "concat") return concatenated(arguments);
  constexpr std::array<std::string_view, 6> kRounding{"abs", "ceil", "floor", "round", "int", "float"};
  if (std::ranges::find(kRounding, function) != kRounding.end()) return rounded(function, arguments[0]);
  if (arguments[0].list() == nullptr) return no_meaning(function, arguments[0]);
  return of_list(function, *arguments[0].list(), arguments);
}

Result<Value> binary(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return Value{equal(a, b)};
  if (op == "!=") return Value{!equal(a, b)};
  if (op == "in") {
    if (b.is_nil()) return Value{false};
    if (b.list() == nullptr) return no_meaning("in", b);
    return Value{std::ranges::any_of(*b.list(), [&](const Value& one) { return equal(a, one); })};
  }
  if (a.is_number() && b.is_number()) return of_numbers(op, a, b);
  return fail(Code::kInvalid, "{} has no meaning for {} and {}", op, type_of(a), type_of(b));
}

}  // namespace qm::autoscaler::replicas::formula
