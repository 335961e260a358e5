#include "qm/autoscaler/replicas/formula.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::replicas {
namespace formula_test {

const std::vector<std::string> kNames{"a", "b", "c"};

/// The result with a = 12 and b = 19.5; c is nil.
std::string of(std::string_view text) {
  const auto formula = Formula::compile(text, kNames);
  if (!formula) return "error: " + formula.error().message;
  const auto result = formula->evaluate({{"a", 12}, {"b", 19.5}});
  if (!result) return "error: " + result.error().message;
  return *result ? fmt::format("{}", **result) : "nil";
}

struct Case {
  const char *text, *result;
};

void expect(std::initializer_list<Case> cases) {
  for (const auto& [text, result] : cases) EXPECT_EQ(of(text), result) << text;
}

TEST(Formula, Arithmetic) {
  expect({{"a + b", "31.5"},
          {"a - b * 2", "-27"},
          {"(a - b) * 2", "-15"},
          {"5 / 2", "2.5"},
          {"7 % 4 + -7 % 4", "0"},
          {"2 ** 3 + a", "20"},
          {"2 ^ 3 ^ 2", "512"},
          {"-2 ** 2", "-4"},
          {"2 ** -1", "0.5"},
          {"+a", "12"},
          {"0x1f + 0b101 + 0o17 + 1_000", "1051"},
          {".5 + 1e3 + 2.5e-1", "1000.75"},
          {"a / 0", "inf"},
          {"9223372036854775807 + 1", "-9.223372036854776e+18"}});
}

TEST(Formula, LogicAndConditions) {
  expect({{"a > 10 ? a : b", "12"},
          {"a < 20 && b >= 19 ? a * b / 4 : a - b", "58.5"},
          {"not (a > b) or false ? 1 : 0", "1"},
          {"!(a == 12) ? 1 : 2", "2"},
          {"!a == b ? 1 : 2", "error: a condition cannot be of type float64"},
          {"1 < a < 20 ? 1 : 0", "1"},
          {"1 < a < 5 ? 1 : 0", "0"},
          {"a in [10, 12] ? 1 : 0", "1"},
          {"a not in [10, 12] ? 1 : 0", "0"},
          {"a != 12 ? 1 : b > 19 ? 2 : 3", "2"},
          {"true ?: false", "error: the result must be a number, not of type bool"},
          {"if a > 10 { a * 2 } else { b }", "24"},
          {"if a < 10 { a } else if b < 10 { b } else { 3 }", "3"},
          {"let x = a + 1; let y = x * 2; y + x", "39"}});
}

TEST(Formula, NilIsReplacedByTheNextValue) {
  expect({{"c ?? a", "12"},
          {"c ?? c", "nil"},
          {"c ?? c ?? 5", "5"},
          {"a + (c ?? b)", "31.5"},
          {"a + c ?? b", "31.5"},  // ?? binds most tightly
          {"a + c", "error: + has no meaning for float64 and nil"},
          {"c ?? b | round()", "20"},
          {"c == nil ? 1 : 0", "1"}});
  EXPECT_NE(of("c ?? b + 1").find("parentheses"), std::string::npos);
}

TEST(Formula, FunctionsOfNumbersAndLists) {
  expect(
      {{"ceil(33 / 7) + floor(41 / 7)", "10"},
       {"round(2.5) + round(-2.5)", "0"},
       {"abs(a - b)", "7.5"},
       {"int(b) % 4", "3"},
       {"float(3) / 2", "1.5"},
       {"max([a, b]) * 2", "39"},
       {"max(a)", "12"},
       {"min(a, b, [3, [2]])", "2"},
       {"mean([a, b])", "15.75"},
       {"median(1, 9, 4)", "4"},
       {"median([1, 9, 4, 2])", "3"},
       {"sum([a, b, 1])", "32.5"},
       {"sum([])", "0"},
       {"mean([])", "0"},
       {"max([])", "nil"},
       {"len(1..10)", "10"},
       {"first([a, b]) + last([a, b])", "31.5"},
       {"first([])", "nil"},
       {"sum(take([1, 2, 3], 2)) + len(concat([1], [2, 3])) + len(flatten([[1, [2]], 3])) + len(uniq([1, 1, 2]))",
        "11"},
       {"sort([3, 1, 2])[0] + reverse([3, 1, 2])[0]", "3"},
       {"[1, 2, 3][-1] + sum([1, 2, 3][1:]) + sum([1, 2, 3][:1])", "9"},
       {"bitand(6, 3) + bitor(6, 3) + bitxor(6, 3) + bitshl(1, 4) + bitshr(16, 2) + bitnand(6, 3) + bitnot(-1)", "38"},
       {"[a, b] | max() | round()", "20"},
       {"max([a, nil])", "error: max has no meaning for a value of type nil"},
       {"[1][1]", "error: index 1 is outside of a list of 1 elements"}});
}

TEST(Formula, Predicates) {
  expect({{"count([a, b], # > 15)", "1"},
          {"count([a, b], {# > 5})", "2"},
          {"count([true, false, true])", "2"},
          {"any([a, b], # > 15) && all([a, b], # > 5) && none([a, b], # > 50) && one([a, b], # > 15) ? 1 : 0", "1"},
          {"sum(filter([a, b, 30], # > 15))", "49.5"},
          {"sum(map(1..3, # * #index))", "8"},
          {"sum([1, 2], # * 10)", "30"},
          {"find([3, a, b], # > 2) + findLast([a, b, 3], # > 2)", "6"},
          {"find([a, b], # > 15)", "19.5"},
          {"find([a], # > 15)", "nil"},
          {"findIndex([0, 3], # > 2) + findLastIndex([3, 3, 0], # > 2)", "2"},
          {"reduce([a, b], #acc + #)", "31.5"},
          {"reduce([a, b], #acc + # * 2, 100)", "163"},
          {"sum(map([1, 2], sum(map([10, 20], #))))", "60"},
          {"filter([a], #)", "error: a predicate cannot be of type float64"}});
}

TEST(Formula, ItsCostIsBounded) {
  expect({{"len(reduce(1..100, concat(#acc, #acc), [1]))",
           "error: the lists of the formula have more than 100000 elements together"},
          {"sum(map(1..500, sum(map(1..500, #))))", "error: the predicates take more than 10000 steps"}});
}

TEST(Formula, FaultsNameTheirPosition) {
  for (const auto& [text, part] :
       std::initializer_list<Case>{{"a +", "position 4, at the end: a value is expected"},
                                   {"a + d", "position 5, at \"d\": there is no trigger"},
                                   {"a b", "position 3, at \"b\": the formula goes on"},
                                   {"foo(a)", "position 1, at \"foo\": there is no such function"},
                                   {"abs()", "abs takes 1 to 1 arguments"},
                                   {"$", "no trigger"},
                                   {"a @ b", "position 3: unexpected \"@\""},
                                   {"[a, b", "\"]\" is expected"},
                                   {"# + 1", "# is for predicates"},
                                   {"a % 2", "% has no meaning for float64 and int"},
                                   {"let a = 1; a", "this name is taken"},
                                   {"a > 1", "the result must be a number"},
                                   {"1..5000", "more than 1000 elements"},
                                   {"5 % 0", "5 % 0 is not defined"},
                                   {"12abc", "the formula goes on"},
                                   {"1e", "this is not a number"}}) {
    EXPECT_NE(of(text).find(part), std::string::npos) << text << ": " << of(text);
  }
  EXPECT_NE(of(std::string(200, '(') + "a" + std::string(200, ')')).find("64 levels"), std::string::npos);
}

}  // namespace formula_test
}  // namespace qm::autoscaler::replicas
