// A table of a small program: values, defaults, errors and help.
#include "qm/settings/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace qm::settings {
namespace settings_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Mode : std::uint8_t { kOff, kWarn, kOn };
struct Limits {
  std::size_t nodes = 4;
  bool operator==(const Limits&) const = default;
};
struct Options {
  Duration hold = 5min;
  Mode mode = Mode::kOff;
  Limits limits;
  std::set<std::string> pools{"a", "b"};
  bool strict = false, defrag = false;
  std::string file, owner = "auto";
  bool operator==(const Options&) const = default;
};

const Table<Options>& table() {
  static const Table<Options> table{
      {"hold", duration(1s, 24h), at(&Options::hold), "Life of a reservation."},
      {"mode", choice<Mode>({{"off", Mode::kOff}, {"warn", Mode::kWarn}, {"on", Mode::kOn}}), at(&Options::mode),
       "What a rule does."},
      {"nodes", integer(1, 1000, "nodes"), at(&Options::limits, &Limits::nodes), "Nodes at once."},
      {"pools", list<std::set<std::string>>("names of pools, or none", "none"), at(&Options::pools), "Pools."},
      {"strict", boolean(), at(&Options::strict), "Refuses a|b."},
      {"defrag", on_off(), at(&Options::defrag), "Migrates."},
      {"file", path(), into([](Options& o, const std::string& file) -> Status {
         if (file == "/missing") return fail(Code::kNotFound, "{} cannot be read", file);
         o.file = file;
         return {};
       }),
       "A file."},
      {"owner", text("the name of a controller"), at(&Options::owner), "Owner of quota."},
  };
  return table;
}

Options taken(const Values& given) {
  const auto read = table().read(given);
  EXPECT_TRUE(read) << read.error().to_string();
  return read ? *read : Options{};
}
std::string refused(const std::string& name, const std::string& value) {
  const auto read = table().read({{name, value}});
  if (read) return "accepted";
  EXPECT_TRUE(read.error().field == name || read.error().field.empty());
  return read.error().to_string();
}

TEST(Table, EachRowFillsItsMember) {
  const auto options = taken({{"hold", "1h30m"},
                              {"mode", "warn"},
                              {"nodes", "7"},
                              {"pools", "x,y,x"},
                              {"strict", "true"},
                              {"defrag", "on"},
                              {"file", "/etc/a"},
                              {"owner", "kueue"}});
  EXPECT_EQ(options.hold, 90min);
  EXPECT_EQ(options.mode, Mode::kWarn);
  EXPECT_EQ(options.limits.nodes, 7U);
  EXPECT_THAT(options.pools, ElementsAre("x", "y"));
  EXPECT_TRUE(options.strict && options.defrag);
  EXPECT_EQ(options.file, "/etc/a");
  EXPECT_EQ(options.owner, "kueue");
  EXPECT_EQ(taken({{"pools", "none"}}).pools.size(), 0U);
  EXPECT_EQ(taken({}), Options{});
}

TEST(Table, TheDefaultIsThatOfTheOptionsAndIsAllowed) {
  std::vector<std::string> defaults;
  for (const Row<Options>& row : table().rows()) {
    defaults.push_back(row.setting.default_value);
    Options options;
    const auto& standard = row.setting.default_value;
    EXPECT_TRUE(standard.empty() || row.apply(standard, options)) << row.setting.name;
    EXPECT_EQ(options, Options{}) << row.setting.name;
  }
  EXPECT_THAT(defaults, ElementsAre("5m", "off", "4", "a,b", "false", "off", "", "auto"));
}

TEST(Table, AWrongValueIsNamedWithTheAllowedOnes) {
  EXPECT_EQ(refused("hold", "300"),
            "INVALID_ARGUMENT: --set hold: '300' is not valid; use a duration of 1s to 24h, such as 5m");
  EXPECT_THAT(refused("hold", "25h"), HasSubstr("use a duration of 1s to 24h"));
  EXPECT_EQ(refused("mode", "deny"), "INVALID_ARGUMENT: --set mode: 'deny' is not valid; use off, warn or on");
  for (const char* value : {"0", "1001", "x", "", "1.5", "1e3"})
    EXPECT_THAT(refused("nodes", value), HasSubstr("is not valid; use 1 to 1,000 nodes")) << value;
  for (const char* value : {"", ",a", "a,,b", "a,"})
    EXPECT_THAT(refused("pools", value), HasSubstr("use names of pools, or none")) << value;
  EXPECT_THAT(refused("strict", "yes"), HasSubstr("use true or false"));
  EXPECT_THAT(refused("file", "etc"), HasSubstr("use an absolute path, which begins with /"));
  EXPECT_THAT(refused("file", "/missing"), HasSubstr("/missing cannot be read"));
  EXPECT_THAT(refused("owner", ""), HasSubstr("use the name of a controller"));
}

TEST(Table, AnUnknownNameIsNamedWithTheNearestOne) {
  EXPECT_EQ(refused("holds", "1s"),
            "INVALID_ARGUMENT: --set holds: unknown setting; did you mean hold?; the settings are hold, mode, nodes, "
            "pools, strict, defrag, file, owner");
  EXPECT_THAT(refused("zzzzzz", "1"), HasSubstr("--set zzzzzz: unknown setting; the settings are"));
  EXPECT_EQ(
      check_names({{"zone", "a"}}, {}).error().to_string(),
      "INVALID_ARGUMENT: --set zone: unknown setting; this program has no settings of its own; remove the option");
}

// YAML reads `on` in the values of a chart as true.
TEST(Table, BooleansOfYamlAreOnAndOff) {
  EXPECT_EQ(taken({{"mode", "true"}}).mode, Mode::kOn);
  EXPECT_EQ(taken({{"mode", "false"}, {"defrag", "true"}, {"strict", "on"}}),
            taken({{"defrag", "on"}, {"strict", "true"}}));
}

TEST(Table, ATableOfAPartBelongsToTheWhole) {
  struct Whole {
    Options part;
    int other = 1;
  };
  const auto whole =
      Table<Whole>{{"other", integer(0, 9, "items"), at(&Whole::other), "Other."}}.with(table(), &Whole::part);
  const auto read = whole.read({{"other", "2"}, {"hold", "9s"}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->other, 2);
  EXPECT_EQ(read->part.hold, 9s);
  EXPECT_EQ(whole.settings().size(), 9U);
  EXPECT_EQ(whole.read({{"hold", "x"}}).error().field, "hold");
}

TEST(Table, HelpShowsEachSetting) {
  EXPECT_THAT(help_text(table().settings()), HasSubstr("  nodes [4]  1 to 1,000 nodes\n      Nodes at once.\n"));
  EXPECT_THAT(help_text(table().settings()), HasSubstr("  file  an absolute path"));
  EXPECT_EQ(help_text({}), "");
}

TEST(Durations, AreWrittenAsTheyAreRead) {
  EXPECT_EQ(duration_text(0s), "0s");
  EXPECT_EQ(duration_text(168h), "168h");
  EXPECT_EQ(duration_text(90s), "1m30s");
  EXPECT_EQ(duration_text(1500ms), "1s500ms");
}

}  // namespace settings_test
}  // namespace qm::settings
