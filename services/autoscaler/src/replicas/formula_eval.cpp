#include "formula_nodes.hpp"
#include "qm/autoscaler/replicas/formula.hpp"

#include <algorithm>
#include <utility>

namespace qm::autoscaler::replicas {
namespace formula {
namespace {

/// The element of a predicate, its index and the value so far.
struct Scope {
  const Value* element = nullptr;
  std::size_t index = 0;
  Value accumulated;
};

tl::unexpected<Error> wrong(std::string_view what, const Value& of) {
  return fail(Code::kInvalid, "{} of type {}", what, type_of(of));
}

class Evaluation {
 public:
  explicit Evaluation(const std::map<std::string, double>& values) : values_(values) {}

  Result<Value> of(const Node& node) {
    auto out = any(node);
    if (out && out->list() != nullptr && (elements_ += out->list()->size()) > kMostCopied) {
      return fail(Code::kInvalid, "the lists of the formula have more than {} elements together", kMostCopied);
    }
    return out;
  }

 private:
  Result<Value> any(const Node& node) {
    switch (node.kind) {
      case Kind::kConstant:
        return node.value;
      case Kind::kName:
        return name(node.text);
      case Kind::kVariable:
        return variable(node.text);
      case Kind::kLet:
        return let(node);
      case Kind::kElement:
        return element(node.text);
      case Kind::kUnary:
        return unary(node);
      case Kind::kBinary:
        return operation(node);
      case Kind::kConditional:
        return conditional(node);
      case Kind::kList:
        return list(node);
      case Kind::kIndex:
        return indexed(node);
      case Kind::kSlice:
        return sliced(node);
      case Kind::kCall:
        return called(node);
      case Kind::kPredicate:
        return predicate(node);
    }
    return Value{};
  }
  Result<Value> name(const std::string& text) const {
    const auto found = values_.find(text);
    return found == values_.end() ? Value{} : Value{found->second};
  }
  Result<Value> variable(const std::string& text) const {
    return std::ranges::find(variables_, text, &std::pair<std::string, Value>::first)->second;
  }
  Result<Value> let(const Node& node) {
    QM_ASSIGN(auto value, of(*node.children[0]));
    variables_.emplace_back(node.text, std::move(value));
    auto out = of(*node.children[1]);
    variables_.pop_back();
    return out;
  }
  Result<Value> element(std::string_view which) const {
    const Scope& scope = scopes_.back();
    if (which == "acc") return scope.accumulated;
    if (which == "index") return Value{static_cast<std::int64_t>(scope.index)};
    return *scope.element;
  }
  Result<bool> condition(const Node& node) {
    QM_ASSIGN(const auto value, of(node));
    if (value.boolean() == nullptr) return wrong("a condition cannot be", value);
    return *value.boolean();
  }
  Result<Value> unary(const Node& node) {
    if (node.text == "!") {
      QM_ASSIGN(const bool value, condition(*node.children[0]));
      return Value{!value};
    }
    QM_ASSIGN(const auto value, of(*node.children[0]));
    if (!value.is_number()) return wrong(fmt::format("{} has no meaning for a value", node.text), value);
    if (node.text == "+") return value;
    if (value.integer() != nullptr) return binary("-", Value{std::int64_t{0}}, value);
    return Value{-value.number()};
  }
  Result<Value> operation(const Node& node) {
    if (node.text == "&&" || node.text == "||") {
      QM_ASSIGN(const bool left, condition(*node.children[0]));
      if (left == (node.text == "||")) return Value{left};
      QM_ASSIGN(const bool right, condition(*node.children[1]));
      return Value{right};
    }
    QM_ASSIGN(const auto left, of(*node.children[0]));
    if (node.text == "??") {
      if (!left.is_nil()) return left;
      return of(*node.children[1]);
    }
    QM_ASSIGN(const auto right, of(*node.children[1]));
    return binary(node.text, left, right);
  }
  Result<Value> conditional(const Node& node) {
    if (node.children[0] == node.children[1]) {  // a ?: b
      QM_ASSIGN(auto value, of(*node.children[0]));
      if (value.boolean() == nullptr) return wrong("a condition cannot be", value);
      if (*value.boolean()) return value;
      return of(*node.children[2]);
    }
    QM_ASSIGN(const bool holds, condition(*node.children[0]));
    return of(*node.children[holds ? 1 : 2]);
  }
  Result<Value> list(const Node& node) {
    List out;
    for (const auto& child : node.children) {
      QM_ASSIGN(auto value, of(*child));
      out.push_back(std::move(value));
    }
    return Value{std::move(out)};
  }
  Result<Value> indexed(const Node& node) {
    QM_ASSIGN(const auto of_list, of(*node.children[0]));
    QM_ASSIGN(const auto index, of(*node.children[1]));
    if (of_list.list() == nullptr) return wrong("no element can be taken of a value", of_list);
    if (index.integer() == nullptr) return wrong("an index cannot be", index);
    const auto size = static_cast<std::int64_t>(of_list.list()->size());
    const auto at = *index.integer() < 0 ? *index.integer() + size : *index.integer();
    if (at < 0 || at >= size) {
      return fail(Code::kInvalid, "index {} is outside of a list of {} elements", *index.integer(), size);
    }
    return (*of_list.list())[static_cast<std::size_t>(at)];
  }
  Result<Value> sliced(const Node& node) {
    QM_ASSIGN(const auto of_list, of(*node.children[0]));
    if (of_list.list() == nullptr) return wrong("no part can be taken of a value", of_list);
    const auto size = static_cast<std::int64_t>(of_list.list()->size());
    std::int64_t ends[2] = {0, size};
    for (std::size_t i = 0; i < 2; ++i) {
      QM_ASSIGN(const auto end, of(*node.children[i + 1]));
      if (end.is_nil()) continue;
      if (end.integer() == nullptr) return wrong("an index cannot be", end);
      ends[i] = std::clamp<std::int64_t>(*end.integer() < 0 ? *end.integer() + size : *end.integer(), 0, size);
    }
    const auto from = of_list.list()->begin();
    return Value{List(from + std::min(ends[0], ends[1]), from + ends[1])};
  }
  Result<std::vector<Value>> arguments(const Node& node) {
    std::vector<Value> out;
    for (const auto& child : node.children) {
      QM_ASSIGN(auto value, of(*child));
      out.push_back(std::move(value));
    }
    return out;
  }
  Result<Value> called(const Node& node) {
    QM_ASSIGN(const auto values, arguments(node));
    return call(node.text, values);
  }

