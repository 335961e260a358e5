// docs/coverage.csv has the status of each requirement. The status must be true: it requires a test that has the
// requirement's id, and the number of working requirements never decreases.
#include "qm/testing/testing.hpp"
#include "tree.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

namespace qm::tidy {
namespace coverage_test {

constexpr std::size_t kRequirements = 498;

struct Row {
  std::string id, what, status, note;
  std::vector<std::string> tests;
};

std::string requirement(std::size_t n) { return fmt::format("S-{:03}", n); }

std::vector<Row> read_rows(const std::vector<std::string>& lines) {
  std::vector<Row> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto f = csv_fields(lines[i]);
    if (f.size() != 5) {
      ADD_FAILURE() << "docs/coverage.csv:" << i + 1 << ": " << f.size() << " fields, 5 belong there";
      continue;
    }
    Row row{f[0], f[1], f[2], f[4], {}};
    for (const auto& name : split(f[3], ';')) {
      if (!trimmed(name).empty()) row.tests.push_back(trimmed(name));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = read_rows(lines_of("docs/coverage.csv"));
  return all;
}

bool carries(const SourceFile& file, const std::string& id) {
  return std::ranges::any_of(file.lines, [&](const std::string& line) { return has_word(line, id); });
}

/// The error of a row; empty if it is valid.
std::string complaint(const Row& row) {
  const bool earned = row.status == "works" || row.status == "partial";
  if (!earned && row.status != "open" && row.status != "interoperates") {
    return "status \"" + row.status + "\" is none of works, partial, open, interoperates";
  }
  if (row.what.empty()) return "it does not say what it is";
  if (row.status == "open" && !row.tests.empty()) return "it is open and names a test; say partial or works";
  if (!earned) return {};
  if (row.tests.empty()) return "it is " + row.status + " and names no test";
  for (const auto& name : row.tests) {
    const auto it = tests().find(name);
    if (it == tests().end()) return "there is no test " + name;
    if (!carries(*it->second, row.id)) return it->second->path + " does not carry the id " + row.id;
  }
  if (row.status == "partial" && row.note.find("missing:") == std::string::npos) {
    return "it is partial; its note must end with \"missing:\" and what is missing";
  }
  return {};
}

TEST(Coverage, HasEachRequirementOnceInOrder) {
  EXPECT_EQ(lines_of("docs/coverage.csv").front(), "id,what,status,test,note");
  ASSERT_EQ(rows().size(), kRequirements);
  for (std::size_t i = 0; i < rows().size(); ++i) EXPECT_EQ(rows()[i].id, requirement(i + 1));
}

TEST(Coverage, EachStatusIsEarned) {
  for (const Row& row : rows()) {
    if (const auto wrong = complaint(row); !wrong.empty()) ADD_FAILURE() << row.id << ": " << wrong;
  }
}

TEST(Coverage, AnUnearnedStatusIsFound) {
  // Built at run time, so that this file does not contain the id itself.
  const std::string id = requirement(397);
  const std::string real = "Coverage.AnUnearnedStatusIsFound";
  EXPECT_EQ(complaint({id, "x", "open", "", {}}), "");
  EXPECT_NE(complaint({id, "x", "done", "", {}}), "");
  EXPECT_NE(complaint({id, "x", "works", "", {}}), "");
  EXPECT_NE(complaint({id, "x", "works", "", {"No.SuchTest"}}), "");
  EXPECT_NE(complaint({id, "x", "works", "", {real}}), "") << "the file does not carry the id";
  EXPECT_NE(complaint({id, "x", "open", "", {real}}), "");
  const std::string known = "Coverage.HasEachRequirementOnceInOrder";
  EXPECT_NE(complaint({"", "x", "partial", "a part", {known}}), "");
}

TEST(Coverage, AnIdInATestHasItsRow) {
  for (const SourceFile& file : tree()) {
    if (!file.is_test()) continue;
    for (const Row& row : rows()) {
      if (row.status != "open" || !carries(file, row.id)) continue;
      ADD_FAILURE() << file.path << " carries " << row.id << ", whose row is open";
    }
  }
}

TEST(Coverage, NeverFallsBelowTheFloor) {
  const auto& lines = lines_of("docs/coverage-floor.csv");
  ASSERT_EQ(lines.front(), "status,at_least");
  ASSERT_GE(lines.size(), 2U);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto f = csv_fields(lines[i]);
    ASSERT_EQ(f.size(), 2U) << lines[i];
    std::int64_t floor = 0;
    const auto [end, error] = std::from_chars(f[1].data(), f[1].data() + f[1].size(), floor);
    ASSERT_TRUE(error == std::errc() && end == f[1].data() + f[1].size()) << lines[i];
    const auto n = std::ranges::count(rows(), f[0], &Row::status);
    EXPECT_GE(n, floor) << "fewer requirements are \"" << f[0]
                        << "\" than before; raise the floor with each new one, never lower it";
  }
}

/// The requirements that other tools implement, according to our table.
std::set<std::string> work_of_others() {
  std::set<std::string> out;
  const auto& lines = lines_of("docs/interoperates.csv");
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto f = csv_fields(lines[i]);
    EXPECT_EQ(f.size(), 2U) << lines[i];
    EXPECT_TRUE(f.size() == 2 && !f[1].empty()) << lines[i] << " does not say whose work it is";
    EXPECT_TRUE(out.insert(f[0]).second) << f[0] << " is there twice";
  }
  return out;
}

TEST(Coverage, OnlyWhatIsOthersWorkInteroperates) {
  const auto others = work_of_others();
  std::size_t found = 0;
  for (const Row& row : rows()) {
    found += others.count(row.id);
    if (row.status != "interoperates") continue;
    EXPECT_TRUE(others.contains(row.id)) << row.id << " is our own work";
  }
  EXPECT_EQ(found, others.size()) << "the table names a requirement that does not exist";

  // "| id | seed | what | part | check |" of the reference, if present.
  const auto shared = qm::testing::shared_dir();
  if (!shared || !std::filesystem::exists(*shared + "/reference/seeds.md")) return;
  std::map<std::string, std::string> part;
  for (const auto& line : make_file("seeds.md", qm::testing::read_file(*shared + "/reference/seeds.md")).lines) {
    const auto cells = markdown_cells(line);
    if (cells.size() >= 5 && cells[0].starts_with("S-")) part[cells[0]] = cells[3];
  }
  ASSERT_EQ(part.size(), kRequirements);
  for (const auto& [id, whose] : part) {
    EXPECT_EQ(others.contains(id), whose.find("out-of-scope-interoperate") != std::string::npos)
        << id << " is the work of " << whose;
  }
}

TEST(Documents, EachThreatHasAControlAndATest) {  // S-358
  std::string threats;
  for (const auto& line : lines_of("docs/security.md")) {
    const auto cells = markdown_cells(line);
    if (cells.size() != 3 || quoted_names(cells[2]).empty()) continue;
    threats += cells[0] + "\n";
    EXPECT_FALSE(cells[1].empty()) << cells[0] << " has no control";
    for (const auto& name : quoted_names(cells[2])) {
      EXPECT_TRUE(tests().contains(name)) << cells[0] << " names the test " << name << ", which does not exist";
    }
  }
  for (const char* known : {"side channels", "drivers", "exfiltration"}) {
    EXPECT_NE(threats.find(known), std::string::npos) << known;
  }
}

TEST(Documents, SayWhenAnotherToolSuitsBetter) {  // S-114 S-421
  std::string section;
  bool inside = false;
  for (const auto& line : lines_of("README.md")) {
    if (line.starts_with("## ")) inside = line == "## When you do not need it";
    if (inside) section += line + "\n";
  }
  for (const char* other : {"Slurm", "VM", "kube-scheduler", "Kueue"}) {
    EXPECT_NE(section.find(other), std::string::npos) << other;
  }
}

/// S-097: the comparison has the values of the reference table for both, and for each criterion our corresponding
/// setting.
TEST(Documents, CompareKueueAndVolcanoAndNameOurSetting) {
  std::map<std::string, std::vector<std::string>> ours;
  for (const auto& line : lines_of("docs/adoption.md")) {
    auto cells = split(line, '|');
    for (auto& cell : cells) cell = trimmed(cell);
    if (cells.size() >= 6) ours[cells[1]] = {cells[2], cells[3], cells[4]};
  }
  for (const auto& folder : qm::testing::data_folders("tables")) {
    SCOPED_TRACE(folder);
    std::size_t criteria = 0;
    const auto lines = split(qm::testing::read_file(folder + "/kueue-vs-volcano.csv"), '\n');
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const auto f = csv_fields(trimmed(lines[i]));
      if (f.size() < 3) continue;
      SCOPED_TRACE(f[0]);
      ++criteria;
      ASSERT_TRUE(ours.contains(f[0]));
      EXPECT_EQ(ours[f[0]][0], f[1]);
      EXPECT_EQ(ours[f[0]][1], f[2]);
      EXPECT_NE(ours[f[0]][2].find('`'), std::string::npos) << "no setting is named";
    }
    EXPECT_EQ(criteria, 5U);
  }
}

