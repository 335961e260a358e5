// The requirement algebra compared with a matcher that knows no normal form: it evaluates the expressions one by one on
// explicit sets of labels.
#include "qm/autoscaler/requirements/requirement.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {
namespace requirements_prop_test {

const std::vector<std::string> kKeys{"team", "gen", "topology.kubernetes.io/zone"};
/// Words, every number that a bound can name, and one of each kind that no expression names.
const std::vector<std::string> kValues{"a", "b", "c", "0", "1", "2", "3", "4", "5", "6", "7", "other", "1000"};
constexpr int kNamed = 11;  ///< the values that expressions name

using Expressions = std::vector<Expression>;

bool holds(const Expression& e, const std::string& value) {
  const bool listed = std::ranges::find(e.values, value) != e.values.end();
  const bool number = value.find_first_not_of("0123456789") == std::string::npos;
  const auto bound = [&] { return std::stoll(e.values.at(0)); };
  switch (e.op) {
    case Operator::kIn:
      return listed;
    case Operator::kNotIn:
      return !listed;
    case Operator::kExists:
      return true;
    case Operator::kDoesNotExist:
      return false;
    case Operator::kGt:
      return number && std::stoll(value) > bound();
    case Operator::kLt:
      return number && std::stoll(value) < bound();
    case Operator::kGte:
      return number && std::stoll(value) >= bound();
    case Operator::kLte:
      return number && std::stoll(value) <= bound();
  }
  return false;
}

std::set<std::string> allowed(const Expressions& all, const std::string& key) {
  std::set<std::string> out;
  for (const auto& value : kValues) {
    if (std::ranges::all_of(all, [&](const auto& e) { return e.key != key || holds(e, value); })) out.insert(value);
  }
  return out;
}

/// Karpenter's rule for a node without the label: no value is allowed, or values are excluded and none are listed.
bool absence(const Expressions& all, const std::string& key) {
  if (allowed(all, key).empty()) return true;
  bool excluded = false;
  for (const auto& e : all) {
    if (e.key != key) continue;
    if (e.op == Operator::kIn) return false;
    if (e.op != Operator::kNotIn) continue;
    // A value that the bounds forbid anyway is not excluded.
    excluded |= std::ranges::any_of(e.values, [&](const auto& value) {
      return std::ranges::all_of(
          all, [&](const auto& o) { return o.key != key || o.op == Operator::kNotIn || holds(o, value); });
    });
  }
  return excluded;
}

bool names(const Expressions& all, const std::string& key) {
  return std::ranges::any_of(all, [&](const auto& e) { return e.key == key; });
}

/// By trying every value of every key.
bool matches(const Expressions& pool, const Expressions& pod) {
  for (const auto& key : kKeys) {
    if (!names(pod, key)) continue;
    if (!names(pool, key)) {
      if (key != kKeys[2] && !absence(pod, key)) return false;
      continue;
    }
    const auto ours = allowed(pool, key), theirs = allowed(pod, key);
    const bool shared = std::ranges::any_of(ours, [&](const auto& value) { return theirs.contains(value); });
    if (!shared && !(absence(pool, key) && absence(pod, key))) return false;
  }
  return true;
}

/// 0..end-1, in every run: the ranges of RapidCheck grow with the runs.
int below(int end) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, end)); }

Expression random_expression(const std::string& key) {
  Expression e;
  e.key = key;
  e.op = static_cast<Operator>(below(8));
  if (e.op >= Operator::kGt) {
    e.values = {std::to_string(below(8))};
  } else if (e.op == Operator::kIn || e.op == Operator::kNotIn) {
    const int values = 1 + below(4);
    for (int v = 0; v < values; ++v) e.values.push_back(kValues[static_cast<std::size_t>(below(kNamed))]);
  }
  return e;
}

Expressions random_expressions(int most) {
  Expressions out;
  const int count = below(most + 1);
  for (int i = 0; i < count; ++i)
    out.push_back(random_expression(kKeys[static_cast<std::size_t>(below(static_cast<int>(kKeys.size())))]));
  return out;
}

Requirements normal(const Expressions& all) {
  Requirements out;
  for (const auto& e : all) out.add(*requirement_of(e));
  return out;
}

TEST(Requirements, MatchLikeTheirExpressionsOneByOne) {
  int pairs = 0, compatible = 0;
  const bool held = rc::check([&] {
    // 100 runs of 100 pools and pods.
    for (int i = 0; i < 100; ++i, ++pairs) {
      const auto pool = random_expressions(5), pod = random_expressions(4);
      const auto ours = normal(pool), theirs = normal(pod);
      const bool expected = matches(pool, pod);
      compatible += expected ? 1 : 0;
      RC_ASSERT(!ours.conflict(theirs, Undefined::kWellKnownIsAny) == expected);
      for (const auto& [key, requirement] : ours.by_key()) {
        const auto values = allowed(pool, key);
        for (const auto& value : kValues) RC_ASSERT(requirement.has(value) == values.contains(value));
        RC_ASSERT(requirement.allows_absence() == absence(pool, key));
        const auto chosen = lowest(requirement);
        RC_ASSERT(chosen.has_value() == !values.empty());
        RC_ASSERT(!chosen || requirement.has(*chosen));
        Requirements again;
        for (const auto& expression : expressions(requirement)) again.add(*requirement_of(expression));
        RC_ASSERT(*again.find(key) == requirement);
      }
    }
  });
  EXPECT_TRUE(held);
  EXPECT_GE(pairs, 10'000);
  EXPECT_GT(compatible, pairs / 10);
  EXPECT_LT(compatible, pairs * 9 / 10);
}

TEST(Requirements, IntersectionIsCommutativeAndAssociative) {
  EXPECT_TRUE(rc::check([] {
    const auto some = [] { return *requirement_of(random_expression("k")); };
    const Requirement a = some(), b = some(), c = some();
    RC_ASSERT(intersection(a, b) == intersection(b, a));
    RC_ASSERT(intersection(intersection(a, b), c) == intersection(a, intersection(b, c)));
    RC_ASSERT(intersection(a, a) == a);
  }));
}

}  // namespace requirements_prop_test
}  // namespace qm::autoscaler
