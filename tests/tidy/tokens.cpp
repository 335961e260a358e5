#include "tokens.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace qm::tidy {

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string code_of(const SourceFile& file, bool directives) {
  std::string text;
  bool continued = false;
  for (const auto& line : file.lines) {
    const auto start = trimmed(line);
    const bool skipped = directives ? continued || start.starts_with("#") : start.starts_with("#include");
    continued = skipped && line.ends_with("\\");
    text += skipped ? std::string(line.size(), ' ') : line;
    text += '\n';
  }
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (auto i = from; i < std::min(to, text.size()); ++i) {
      if (text[i] != '\n') text[i] = ' ';
    }
    return std::min(to, text.size());
  };
  const auto after = [&](std::string_view what, std::size_t from) {
    const auto at = text.find(what, from);
    return at == std::string::npos ? text.size() : at + what.size();
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    if (rest.starts_with("//")) {
      i = blank(i, text.find('\n', i));
    } else if (rest.starts_with("/*")) {
      i = blank(i, after("*/", i + 2));
    } else if (rest.starts_with("R\"")) {
      const auto open = text.find('(', i);
      i = blank(i, after(")" + text.substr(i + 2, open - i - 2) + "\"", open));
    } else if (text[i] == '"' || text[i] == '\'') {
      auto end = i + 1;
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      i = blank(i, end + 1);
    } else if (is_digit(text[i])) {
      auto end = i;
      while (end < text.size() && (is_letter(text[end]) || text[end] == '\'' || text[end] == '.')) ++end;
      i = blank(i, end);
    } else if (is_letter(text[i])) {
      while (i < text.size() && is_letter(text[i])) ++i;
    } else {
      ++i;
    }
  }
  return text;
}

std::vector<Token> tokens_of(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kLong = {"<=>", "->", "<=", ">=", "<<"};
  std::vector<Token> out;
  std::size_t line = 1;
  for (std::size_t i = 0; i < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0) {
      line += text[i++] == '\n' ? 1 : 0;
      continue;
    }
    std::size_t size = 1;
    while (is_letter(text[i]) && i + size < text.size() && is_letter(text[i + size])) ++size;
    for (const auto symbol : kLong) {
      if (size == 1 && text.substr(i).starts_with(symbol)) size = symbol.size();
    }
    out.push_back({text.substr(i, size), i, line});
    i += size;
  }
  return out;
}

}  // namespace qm::tidy
