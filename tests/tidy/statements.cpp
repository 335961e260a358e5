#include "statements.hpp"

#include <algorithm>
#include <set>

namespace qm::tidy {
namespace {

bool is_access(std::string_view word) { return word == "public" || word == "private" || word == "protected"; }

}  // namespace

void StatementReader::read_all() {
  for (; next_ < tokens_.size(); ++next_) read(tokens_[next_]);
}

bool StatementReader::has(std::string_view word) const {
  return std::ranges::find(statement_, word, &Token::text) != statement_.end();
}

void StatementReader::read(const Token& token) {
  const auto text = token.text;
  if (text == "(") {
    if (depth_ == 0 && angles_ == 0 && !assigned_ && function_ == nullptr && !statement_.empty()) name_function();
    ++depth_;
  } else if (text == ")") {
    --depth_;
  } else if (text == "{") {
    open();
  } else if (depth_ > 0) {
    return;
  } else if (text == ";") {
    const bool removed = has("=") && (statement_.back()->text == "delete" || statement_.back()->text == "default");
    if (function_ != nullptr && !removed) declare(*function_);
    reset();
  } else if (text == "}") {
    close_scope();
    reset();
  } else if (text == ":" && statement_.size() == 1 && is_access(statement_[0]->text)) {
    access(statement_[0]->text);
    reset();
  } else {
    angles_ += text == "<" ? 1 : text == ">" && angles_ > 0 ? -1 : 0;
    assigned_ = assigned_ || (text == "=" && angles_ == 0);
    statement_.push_back(&token);
  }
}

void StatementReader::name_function() {
  static const std::set<std::string_view> kWords = {"alignas",       "decltype", "explicit", "noexcept", "requires",
                                                    "static_assert", "void",     "bool",     "int",      "double"};
  const Token* last = statement_.back();
  if (last->is_name() && !kWords.contains(last->text)) function_ = last;
}

void StatementReader::open() {
  if (open_scope(function_ == nullptr && !assigned_ && depth_ == 0)) return reset();
  const bool body = (function_ != nullptr || has("operator")) && depth_ == 0;
  if (body && function_ != nullptr) declare(*function_);
  skip_braces();
  if (body) reset();
}

void StatementReader::skip_braces() {
  int open = 0;
  do {
    open += tokens_[next_].text == "{" ? 1 : tokens_[next_].text == "}" ? -1 : 0;
  } while (open > 0 && ++next_ < tokens_.size());
}

void StatementReader::reset() {
  statement_.clear();
  function_ = nullptr;
  angles_ = depth_ = 0;
  assigned_ = false;
}

}  // namespace qm::tidy
