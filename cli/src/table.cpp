#include "table.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::cli {
namespace {

/// Characters, not bytes: continuation bytes of UTF-8 have no width.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return out;
}

void Table::row(std::vector<std::string> cells) {
  QM_ASSERT(cells.size() == columns_.size(), "{} cells in {} columns", cells.size(), columns_.size());
  for (auto& cell : cells) cell = cell.empty() ? "-" : printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(width(columns_[c].name));
    for (const auto& cells : rows_) widths[c] = std::max(widths[c], width(cells[c]));
  }
  std::string out;
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string pad(widths[c] - width(cell), ' ');
      if (c > 0) text += "  ";
      text += columns_[c].right ? pad + cell : cell + pad;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line([&](std::size_t c) -> const std::string& { return columns_[c].name; });
  for (const auto& cells : rows_) line([&](std::size_t c) -> const std::string& { return cells[c]; });
  return out;
}

}  // namespace qm::cli
