// Standard words: the table in docs/glossary.md, enforced over the tree.
//
//   text of a file -> pieces (comment, string, identifier; other files: the line) -> words in lower case
//   each phrase of the table is a sequence of words: compare it with each position of a piece
#include "words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace qm::tidy {
namespace {

using Words = std::vector<std::string>;
struct Phrase {
  Words words;
  std::string instead;
};

bool is_alphabetic(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

/// "GaveWay", "gave_way" and "gave way" are the words gave, way. An apostrophe is part of a word.
Words words_of(std::string_view text) {
  Words out;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) out.push_back(std::exchange(word, {}));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!is_alphabetic(c) && !(c == '\'' && !word.empty())) {
      end();
      continue;
    }
    const bool begins =
        is_upper(c) && i > 0 &&
        (!is_upper(text[i - 1]) || (i + 1 < text.size() && is_alphabetic(text[i + 1]) && !is_upper(text[i + 1])));
    if (begins) end();
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  end();
  return out;
}

/// By first word.
const std::multimap<std::string, Phrase>& phrases() {
  static const auto all = [] {
    std::multimap<std::string, Phrase> out;
    bool inside = false;
    for (const std::string& line : lines_of("docs/glossary.md")) {
      if (line.starts_with("## ")) inside = line == "## Words that are not used";
      if (inside && line.starts_with("These words are right in one meaning only")) break;
      const auto cells = markdown_cells(line);
      if (!inside || cells.size() != 2 || cells[0] == "word" || cells[0].starts_with("---")) continue;
      for (const std::string& text : split(cells[0], ',')) {
        Phrase phrase{words_of(text), cells[1]};
        if (!phrase.words.empty()) out.emplace(phrase.words.front(), std::move(phrase));
      }
    }
    return out;
  }();
  return all;
}

bool is_excepted(const SourceFile& file, const std::string& word) {
  return std::ranges::any_of(word_exceptions(), [&](const WordException& e) {
    return file.path.starts_with(e.path) && (e.word == "*" || e.word == word);
  });
}

void search(const SourceFile& file, std::string_view piece, std::size_t line, std::vector<Finding>& out) {
  const Words words = words_of(piece);
  for (std::size_t at = 0; at < words.size(); ++at) {
    const auto [first, last] = phrases().equal_range(words[at]);
    for (auto it = first; it != last; ++it) {
      const auto& [key, phrase] = *it;
      if (phrase.words.size() > words.size() - at ||
          !std::equal(phrase.words.begin(), phrase.words.end(), words.begin() + static_cast<std::ptrdiff_t>(at)))
        continue;
      const auto text = fmt::format("{}", fmt::join(phrase.words, " "));
      if (is_excepted(file, text)) continue;
      out.push_back({file.path, line, fmt::format("\"{}\" is not a standard word; use: {}", text, phrase.instead)});
    }
  }
}

/// Identifiers one by one, comments and strings as a whole. A block comment or a raw string is searched line by line.
void search_code(const SourceFile& file, std::vector<Finding>& out) {
  enum class State { kCode, kBlock, kRaw } state = State::kCode;
  for (std::size_t number = 0; number < file.lines.size(); ++number) {
    const std::string& line = file.lines[number];
    std::size_t i = 0;
    const auto piece = [&](std::size_t to) {
      search(file, std::string_view(line).substr(i, to - i), number + 1, out);
      i = to;
    };
    while (i < line.size()) {
      if (state != State::kCode) {
        const std::string_view close = state == State::kBlock ? "*/" : ")\"";
        const auto end = line.find(close, i);
        piece(end == std::string::npos ? line.size() : end + close.size());
        if (end != std::string::npos) state = State::kCode;
      } else if (line.compare(i, 2, "//") == 0) {
        piece(line.size());
      } else if (line.compare(i, 2, "/*") == 0) {
        state = State::kBlock;
        i += 2;
      } else if (line.compare(i, 3, "R\"(") == 0) {
        state = State::kRaw;
        i += 3;
      } else if (line[i] == '"') {
        std::size_t end = i + 1;
        while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
        piece(std::min(end + 1, line.size()));
      } else if (is_alphabetic(line[i]) || line[i] == '_') {
        std::size_t end = i;
        while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_'))
          ++end;
        piece(end);
      } else {
        ++i;
      }
    }
  }
}

