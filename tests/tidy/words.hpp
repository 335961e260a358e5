#pragma once
#include "rules.hpp"

namespace qm::tidy {

/// Finds the words of the first table of "Words that are not used" in docs/glossary.md, in comments, strings and identifiers of
/// code and in every line of other text files. A phrase is also found across the parts of an identifier: `gave_way`, `GaveWay`.
std::vector<Finding> standard_words(const SourceFile& file);

/// Finds sentences of more than kMaxWords words in the comments of public headers. Lines with columns are no sentences.
std::vector<Finding> short_sentences(const SourceFile& file);
inline constexpr std::size_t kMaxWords = 25;

/// A place where a word is right, with the reason. At most kMaxExceptions.
struct WordException {
  std::string_view path, word, reason;
};
const std::vector<WordException>& word_exceptions();
inline constexpr std::size_t kMaxExceptions = 20;

}  // namespace qm::tidy
