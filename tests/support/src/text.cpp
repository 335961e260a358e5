#include "qm/testing/text.hpp"

#include <algorithm>

namespace qm::testing {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Words::Words(const std::string& line) {
  for (const auto& word : split(line, ' ')) {
    const auto at = word.find('=');
    if (at == std::string::npos) {
      plain.push_back(word);
    } else {
      named.emplace(word.substr(0, at), word.substr(at + 1));
    }
  }
}

bool Words::has(const std::string& word) const { return std::ranges::find(plain, word) != plain.end(); }

bool Words::take(const std::string& word) { return std::erase(plain, word) > 0; }

std::string Words::get(const std::string& key, const std::string& other) const {
  const auto found = named.find(key);
  return found == named.end() ? other : found->second;
}

std::int64_t Words::number(const std::string& key, std::int64_t other) const {
  const auto found = named.find(key);
  return found == named.end() ? other : std::stoll(found->second);
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::vector<TableRow> table_rows(std::string_view table) {
  std::vector<TableRow> out;
  std::string upstream;
  for (const auto& line : split(table, '\n')) {
    if (line.starts_with("# ")) {
      upstream = line;
      continue;
    }
    auto& row = out.emplace_back(upstream + "\n" + line);
    for (const auto& cell : split(line, '|')) row.cells.push_back(trimmed(cell));
  }
  return out;
}

}  // namespace qm::testing
