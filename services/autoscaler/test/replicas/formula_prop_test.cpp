#include "qm/autoscaler/replicas/formula.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace qm::autoscaler::replicas {
namespace formula_prop_test {

/// A formula of a and b with its value, from the same doubles in the same order.
struct Expression {
  std::string text;
  double value;
};

Expression any_expression(int depth, double a, double b) {
  const auto pick = *rc::gen::inRange(0, depth == 0 ? 3 : 11);
  if (pick == 0) return {"a", a};
  if (pick == 1) return {"b", b};
  if (pick == 2) {
    const auto n = *rc::gen::inRange(0, 1000);
    return {fmt::format("{}.0", n), static_cast<double>(n)};
  }
  const auto x = any_expression(depth - 1, a, b), y = any_expression(depth - 1, a, b);
  switch (pick) {
    case 3:
      return {fmt::format("({} + {})", x.text, y.text), x.value + y.value};
    case 4:
      return {fmt::format("({} - {})", x.text, y.text), x.value - y.value};
    case 5:
      return {fmt::format("({} * {})", x.text, y.text), x.value * y.value};
    case 6:
      return {fmt::format("({} < {} ? {} : {})", x.text, y.text, x.text, y.text), std::min(x.value, y.value)};
    case 7:
      return {fmt::format("max({}, {})", x.text, y.text), std::max(x.value, y.value)};
    case 8:
      return {fmt::format("min([{}, {}])", x.text, y.text), std::min(x.value, y.value)};
    case 9:
      return {fmt::format("-{}", x.text), -x.value};
    default:
      return {fmt::format("mean([{}, {}])", x.text, y.text), (0.0 + x.value + y.value) / 2};
  }
}

RC_GTEST_PROP(FormulaLaws, ValuesAreThoseOfTheSameDoubles, ()) {
  const double a = *rc::gen::inRange(-1'000'000, 1'000'000) * 0.001,
               b = *rc::gen::inRange(-1'000'000, 1'000'000) * 0.001;
  const auto expression = any_expression(4, a, b);
  const auto formula = Formula::compile(expression.text, {"a", "b"});
  RC_ASSERT(formula.has_value());
  const auto result = formula->evaluate({{"a", a}, {"b", b}});
  RC_ASSERT(result.has_value() && result->has_value());
  RC_ASSERT(**result == expression.value);
}

RC_GTEST_PROP(FormulaLaws, AnyTextIsAFormulaOrAnError, ()) {
  const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "a", "b", "c", " ", "1", "2.5", "+", "-", "*", "/", "%", "**", "??", "?", ":", "(", ")", "[", "]", "{", "}", ",",
      "#", "#acc", "..", "|", "not", "in", "let", "=", ";", "if", "else", "max(", "count(", "reduce(", "map(",
      "filter(", "nil", "true", "==", "<", "&&", "\xc3\xa9", "\""));
  std::string text;
  for (const auto& part : parts) text += part;
  const auto formula = Formula::compile(text, {"a", "b"});
  if (formula) static_cast<void>(formula->evaluate({{"a", 1}}));
}

}  // namespace formula_prop_test
}  // namespace qm::autoscaler::replicas
