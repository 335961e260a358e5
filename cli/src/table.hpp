#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace qm::cli {

/// Text in aligned columns, two spaces apart; numbers are right-aligned. An empty cell is "-". Control characters are
/// replaced with spaces, so that no text of a service moves the cursor of a terminal.
class Table {
 public:
  struct Column {
    std::string name;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell for each column.
  void row(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// The heading and the rows; lines have no trailing spaces.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// The text without control characters.
std::string printable(std::string_view text);

}  // namespace qm::cli
