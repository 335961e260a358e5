#pragma once
#include "qm/base/result.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler::replicas {

namespace formula {
struct Node;
}

/// A formula of scalingModifiers: the part of the language of expr-lang that is about numbers.
///
///   values      names of triggers, `12`, `0x1f`, `1_000`, `0.5`, `1e3`, `true`, `false`, `nil`, `[a, b]`
///   operators   `?:`  `??`  `||` `or`  `&&` `and`  `!` `not`  `==` `!=` `<` `<=` `>` `>=`  `in` `not in`  `..`
///               `+` `-` `*` `/` `%`  `**` `^`  `|` (the value becomes the first argument of a function)
///   forms       `let x = a + b; x * 2`  `if a > 5 { a } else { b }`
///   elements    `list[0]`, `list[-1]`, `list[1:3]`
///   functions   abs ceil floor round int float max min mean median sum len first last take reverse concat flatten uniq
///               sort bitand bitor bitxor bitnand bitnot bitshl bitshr bitushr
///   predicates  all any none one filter map count find findIndex findLast findLastIndex sum reduce, with `#` for the
///               element, `#index`, and `#acc` in reduce: `count([a, b], # > 5)`
///
/// Integers and doubles are different: `/` and `**` give doubles, `%` takes integers alone. Names of triggers are
/// doubles.
///
/// Range    1,024 nodes, 64 levels; 10,000 steps of predicates and 100,000 elements of lists in one evaluation.
/// Threads  any; a value. Copies share the parsed text.
/// Fails    compile: kInvalid with the position of the fault. evaluate: kInvalid names the operation and its operands.
/// Source   expr-lang v1.17.8, docs/language-definition.md.
class Formula {
 public:
  /// Parses the text, and evaluates it once with 1 for each name.
  [[nodiscard]] static Result<Formula> compile(std::string_view text, const std::vector<std::string>& names);
  /// The result; empty if it is nil. A name without a value is nil.
  [[nodiscard]] Result<std::optional<double>> evaluate(const std::map<std::string, double>& values) const;

 private:
  explicit Formula(std::shared_ptr<const formula::Node> root) : root_(std::move(root)) {}
  std::shared_ptr<const formula::Node> root_;
};

}  // namespace qm::autoscaler::replicas
