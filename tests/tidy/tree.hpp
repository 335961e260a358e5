#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::tidy {

/// One text file of the repository.
struct SourceFile {
  std::string path;  ///< from the root, with slashes
  std::vector<std::string> lines;
  [[nodiscard]] bool under(std::string_view folder) const { return path.starts_with(folder); }
  [[nodiscard]] bool ends(std::string_view suffix) const { return path.ends_with(suffix); }
  [[nodiscard]] bool is_code() const { return ends(".cpp") || ends(".hpp"); }
  [[nodiscard]] bool is_test() const;
};

SourceFile make_file(std::string path, std::string_view text);

/// Every text file of the sources, in order of path; without build folders, caches and hidden folders.
const std::vector<SourceFile>& tree();
const SourceFile* find_file(std::string_view path);
/// The lines of a file, which must exist.
const std::vector<std::string>& lines_of(std::string_view path);

/// All tests, by the names that the tables in docs/ use, with the file that contains them:
///   Suite.Name            a gtest or rapidcheck test
///   handshake.txt: title  a case of a case file
const std::map<std::string, const SourceFile*>& tests();

/// Fields of one CSV line (RFC 4180, no line breaks in fields).
std::vector<std::string> csv_fields(std::string_view line);
/// Cells of one row of a Markdown table, trimmed; empty if the line is not a row.
std::vector<std::string> markdown_cells(std::string_view line);
/// The texts between back-quotes.
std::vector<std::string> quoted_names(std::string_view text);
std::string trimmed(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
/// The number of lines of a C++ file that are neither blank nor only a comment.
std::size_t code_lines(const SourceFile& file);
bool has_word(std::string_view line, std::string_view word);

}  // namespace qm::tidy
