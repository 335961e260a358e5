#pragma once
#include "tokens.hpp"

#include <string_view>
#include <vector>

namespace qm::tidy {

/// Reads the statements of namespaces and classes in a text without comments. Bodies of functions and initializers are
/// skipped. A statement declares the first name before a parenthesis.
class StatementReader {
 protected:
  explicit StatementReader(std::string_view text) : tokens_(tokens_of(text)) {}
  ~StatementReader() = default;

  void read_all();

  /// A namespace or a class begins; false: the statement begins neither of them that counts.
  virtual bool open_scope(bool type) = 0;
  virtual void close_scope() = 0;
  /// "public", "private" or "protected".
  virtual void access(std::string_view word) = 0;
  /// The statement declares or defines the function.
  virtual void declare(const Token& function) = 0;

  [[nodiscard]] bool has(std::string_view word) const;
  [[nodiscard]] const std::vector<const Token*>& statement() const { return statement_; }

 private:
  void read(const Token& token);
  void name_function();
  void open();
  void skip_braces();
  void reset();

  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::vector<const Token*> statement_;
  const Token* function_ = nullptr;
  int angles_ = 0, depth_ = 0;
  bool assigned_ = false;
};

}  // namespace qm::tidy