// ---- sentences ----

/// The text of a documentation comment on the line; nothing if there is none.
std::optional<std::string> documentation(const std::string& line) {
  const auto at = line.find("///");
  if (at == std::string::npos) return std::nullopt;
  const auto begin = line.compare(at, 4, "///<") == 0 ? at + 4 : at + 3;
  return line.substr(begin);
}

/// "Order    first, then last" begins a paragraph; its label is not part of the sentence.
std::string without_label(const std::string& text) {
  const std::string line = trimmed(text);
  const auto gap = line.find("  ");
  const bool label = gap != std::string::npos && gap <= 10 && is_upper(line[0]) && line.find(' ') == gap;
  return label ? trimmed(line.substr(gap)) : line;
}

bool has_columns(const std::string& text) { return without_label(text).find("  ") != std::string::npos; }

std::size_t count_words(std::string_view sentence) {
  std::size_t count = 0;
  bool inside = false;
  for (const char c : sentence) {
    const bool part = std::isspace(static_cast<unsigned char>(c)) == 0;
    if (part && !inside) ++count;
    inside = part;
  }
  return count;
}

void check_paragraph(const SourceFile& file, const std::string& text, std::size_t line, std::vector<Finding>& out) {
  std::string sentence;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool ends = i == text.size() || (std::string_view(".;:!?").find(text[i]) != std::string_view::npos &&
                                           (i + 1 == text.size() || text[i + 1] == ' '));
    if (i < text.size()) sentence += text[i];
    if (!ends) continue;
    const auto count = count_words(sentence);
    if (count > kMaxWords) {
      out.push_back({file.path, line,
                     fmt::format("a sentence of {} words, at most {}; split it: {}", count, kMaxWords,
                                 trimmed(sentence).substr(0, 80))});
    }
    sentence.clear();
  }
}

}  // namespace

std::vector<Finding> standard_words(const SourceFile& file) {
  std::vector<Finding> out;
  if (file.path == "docs/glossary.md") return out;
  if (file.is_code() || file.ends(".proto")) {
    search_code(file, out);
  } else {
    for (std::size_t i = 0; i < file.lines.size(); ++i) search(file, file.lines[i], i + 1, out);
  }
  return out;
}

std::vector<Finding> short_sentences(const SourceFile& file) {
  std::vector<Finding> out;
  if (file.path.find("/include/") == std::string::npos || !file.ends(".hpp")) return out;
  std::string paragraph;
  std::size_t began = 0;
  const auto end = [&] {
    if (!paragraph.empty()) check_paragraph(file, std::exchange(paragraph, {}), began, out);
  };
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const auto text = documentation(file.lines[i]);
    const bool member = text && file.lines[i].find("///<") != std::string::npos;
    if (!text || member || trimmed(*text).empty() || has_columns(*text) || without_label(*text) != trimmed(*text))
      end();
    if (!text || has_columns(*text)) continue;
    if (paragraph.empty()) began = i + 1;
    paragraph += (paragraph.empty() ? "" : " ") + without_label(*text);
    if (member) end();
  }
  end();
  return out;
}

const std::vector<WordException>& word_exceptions() {
  static const std::vector<WordException> all = {
      {"tests/tidy/", "*", "plants violations of the rules, and names the words that they search for"},
      {"tools/peers/kafka.sh", "everyone", "allow.everyone.if.no.acl.found is a setting of Kafka"},
  };
  return all;
}

}  // namespace qm::tidy
