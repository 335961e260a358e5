#pragma once
#include "qm/base/result.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace qm::autoscaler::replicas::formula {

/// A value of the language. monostate is nil.
struct Value;
using List = std::vector<Value>;
struct Value {
  std::variant<std::monostate, bool, std::int64_t, double, List> of;

  [[nodiscard]] bool is_nil() const { return std::holds_alternative<std::monostate>(of); }
  [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&of); }
  [[nodiscard]] const std::int64_t* integer() const { return std::get_if<std::int64_t>(&of); }
  [[nodiscard]] const List* list() const { return std::get_if<List>(&of); }
  [[nodiscard]] bool is_number() const { return integer() != nullptr || std::holds_alternative<double>(of); }
  [[nodiscard]] double number() const {
    return integer() != nullptr ? static_cast<double>(*integer()) : std::get<double>(of);
  }
};
[[nodiscard]] std::string_view type_of(const Value& value);
[[nodiscard]] bool equal(const Value& a, const Value& b);

enum class Kind {
  kConstant,     // value
  kName,         // text, of a trigger
  kVariable,     // text, of a let
  kLet,          // text; value, body
  kElement,      // text: "", "index" or "acc", of the innermost predicate
  kUnary,        // text: "-", "+" or "!"
  kBinary,       // text: the operator
  kConditional,  // condition, then, else
  kList,
  kIndex,      // list, index
  kSlice,      // list, from, to; nil for an open end
  kCall,       // text: the function
  kPredicate,  // text: the function; list, predicate if given, first value of reduce if given
};

struct Node {
  Kind kind = Kind::kConstant;
  std::string text;
  Value value;
  std::vector<std::shared_ptr<const Node>> children;
};
using NodePtr = std::shared_ptr<const Node>;

[[nodiscard]] Result<NodePtr> parse(std::string_view text, std::span<const std::string> names);
[[nodiscard]] Result<Value> evaluate(const Node& root, const std::map<std::string, double>& values);

/// The numbers of arguments that a function takes; empty if there is no such function.
struct Arity {
  std::size_t least = 0, most = 0;
  bool predicate = false;
};
[[nodiscard]] std::optional<Arity> arity_of(std::string_view function);
[[nodiscard]] Result<Value> call(const std::string& function, std::span<const Value> arguments);
[[nodiscard]] Result<Value> binary(std::string_view op, const Value& a, const Value& b);

inline constexpr std::size_t kMostNodes = 1024, kMostLevels = 64;  ///< of a formula
inline constexpr std::size_t kMostSteps = 10'000;                  ///< of predicates, in one evaluation
inline constexpr std::size_t kMostElements = 1'000;                ///< of a range
inline constexpr std::size_t kMostCopied = 100'000;                ///< elements of all lists of one evaluation

}  // namespace qm::autoscaler::replicas::formula
