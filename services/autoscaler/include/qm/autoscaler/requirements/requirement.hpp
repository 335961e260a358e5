#pragma once
#include "qm/base/result.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

enum class Operator : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt, kGte, kLte };
[[nodiscard]] std::string_view name_of(Operator op);
[[nodiscard]] std::optional<Operator> operator_of(std::string_view name);

/// One entry of `spec.template.spec.requirements` of a NodePool, or one expression of a node selector term.
struct Expression {
  std::string key;
  Operator op = Operator::kExists;
  std::vector<std::string> values;         ///< of a bound: one whole number, 0 or more
  std::optional<std::int32_t> min_values;  ///< the instance types must have this many different values
  friend auto operator<=>(const Expression&, const Expression&) = default;
};

/// Whether a node with this value of the label satisfies the expression; null if it has no such label.
///
/// A node without the label fails In, Exists and the four bounds; it satisfies NotIn and DoesNotExist. A bound compares
/// whole numbers; any other label fails.
[[nodiscard]] bool holds(const Expression& expression, const std::string* value);

/// The allowed values of one label, in Karpenter's normal form.
///
/// Law      `gte` and `lte` are set only with `complement`; at least one whole number is in the range.
/// Empty    without complement and values the label has no allowed value, so the node must lack it (DoesNotExist).
/// Source   pkg/scheduling/requirement.go of Karpenter 1.14.
struct Requirement {
  std::string key;                       ///< no alias
  bool complement = true;                ///< any value except `values`; false: only `values`
  std::vector<std::string> values;       ///< sorted, distinct
  std::optional<std::int64_t> gte, lte;  ///< if set, the value is a whole number in this range
  std::optional<std::int32_t> min_values;

  [[nodiscard]] bool has(const std::string& value) const;
  /// In, NotIn, Exists or DoesNotExist. Bounds are Exists with bounds.
  [[nodiscard]] Operator op() const;
  /// NotIn or DoesNotExist: a node without the label satisfies it.
  [[nodiscard]] bool allows_absence() const;
  friend auto operator<=>(const Requirement&, const Requirement&) = default;
};

/// Converts an expression to the normal form; an alias of the key is replaced.
///
/// Fails    kInvalid: values with Exists or DoesNotExist, In without values, or a bound that is not one whole number
///          from 0. Also `min_values` outside 1..50, or with In above the number of values.
[[nodiscard]] Result<Requirement> requirement_of(const Expression& expression);
/// The requirement that the label has this value.
[[nodiscard]] Requirement exactly(const std::string& key, const std::string& value);
/// The requirement that the node lacks the label.
[[nodiscard]] Requirement absent(const std::string& key);

/// Both requirements together; they have the same key.
[[nodiscard]] Requirement intersection(const Requirement& a, const Requirement& b);
/// Whether a node can satisfy both: a value is in both, or a node without the label satisfies both.
[[nodiscard]] bool intersects(const Requirement& a, const Requirement& b);

/// The lowest allowed value, for a new node whose label no pod selects: of listed values the first by name, else the
/// lowest whole number. None if there is no allowed value.
[[nodiscard]] std::optional<std::string> lowest(const Requirement& requirement);

/// The shortest list of expressions with the same meaning. Two bounds are two expressions; excluded values in addition
/// to bounds are a further one.
[[nodiscard]] std::vector<Expression> expressions(const Requirement& requirement);
/// "zone In a, b", "cpu Gte 4 and cpu Lte 16"; of more than five values the number of the others.
[[nodiscard]] std::string words_of(const Requirement& requirement);

/// Keys that a node may have without a definition of ours: a well-known label that is not defined has any value.
enum class Undefined { kWellKnownIsAny, kRefused };

/// Requirements by key; several on one key are intersected. Keys are without aliases.
class Requirements {
 public:
  Requirements() = default;
  /// The labels of a node or the node selector of a pod.
  explicit Requirements(const Labels& labels);

  void add(const Requirement& requirement);
  void add(const Requirements& others);
  /// Null if the key is not defined, which allows any value.
  [[nodiscard]] const Requirement* find(const std::string& key) const;
  [[nodiscard]] const std::map<std::string, Requirement>& by_key() const { return by_key_; }

  /// The first key that makes these requirements of a node incompatible with those of a pod; none = compatible.
  ///
  /// Every key of the pod must be defined here, unless the pod allows its absence or `undefined` allows it.
  [[nodiscard]] std::optional<std::string> conflict(const Requirements& pod, Undefined undefined) const;
  /// The first key that both define and on which no node satisfies both; none = they intersect.
  [[nodiscard]] std::optional<std::string> disjoint_key(const Requirements& others) const;
  friend auto operator<=>(const Requirements&, const Requirements&) = default;

 private:
  std::map<std::string, Requirement> by_key_;
};

}  // namespace qm::autoscaler