/// S-025, S-400, S-421, S-422: gaps in the requirements are recorded, each with its row.
TEST(Documents, RecordTheGapsOfTheRequirements) {
  std::set<std::string> recorded;
  bool inside = false;
  for (const auto& line : lines_of("docs/decisions.md")) {
    if (line.starts_with("## ")) inside = line == "## Gaps";
    if (inside && line.starts_with("| S-")) recorded.insert(line.substr(2, 5));
  }
  for (const Row& row : rows()) {
    const bool says_so = row.note.find("gap recorded") != std::string::npos ||
                         row.note.find("recorded as a gap") != std::string::npos ||
                         row.what.find("recorded gap") != std::string::npos;
    EXPECT_TRUE(!says_so || recorded.contains(row.id)) << row.id;
  }
  EXPECT_GE(recorded.size(), 6U);
}

TEST(Decisions, AllAreThereWithDefaultSettingAndTest) {
  struct Section {
    std::string title, text;
  };
  std::map<std::string, Section> sections;
  std::set<std::string> listed;  ///< in the table at the top of the page
  std::string open;
  for (const auto& line : lines_of("docs/decisions.md")) {
    if (line.starts_with("| [C-")) listed.insert(line.substr(3, 4));
    if (line.starts_with("## ")) {
      open = line.size() > 7 && line.starts_with("## C-") ? line.substr(3, 4) : "";
      if (!open.empty()) {
        EXPECT_FALSE(sections.contains(open)) << open << " is there twice";
        sections[open].title = line;
      }
    } else if (!open.empty()) {
      sections[open].text += line + "\n";
    }
  }
  ASSERT_GE(sections.size(), 17U);
  EXPECT_EQ(listed.size(), sections.size());
  for (const auto& [id, section] : sections) {
    EXPECT_TRUE(listed.contains(id)) << id << " is not in the table";
    const std::string& text = section.text;
    for (const char* part : {"**Conflict.**", "**Default.**", "**Setting.**", "**Test.**"}) {
      EXPECT_NE(text.find(part), std::string::npos) << id << " has no " << part;
    }
    // A test exists, or the page has the date when it will.
    std::string test = text.substr(std::min(text.find("**Test.**"), text.size()));
    std::ranges::replace(test, '\n', ' ');
    std::ranges::transform(test, test.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (test.find("not yet") != std::string::npos) continue;
    for (const auto& name : quoted_names(text.substr(text.find("**Test.**")))) {
      EXPECT_TRUE(tests().contains(name)) << id << " names the test " << name << ", which does not exist";
    }
  }
}

}  // namespace coverage_test
}  // namespace qm::tidy