  // ---- predicates ----

  Result<Value> inside(const Node& predicate) {
    if (++steps_ > kMostSteps) return fail(Code::kInvalid, "the predicates take more than {} steps", kMostSteps);
    return of(predicate);
  }
  Result<Value> predicate(const Node& node) {
    QM_ASSIGN(const auto over, of(*node.children[0]));
    if (over.list() == nullptr) return wrong(fmt::format("{} takes a list, not a value", node.text), over);
    const List& list = *over.list();
    if (node.children.size() == 1) return call(node.text, std::vector<Value>{over});
    Scope scope;
    std::size_t first = 0;
    if (node.children.size() == 3) {
      QM_ASSIGN(scope.accumulated, of(*node.children[2]));
    } else if (node.text == "reduce") {
      if (list.empty()) return fail(Code::kInvalid, "reduce of an empty list needs a first value");
      scope.accumulated = list[0];
      first = 1;
    }
    std::vector<Value> results;
    for (std::size_t i = first; i < list.size(); ++i) {
      scope.element = &list[i];
      scope.index = i;
      scopes_.push_back(scope);
      auto result = inside(*node.children[1]);
      scopes_.pop_back();
      if (!result) return tl::unexpected(result.error());
      if (node.text == "reduce") {
        scope.accumulated = std::move(*result);
      } else {
        results.push_back(std::move(*result));
      }
    }
    if (node.text == "reduce") return scope.accumulated;
    if (node.text == "map") return Value{std::move(results)};
    if (node.text == "sum") return call("sum", std::vector<Value>{Value{std::move(results)}});
    return chosen(node.text, list, results);
  }
  static Result<Value> chosen(std::string_view function, const List& list, const std::vector<Value>& results) {
    List passed;
    std::vector<std::int64_t> indexes;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].boolean() == nullptr) return wrong("a predicate cannot be", results[i]);
      if (!*results[i].boolean()) continue;
      passed.push_back(list[i]);
      indexes.push_back(static_cast<std::int64_t>(i));
    }
    const auto count = static_cast<std::int64_t>(passed.size());
    if (function == "all") return Value{passed.size() == list.size()};
    if (function == "any") return Value{count > 0};
    if (function == "none") return Value{count == 0};
    if (function == "one") return Value{count == 1};
    if (function == "count") return Value{count};
    if (function == "filter") return Value{std::move(passed)};
    if (count == 0) return Value{};
    if (function == "find") return passed.front();
    if (function == "findLast") return passed.back();
    return Value{function == "findIndex" ? indexes.front() : indexes.back()};
  }

  const std::map<std::string, double>& values_;
  std::vector<Scope> scopes_;
  std::vector<std::pair<std::string, Value>> variables_;
  std::size_t steps_ = 0, elements_ = 0;
};

}  // namespace

Result<Value> evaluate(const Node& root, const std::map<std::string, double>& values) {
  return Evaluation(values).of(root);
}

}  // namespace formula

Result<Formula> Formula::compile(std::string_view text, const std::vector<std::string>& names) {
  QM_ASSIGN(auto root, formula::parse(text, names));
  Formula out(std::move(root));
  std::map<std::string, double> ones;
  for (const auto& name : names) ones[name] = 1;
  QM_TRY(out.evaluate(ones));
  return out;
}

Result<std::optional<double>> Formula::evaluate(const std::map<std::string, double>& values) const {
  QM_ASSIGN(const auto value, formula::evaluate(*root_, values));
  if (value.is_nil()) return std::optional<double>();
  if (!value.is_number()) {
    return fail(Code::kInvalid, "the result must be a number, not of type {}", formula::type_of(value));
  }
  return std::optional(value.number());
}

}  // namespace qm::autoscaler::replicas
