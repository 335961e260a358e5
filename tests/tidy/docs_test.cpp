// Statements of the documents about the tree are true.
#include "rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::tidy {
namespace docs_test {

/// The verbs of ./qm: "  name) ..." inside its case over $verb.
std::set<std::string> verbs() {
  std::set<std::string> out;
  bool inside = false;
  for (const auto& line : lines_of("qm")) {
    if (line.starts_with("case $verb in")) inside = true;
    if (line.starts_with("esac")) inside = false;
    if (!inside || line.find(')') == std::string::npos) continue;
    for (const auto& name : split(line.substr(0, line.find(')')), '|')) out.insert(trimmed(name));
  }
  return out;
}

TEST(Documents, NameOnlyVerbsThatExist) {
  const auto known = verbs();
  ASSERT_TRUE(known.contains("demo") && known.contains("test"));
  for (const SourceFile& file : tree()) {
    if (!file.ends(".md") || file.under("docs/adr/")) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      for (auto at = line.find("./qm "); at != std::string::npos; at = line.find("./qm ", at + 1)) {
        const auto from = at + 5;
        const auto end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz", from);
        const std::string verb = line.substr(from, end == std::string::npos ? end : end - from);
        EXPECT_TRUE(verb.empty() || known.contains(verb)) << file.path << ":" << i + 1 << ": there is no ./qm " << verb;
      }
    }
  }
}

/// docs/architecture.md repeats the table of allowed dependencies for readers: "| libs/bus | base, pg |".
TEST(Documents, TheArchitecturePageHasTheArrows) {
  std::map<std::string, std::string> written;
  for (const auto& line : lines_of("docs/architecture.md")) {
    const auto cells = markdown_cells(line);
    if (cells.size() == 3 && cells[0].starts_with("`libs/")) written[cells[0]] = cells[1];
  }
  for (const Arrows& a : arrows()) {
    if (!a.module.starts_with("libs/")) continue;
    std::string may;
    for (const auto name : a.may) may += (may.empty() ? "" : ", ") + std::string(name);
    const std::string folder(a.module.substr(0, a.module.size() - 1));
    EXPECT_EQ(written["`" + folder + "`"], may.empty() ? "nothing" : may) << folder;
  }
}

TEST(Documents, EveryTopicHasItsRow) {
  std::set<std::string> topics;
  for (const SourceFile& file : tree()) {
    if (!file.under("services/") || !file.is_code() || file.is_test()) continue;
    for (const auto& line : file.lines) {
      for (auto at = line.find("\"qm."); at != std::string::npos; at = line.find("\"qm.", at + 1)) {
        topics.insert(line.substr(at + 1, line.find('"', at + 1) - at - 1));
      }
    }
  }
  ASSERT_GE(topics.size(), 7U);
  std::set<std::string> written;
  for (const auto& line : lines_of("docs/api.md")) {
    const auto cells = markdown_cells(line);
    if (!cells.empty()) {
      for (const auto& name : quoted_names(cells[0])) written.insert(name);
    }
  }
  for (const auto& topic : topics) EXPECT_TRUE(written.contains(topic)) << topic << " is not in docs/api.md";
}

}  // namespace docs_test
}  // namespace qm::tidy
