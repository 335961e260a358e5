// A parser by precedence. Operators and their precedence are those of expr-lang; a higher number binds more tightly.
#include "formula_nodes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace qm::autoscaler::replicas::formula {
namespace {

struct Operator {
  std::string_view text, name;  // as written, as in Node
  int precedence;
  bool right = false;
};
constexpr std::array<Operator, 22> kBinary{
    {{"|", "|", 0},     {"or", "||", 10},  {"||", "||", 10}, {"and", "&&", 15},       {"&&", "&&", 15},
     {"==", "==", 20},  {"!=", "!=", 20},  {"<", "<", 20},   {">", ">", 20},          {">=", ">=", 20},
     {"<=", "<=", 20},  {"in", "in", 20},  {"..", "..", 25}, {"+", "+", 30},          {"-", "-", 30},
     {"*", "*", 60},    {"/", "/", 60},    {"%", "%", 60},   {"**", "**", 100, true}, {"^", "**", 100, true},
     {"??", "??", 500}, {"not", "not", 20}}};
constexpr std::array<Operator, 4> kUnary{{{"not", "!", 50}, {"!", "!", 50}, {"-", "-", 90}, {"+", "+", 90}}};

template <class Operators>
const Operator* find(const Operators& all, std::string_view text) {
  const auto at = std::ranges::find(all, text, &Operator::text);
  return at == all.end() ? nullptr : &*at;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool compares(std::string_view op) { return op == "<" || op == ">" || op == "<=" || op == ">="; }

struct Token {
  enum class Type { kEnd, kNumber, kWord, kSymbol } type = Type::kEnd;
  std::string_view text;
  std::size_t at = 0;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    std::vector<Token> out;
    for (;;) {
      while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
      if (at_ == text_.size()) {
        out.push_back({Token::Type::kEnd, "", at_});
        return out;
      }
      const auto from = at_;
      const auto type = step();
      if (type == Token::Type::kEnd) {
        return fail(Code::kInvalid, "position {}: unexpected \"{}\"", from + 1, text_.substr(from, 1));
      }
      out.push_back({type, text_.substr(from, at_ - from), from});
    }
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  Token::Type step() {
    if (is_digit(peek()) || (peek() == '.' && is_digit(peek(1)))) return number();
    if (is_letter(peek())) {
      while (is_letter(peek()) || is_digit(peek())) ++at_;
      return Token::Type::kWord;
    }
    for (const std::string_view two : {"**", "??", "||", "&&", "==", "!=", ">=", "<=", "..", "?:"}) {
      if (text_.substr(at_).starts_with(two)) {
        at_ += 2;
        return Token::Type::kSymbol;
      }
    }
    if (std::string_view("+-*/%^<>!?:;=,()[]{}#|").find(peek()) == std::string_view::npos) return Token::Type::kEnd;
    ++at_;
    return Token::Type::kSymbol;
  }
  Token::Type number() {
    const auto digits = [&](auto allowed) {
      while (allowed(peek()) || peek() == '_') ++at_;
    };
    if (peek() == '0' && std::string_view("xXbBoO").find(peek(1)) != std::string_view::npos && peek(1) != '\0') {
      at_ += 2;
      digits([](char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
      return Token::Type::kNumber;
    }
    digits(is_digit);
    if (peek() == '.' && peek(1) != '.') {
      ++at_;
      digits(is_digit);
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits(is_digit);
    }
    return Token::Type::kNumber;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

class Parser {
 public:
  Parser(std::vector<Token> tokens, std::span<const std::string> names) : tokens_(std::move(tokens)), names_(names) {}

  Result<NodePtr> run() {
    QM_ASSIGN(auto root, expression(0));
    if (token().type != Token::Type::kEnd) return wrong("the formula goes on after its end");
    return root;
  }

 private:
  [[nodiscard]] const Token& token() const { return tokens_[next_]; }
  [[nodiscard]] bool is(std::string_view text) const { return token().text == text && !text.empty(); }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    ++next_;
    return true;
  }
  [[nodiscard]] tl::unexpected<Error> wrong(std::string_view what) const {
    const auto found = token().type == Token::Type::kEnd ? std::string("the end") : fmt::format("\"{}\"", token().text);
    return fail(Code::kInvalid, "position {}, at {}: {}", token().at + 1, found, what);
  }
  Status expect(std::string_view text) {
    if (!take(text)) return wrong(fmt::format("\"{}\" is expected", text));
    return {};
  }
  Result<NodePtr> make(Kind kind, std::string_view text, std::vector<NodePtr> children, Value value = {}) {
    if (++nodes_ > kMostNodes) return wrong(fmt::format("a formula has at most {} nodes", kMostNodes));
    return std::make_shared<const Node>(Node{kind, std::string(text), std::move(value), std::move(children)});
  }

  Result<NodePtr> expression(int precedence) {
    if (++level_ > kMostLevels) return wrong(fmt::format("a formula has at most {} levels", kMostLevels));
    auto out = precedence == 0 && token().text == "let"  ? let()
               : precedence == 0 && token().text == "if" ? branches()
                                                         : operators(precedence);
    --level_;
    return out;
  }

  /// let x = value; body
  Result<NodePtr> let() {
    ++next_;
    const auto name = token().text;
    if (token().type != Token::Type::kWord) return wrong("a name is expected after let");
    const bool taken = std::ranges::find(names_, name) != names_.end() || arity_of(name) ||
                       std::ranges::find(variables_, name) != variables_.end();
    if (taken) return wrong("this name is taken");
    ++next_;
    QM_TRY(expect("="));
    QM_ASSIGN(auto value, expression(0));
    QM_TRY(expect(";"));
    variables_.push_back(name);
    QM_ASSIGN(auto body, expression(0));
    variables_.pop_back();
    return make(Kind::kLet, name, {value, body});
  }

  /// if condition { then } else { otherwise }
  Result<NodePtr> branches() {
    ++next_;
    QM_ASSIGN(auto condition, operators(0));
    QM_TRY(expect("{"));
    QM_ASSIGN(auto then, expression(0));
    QM_TRY(expect("}"));
    QM_TRY(expect("else"));
    NodePtr otherwise;
    if (is("if")) {
      QM_ASSIGN(otherwise, expression(0));
    } else {
      QM_TRY(expect("{"));
      QM_ASSIGN(otherwise, expression(0));
      QM_TRY(expect("}"));
    }
    return make(Kind::kConditional, "if", {condition, then, otherwise});
  }

  Result<NodePtr> operators(int precedence) {
    QM_ASSIGN(auto left, primary());
    std::string_view before;  // the last operator of this level
    for (;;) {
      const Operator* op = find(kBinary, token().text);
      bool negated = false;
      if (op != nullptr && op->text == "not") {
        if (tokens_[next_ + 1].text != "in") return wrong("\"in\" is expected after \"not\"");
        negated = true;
      }
      if (op == nullptr || op->precedence < precedence) break;
      if (before == "??" && op->text != "??" && op->text != "|")
        return wrong("?? must be in parentheses next to other operators");
      next_ += negated ? 2 : 1;
      if (op->name == "|") {
        QM_ASSIGN(left, piped(std::move(left)));
      } else if (compares(op->name)) {
        QM_ASSIGN(left, comparison(std::move(left), *op));
      } else {
        QM_ASSIGN(auto right, expression(op->right ? op->precedence : op->precedence + 1));
        QM_ASSIGN(left, make(Kind::kBinary, negated ? "in" : op->name, {left, right}));
        if (negated) {
          QM_ASSIGN(left, make(Kind::kUnary, "!", {left}));
        }
      }
      before = op->text;
    }
    if (precedence == 0) return conditional(std::move(left));
    return left;
  }

  /// a < b < c means a < b && b < c.
  Result<NodePtr> comparison(NodePtr left, const Operator& first) {
    NodePtr out;
    for (const Operator* op = &first;;) {
      QM_ASSIGN(auto right, expression(op->precedence + 1));
      QM_ASSIGN(auto one, make(Kind::kBinary, op->name, {left, right}));
      if (out) {
        QM_ASSIGN(one, make(Kind::kBinary, "&&", {out, one}));
      }
      out = std::move(one);
      left = std::move(right);
      op = find(kBinary, token().text);
      if (op == nullptr || !compares(op->name)) return out;
      ++next_;
    }
  }

  Result<NodePtr> conditional(NodePtr condition) {
    while (is("?") || is("?:")) {
      const bool brief = take("?:");
      if (!brief) QM_TRY(expect("?"));
      NodePtr then = condition;
      if (!brief && !is(":")) {
        QM_ASSIGN(then, expression(0));
      }
      if (!brief) QM_TRY(expect(":"));
      QM_ASSIGN(auto otherwise, expression(0));
      QM_ASSIGN(condition, make(Kind::kConditional, "?", {condition, then, otherwise}));
    }
    return condition;
  }

  Result<NodePtr> primary() {
    if (const Operator* op = find(kUnary, token().text); op != nullptr) {
      ++next_;
      QM_ASSIGN(auto operand, expression(op->precedence));
      return make(Kind::kUnary, op->name, {operand});
    }
    NodePtr out;
    if (take("(")) {
      QM_ASSIGN(out, expression(0));
      QM_TRY(expect(")"));
    } else if (take("[")) {
      QM_ASSIGN(auto items, arguments("]"));
      QM_ASSIGN(out, make(Kind::kList, "", std::move(items)));
    } else if (take("#")) {
      QM_ASSIGN(out, element());
    } else if (token().type == Token::Type::kNumber) {
      QM_ASSIGN(out, number());
    } else if (token().type == Token::Type::kWord) {
      QM_ASSIGN(out, word());
    } else {
      return wrong("a value is expected");
    }
    return postfix(std::move(out));
  }

  Result<NodePtr> element() {
    if (predicates_ == 0) return wrong("# is for predicates");
    std::string_view which;
    if (token().type == Token::Type::kWord && token().at == tokens_[next_ - 1].at + 1) {
      which = token().text;
      if (which != "index" && which != "acc") return wrong("#index or #acc is expected");
      ++next_;
    }
    return make(Kind::kElement, which, {});
  }

  Result<NodePtr> number() {
    std::string digits(token().text);
    std::erase(digits, '_');
    const auto parse = [&](auto& out, int base) {
      const auto* from = digits.data() + (base == 10 ? 0 : 2);
      const auto* end = digits.data() + digits.size();
      std::from_chars_result done{};
      if constexpr (std::is_same_v<std::decay_t<decltype(out)>, double>) {
        done = std::from_chars(from, end, out);
      } else {
        done = std::from_chars(from, end, out, base);
      }
      return done.ec == std::errc() && done.ptr == end && from != end;
    };
    const char prefix = digits.size() > 1 ? digits[1] : '\0';
    const int base = prefix == 'x' || prefix == 'X'   ? 16
                     : prefix == 'b' || prefix == 'B' ? 2
                     : prefix == 'o' || prefix == 'O' ? 8
                                                      : 10;
    Value value;
    bool fine = false;
    if (base == 10 && digits.find_first_of(".eE") != std::string::npos) {
      double number = 0;
      fine = parse(number, 10);
      value.of = number;
    } else {
      std::int64_t number = 0;
      fine = parse(number, base);
      value.of = number;
    }
    if (!fine) return wrong("this is not a number");
    ++next_;
    return make(Kind::kConstant, "", {}, std::move(value));
  }

  Result<NodePtr> word() {
    const auto name = token().text;
    if (name == "nil" || name == "true" || name == "false") {
      ++next_;
      Value value;
      if (name != "nil") value.of = name == "true";
      return make(Kind::kConstant, "", {}, std::move(value));
    }
    if (tokens_[next_ + 1].text == "(") return function(nullptr);
    if (std::ranges::find(variables_, name) != variables_.end()) {
      ++next_;
      return make(Kind::kVariable, name, {});
    }
    if (std::ranges::find(names_, name) == names_.end()) return wrong("there is no trigger of this name");
    ++next_;
    return make(Kind::kName, name, {});
  }

  Result<NodePtr> piped(NodePtr first) {
    if (token().type != Token::Type::kWord || tokens_[next_ + 1].text != "(") {
      return wrong("a function is expected after |");
    }
    QM_ASSIGN(auto out, function(std::move(first)));
    return postfix(std::move(out));
  }

  /// A call; `first` is the argument in front of a pipe.
  Result<NodePtr> function(NodePtr first) {
    const auto name = token().text;
    const auto arity = arity_of(name);
    if (!arity) return wrong("there is no such function");
    next_ += 2;
    std::vector<NodePtr> children;
    if (first) children.push_back(std::move(first));
    while (!is(")")) {
      const bool predicate = arity->predicate && children.size() == 1;
      QM_ASSIGN(auto child, predicate ? this->predicate() : expression(0));
      children.push_back(std::move(child));
      if (!take(",")) break;
    }
    QM_TRY(expect(")"));
    if (children.size() < arity->least || children.size() > arity->most) {
      return wrong(fmt::format("{} takes {} to {} arguments", name, arity->least, arity->most));
    }
    return make(arity->predicate ? Kind::kPredicate : Kind::kCall, name, std::move(children));
  }

  Result<NodePtr> predicate() {
    ++predicates_;
    const bool braces = take("{");
    QM_ASSIGN(auto out, expression(0));
    if (braces) QM_TRY(expect("}"));
    --predicates_;
    return out;
  }

  Result<std::vector<NodePtr>> arguments(std::string_view end) {
    std::vector<NodePtr> out;
    while (!is(end)) {
      QM_ASSIGN(auto item, expression(0));
      out.push_back(std::move(item));
      if (!take(",")) break;
    }
    QM_TRY(expect(end));
    return out;
  }

  Result<NodePtr> postfix(NodePtr of) {
    while (take("[")) {
      NodePtr from;
      QM_ASSIGN(auto open, make(Kind::kConstant, "", {}));
      if (!is(":")) {
        QM_ASSIGN(from, expression(0));
      }
      if (take(":")) {
        NodePtr to = open;
        if (!is("]")) {
          QM_ASSIGN(to, expression(0));
        }
        QM_ASSIGN(of, make(Kind::kSlice, "", {of, from ? from : open, to}));
      } else {
        QM_ASSIGN(of, make(Kind::kIndex, "", {of, from}));
      }
      QM_TRY(expect("]"));
    }
    return of;
  }

  std::vector<Token> tokens_;
  std::span<const std::string> names_;
  std::vector<std::string_view> variables_;  // of the lets around
  std::size_t next_ = 0, nodes_ = 0, level_ = 0;
  int predicates_ = 0;  // nesting
};

}  // namespace

Result<NodePtr> parse(std::string_view text, std::span<const std::string> names) {
  QM_ASSIGN(auto tokens, Lexer(text).run());
  return Parser(std::move(tokens), names).run();
}

}  // namespace qm::autoscaler::replicas::formula
