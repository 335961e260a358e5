// docs/lifecycle.md is a table of state transitions and messages of a workload. Each row names a test that covers it,
// and every state and message of an engine has a row.
#include "tree.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace qm::tidy {
namespace lifecycle_test {

// | id | state | message | what happens | timeout | lost, late, doubled | test |
struct Row {
  std::string id, section, state, message, test;
  std::vector<std::string> cells;
};

constexpr std::size_t kColumns = 7;

std::vector<Row> read_rows() {
  std::vector<Row> rows;
  std::string section;
  for (const auto& line : lines_of("docs/lifecycle.md")) {
    if (line.starts_with("## ")) section = line.substr(3);
    auto cells = markdown_cells(line);
    if (cells.empty() || !cells[0].starts_with("LC-")) continue;
    if (cells.size() != kColumns) {
      ADD_FAILURE() << cells[0] << " has " << cells.size() << " cells, " << kColumns << " belong there";
      continue;
    }
    rows.push_back({cells[0], section, cells[1], cells[2], cells[6], cells});
  }
  return rows;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = read_rows();
  return all;
}

std::string text_of(std::string_view path) {
  std::string text;
  for (const auto& line : lines_of(path)) text += line.substr(0, line.find("//")) + " ";
  return text;
}

/// The identifiers in `begin ... end` after a marker.
std::vector<std::string> words_between(const std::string& text, const std::string& marker, char open, char close) {
  const auto at = text.find(marker);
  if (at == std::string::npos) return {};
  const auto from = text.find(open, at) + 1;
  std::vector<std::string> out;
  for (const auto& part : split(text.substr(from, text.find(close, from) - from), ',')) {
    const std::string word = trimmed(part.substr(0, part.find('=')));
    if (!word.empty()) out.push_back(word);
  }
  return out;
}

struct Machine {
  const char* section;
  const char* states_in;
  const char* states;  ///< "enum class Phase"
  const char* commands_in;
};
const Machine kMachines[] = {
    {"Admission", "services/admission/include/qm/admission/workload.hpp", "enum class Phase",
     "services/admission/include/qm/admission/commands.hpp"},
    {"Placement", "services/placement/include/qm/placement/rows/assignments.hpp", "enum class AssignmentState",
     "services/placement/include/qm/placement/commands.hpp"},
    {"Autoscaler", "services/autoscaler/include/qm/autoscaler/tables.hpp", "enum class ClaimState",
     "services/autoscaler/include/qm/autoscaler/commands.hpp"},
    {"Telemetry", nullptr, nullptr, "services/telemetry/include/qm/telemetry/engine.hpp"},
};

TEST(Lifecycle, RowsAreNumberedAndWhole) {
  ASSERT_GT(rows().size(), 50U);
  for (std::size_t i = 0; i < rows().size(); ++i) {
    EXPECT_EQ(rows()[i].id, fmt::format("LC-{:02}", i + 1));
    for (std::size_t c = 0; c < kColumns; ++c)
      EXPECT_FALSE(rows()[i].cells[c].empty()) << rows()[i].id << " column " << c + 1;
  }
}

TEST(Lifecycle, EachRowIsShownByATest) {
  for (const Row& row : rows()) {
    const auto names = quoted_names(row.test);
    EXPECT_FALSE(names.empty()) << row.id << " names no test";
    for (const auto& name : names)
      EXPECT_TRUE(tests().contains(name)) << row.id << ": there is no test \"" << name << "\"";
  }
}

TEST(Lifecycle, EachStateHasARow) {
  for (const Machine& m : kMachines) {
    if (m.states == nullptr) continue;
    const auto states = words_between(text_of(m.states_in), m.states, '{', '}');
    ASSERT_GE(states.size(), 5U) << m.section;
    for (const auto& state : states) {
      const std::string name = state.substr(1);  // kPending -> Pending
      const bool found = std::ranges::any_of(
          rows(), [&](const Row& r) { return r.section.starts_with(m.section) && has_word(r.state, name); });
      EXPECT_TRUE(found) << m.section << " has the state " << name << " and docs/lifecycle.md no row for it";
    }
  }
}

TEST(Lifecycle, EachMessageHasARow) {
  for (const Machine& m : kMachines) {
    const auto commands = words_between(text_of(m.commands_in), "using Command", '<', '>');
    ASSERT_GE(commands.size(), 5U) << m.section;
    for (const auto& command : commands) {
      const bool found = std::ranges::any_of(
          rows(), [&](const Row& r) { return r.section.starts_with(m.section) && has_word(r.message, command); });
      EXPECT_TRUE(found) << m.section << " hears " << command << " and docs/lifecycle.md has no row for it";
    }
  }
}

}  // namespace lifecycle_test
}  // namespace qm::tidy
