#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::testing {

// Shared functions of parsers of text tables.

/// The parts between the separators, without empty ones.
std::vector<std::string> split(std::string_view text, char separator);
/// The words of one command of a text table: plain ones by position, "key=value" ones by name.
struct Words {
  explicit Words(const std::string& line);
  [[nodiscard]] bool has(const std::string& word) const;
  /// Removes a plain word; returns whether it was present.
  bool take(const std::string& word);
  [[nodiscard]] std::string get(const std::string& key, const std::string& other = "") const;
  [[nodiscard]] std::int64_t number(const std::string& key, std::int64_t other) const;

  std::vector<std::string> plain;
  std::multimap<std::string, std::string> named;
};
/// Without the spaces and tabs at both ends.
std::string trimmed(std::string_view text);

/// A line of cells of a table of cases, in which each line "# NAME" names the upstream test of the following lines.
struct TableRow {
  std::string text;                ///< the name and the line, for the message of a failure
  std::vector<std::string> cells;  ///< those between "|", trimmed
};
std::vector<TableRow> table_rows(std::string_view table);

}  // namespace qm::testing
