#pragma once
#include "tree.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// C++ as tokens, for rules that need declarations without a parser.
namespace qm::tidy {

/// The lines of a file as one text in which comments, texts, characters and numbers are blank, and with
/// `directives` all lines of the preprocessor, otherwise only its includes.
[[nodiscard]] std::string code_of(const SourceFile& file, bool directives);

[[nodiscard]] bool is_letter(char c);

/// A name or a symbol of a text. It refers to the text, which has to live longer.
struct Token {
  std::string_view text;
  std::size_t at = 0, line = 1;
  [[nodiscard]] bool is_name() const { return is_letter(text[0]); }
};
[[nodiscard]] std::vector<Token> tokens_of(std::string_view text);

}  // namespace qm::tidy
