#include "tree.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace qm::tidy {
namespace fs = std::filesystem;

namespace {

bool is_text(const std::string& path) {
  static constexpr std::array kSuffixes = {
      ".cpp",  ".hpp", ".proto", ".cmake", ".txt", ".sh",     ".py",           ".md",         ".csv",      ".json",
      ".yaml", ".yml", ".xml",   ".sql",   "/qm",  ".ci/run", ".clang-format", ".clang-tidy", ".gitignore"};
  const std::string rooted = "/" + path;
  return std::any_of(kSuffixes.begin(), kSuffixes.end(), [&](const char* s) { return rooted.ends_with(s); });
}

bool is_skipped(const std::string& name, bool at_root) {
  if (at_root && (name.starts_with("build") || name == "shared")) return true;
  return name == "__pycache__" || (name.starts_with(".") && name != ".ci");
}

void walk(const fs::path& folder, const std::string& prefix, std::vector<SourceFile>& out) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      if (!is_skipped(name, prefix.empty())) walk(entry.path(), prefix + name + "/", out);
    } else if (is_text(prefix + name)) {
      std::stringstream text;
      text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      out.push_back(make_file(prefix + name, text.str()));
    }
  }
}

// TEST(Suite, Name), TEST_F, TEST_P, TYPED_TEST, TYPED_TEST_P, RC_GTEST_PROP and their like, at the start of a line.
std::optional<std::string> test_name(std::string_view line) {
  static constexpr std::array kMacros = {
      "TEST(", "TEST_F(", "TEST_P(", "TYPED_TEST(", "TYPED_TEST_P(", "RC_GTEST_PROP(", "RC_GTEST_FIXTURE_PROP("};
  for (const std::string_view macro : kMacros) {
    if (!line.starts_with(macro)) continue;
    auto parts = split(line.substr(macro.size(), line.find(')') - macro.size()), ',');
    if (parts.size() < 2) return std::nullopt;
    return trimmed(parts[0]) + "." + trimmed(parts[1]);
  }
  return std::nullopt;
}

}  // namespace

bool SourceFile::is_test() const {
  return under("tests/") || path.find("/test/") != std::string::npos || ends("_test.cpp");
}

SourceFile make_file(std::string path, std::string_view text) {
  SourceFile file{std::move(path), {}};
  while (!text.empty()) {
    const auto end = text.find('\n');
    file.lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return file;
}

const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = [] {
    std::vector<SourceFile> out;
    walk(QM_SOURCE_DIR, "", out);
    std::ranges::sort(out, {}, &SourceFile::path);
    return out;
  }();
  return files;
}

const SourceFile* find_file(std::string_view path) {
  const auto it = std::ranges::find(tree(), path, &SourceFile::path);
  return it == tree().end() ? nullptr : &*it;
}

const std::vector<std::string>& lines_of(std::string_view path) {
  const SourceFile* file = find_file(path);
  QM_ASSERT(file != nullptr, "{} is missing", path);
  return file->lines;
}

const std::map<std::string, const SourceFile*>& tests() {
  static const std::map<std::string, const SourceFile*> all = [] {
    std::map<std::string, const SourceFile*> out;
    for (const SourceFile& file : tree()) {
      if (!file.is_test()) continue;
      const bool cases = file.ends(".txt") && file.path.find("/cases/") != std::string::npos;
      const std::string base = file.path.substr(file.path.rfind('/') + 1);
      for (const auto& line : file.lines) {
        if (cases && line.starts_with("== ")) out.emplace(base + ": " + trimmed(line.substr(3)), &file);
        if (!file.is_code()) continue;
        if (const auto name = test_name(line)) out.emplace(*name, &file);
      }
    }
    return out;
  }();
  return all;
}

std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      out.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::vector<std::string> markdown_cells(std::string_view line) {
  const std::string row = trimmed(line);
  if (row.size() < 2 || row.front() != '|' || row.back() != '|') return {};
  std::vector<std::string> out;
  for (const auto& cell : split(std::string_view(row).substr(1, row.size() - 2), '|')) out.push_back(trimmed(cell));
  return out;
}

std::vector<std::string> quoted_names(std::string_view text) {
  std::vector<std::string> out;
  const auto parts = split(text, '`');
  for (std::size_t i = 1; i < parts.size(); i += 2) out.push_back(parts[i]);
  return out;
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (;;) {
    const auto end = text.find(separator);
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::size_t code_lines(const SourceFile& file) {
  return static_cast<std::size_t>(std::ranges::count_if(file.lines, [](const std::string& line) {
    const std::string text = trimmed(line);
    return !text.empty() && !text.starts_with("//");
  }));
}

bool has_word(std::string_view line, std::string_view word) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (auto at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || !is_letter(line[at - 1])) && (end == line.size() || !is_letter(line[end]))) return true;
  }
  return false;
}

}  // namespace qm::tidy
