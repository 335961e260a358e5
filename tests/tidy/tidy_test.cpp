// The house rules for every file of the tree, and a planted violation for each rule.
#include "rules.hpp"
#include "words.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::tidy {
namespace tidy_test {

const Rule& rule(const std::string& name) {
  const auto it = std::ranges::find(rules(), name, &Rule::name);
  EXPECT_NE(it, rules().end()) << name;
  return *it;
}

TEST(Tidy, TheTreeIsFound) {
  EXPECT_GT(tree().size(), 300U) << "sources are looked for in " << QM_SOURCE_DIR;
  EXPECT_NE(find_file("libs/base/include/qm/base/result.hpp"), nullptr);
  EXPECT_NE(find_file("qm"), nullptr);
  EXPECT_GT(tests().size(), 300U);
}

class House : public ::testing::TestWithParam<Rule> {};

TEST_P(House, Holds) {
  for (const SourceFile& file : tree()) {
    for (const Finding& f : GetParam().check(file)) ADD_FAILURE() << f.to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, House, ::testing::ValuesIn(rules()), [](const auto& param) {
  std::string name = param.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

struct Planted {
  std::string rule, path, text;
  std::size_t line = 1;
};

// Words that a rule searches for are split here, because otherwise this file would violate it.
const Planted kPlanted[] = {
    {"vendor headers", "services/cost/src/shell/rows.cpp", "#include <pqxx/pqxx>\n"},
    {"vendor headers", "libs/kube/src/client.cpp", "#include <boost/beast.hpp>\n"},
    {"vendor headers", "libs/http/include/qm/http/http.hpp", "#pragma once\n#include <boost/beast.hpp>\n", 2},
    {"vendor headers", "libs/http/src/connection.hpp", "#pragma once\n#include <boost/beast.hpp>\n", 2},
    {"vendor headers", "services/cost/include/qm/cost/engine.hpp", "#include <grpcpp/grpcpp.h>\n"},
    {"vendor headers", "agent/src/agent.cpp", "#include <spdlog/spdlog.h>\n"},
    {"vendor headers", "services/cost/main.cpp", "#include <CLI/CLI.hpp>\n"},
    {"vendor headers", "libs/model/src/money.cpp", "#include <gtest/gtest.h>\n"},
    {"engines include values only", "services/cost/src/engine/a.cpp", "#include \"qm/store/store.hpp\"\n"},
    {"engines include values only", "services/cost/src/engine/a.cpp", "#include \"qm/admission/engine.hpp\"\n"},
    {"engines include values only", "services/cost/src/engine/a.cpp", "#include \"quartermaster/v1/events.pb.h\"\n"},
    {"engines include values only", "services/cost/src/engine/a.cpp", "#include \"qm/catalog/catalog.hpp\"\n"},
    {"engines include values only", "services/cost/src/engine/a.cpp", "#include \"qm/catalog/share.hpp\"\n"},
    {"engines include values only", "services/cost/src/engine/a.cpp", "#include <random>\n"},
    {"engines include values only", "services/cost/src/engine/a.cpp", "#include <google/protobuf/message.h>\n"},
    {"engines include values only", "services/cost/include/qm/cost/engine.hpp", "#pragma once\n#include <mutex>\n", 2},
    {"engines read no clock", "services/cost/src/engine/a.cpp", "auto t = std::chrono::system_clock::now();\n"},
    {"arrows point one way", "services/cost/src/shell/a.cpp", "#include \"qm/admission/engine.hpp\"\n"},
    {"arrows point one way", "services/cost/include/qm/cost/a.hpp", "#include \"qm/placement/model.hpp\"\n"},
    {"arrows point one way", "libs/base/src/a.cpp", "#include \"qm/model/ids.hpp\"\n"},
    {"arrows point one way", "libs/bus/src/a.cpp", "#include \"qm/store/store.hpp\"\n"},
    {"arrows point one way", "libs/store/src/a.cpp", "#include \"qm/testing/testing.hpp\"\n"},
    {"arrows point one way", "fleet/src/a.cpp", "#include \"qm/placement/model.hpp\"\n"},
    {"arrows point one way", "demo/checker/src/a.cpp", "#include \"qm/cost/engine.hpp\"\n"},
    {"arrows point one way", "newfolder/a.cpp", "int x;\n", 0},
    {"the product knows no simulation", "agent/src/a.cpp", "f(\"fleet.quartermaster.dev/run-seconds\");\n"},
    {"no include upwards", "libs/bus/src/a.cpp", "#include \"../b.hpp\"\n"},
    {"headers begin with pragma once", "libs/bus/src/a.hpp", "// a\n#pragma once\n"},
    {"files stay short", "libs/bus/src/a.cpp", std::string(601, '\n'), 601},
    {"no unfinished work", "README.md",
     "later\nTO"
     "DO: later\n",
     2},
    {"no unfinished work", "libs/bus/src/a.cpp",
     "f();  // FIX"
     "ME\n"},
    {"tests do not sleep", "libs/bus/test/a_test.cpp",
     "std::this_thread::sleep"
     "_for(1s);\n"},
    {"portable subset", "libs/bus/src/a.cpp",
     "auto s = std::for"
     "mat(\"{}\", 1);\n"},
    {"portable subset", "libs/bus/src/a.cpp",
     "auto s = x | std::vi"
     "ews::keys;\n"},
    {"no machine paths", "docs/a.md",
     "see /wo"
     "rk/main\n"},
    {"no machine paths", "tools/a.sh",
     "curl https://files.python"
     "hosted.org/x\n"},
    {"no tabs", "libs/bus/src/a.cpp", "\tf();\n"},
    {"links lead somewhere", "docs/a.md", "[x](nowhere.md)\n"},
    {"standard words", "docs/a.md", "a job that somebody wants\n"},
    {"standard words", "libs/bus/src/a.cpp", "int x;  // the nodes are Won Back\n"},
    {"standard words", "libs/bus/src/a.cpp", "int x;\nint victims_who_gave_way;\n", 2},
    {"standard words", "libs/bus/src/a.cpp", "class GaveWay;\n"},
    {"standard words", "libs/bus/src/a.cpp", "f(\"nobody waits\");\n"},
    {"standard words", "libs/bus/test/a_test.cpp", "expect(R\"(\n  node a\n  -- beside b\n)\");\n", 3},
    {"short sentences", "libs/bus/include/qm/bus/a.hpp",
     "#pragma once\n/// One two three four five six seven eight nine ten eleven twelve thirteen\n"
     "/// fourteen fifteen sixteen seventeen eighteen nineteen twenty one two three four five six.\nint x;\n",
     2},
    {"links lead somewhere", "docs/a.md", "[x](../docs/nowhere.md#there)\n"},
};

TEST(Tidy, EachRuleFindsItsFault) {
  std::set<std::string> shown;
  for (const Planted& p : kPlanted) {
    const auto found = rule(p.rule).check(make_file(p.path, p.text));
    ASSERT_EQ(found.size(), 1U) << p.rule << " in " << p.path << ": " << p.text.substr(0, 80);
    EXPECT_EQ(found[0].line, p.line) << found[0].to_string();
    shown.insert(p.rule);
  }
  for (const Rule& r : rules()) EXPECT_TRUE(shown.contains(r.name)) << r.name << " has no planted fault";
}

TEST(Tidy, WhatIsAllowedIsNotFound) {
  const std::pair<const char*, const char*> fine[] = {
      {"libs/pg/src/connection.cpp", "#include <pqxx/pqxx>\n"},
      {"libs/bus/src/kafka.cpp", "#include <librdkafka/rdkafka.h>\n#include \"qm/base/log.hpp\"\n"},
      {"services/cost/src/engine/a.cpp",
       "#include \"qm/cost/engine.hpp\"\n#include \"timeline.hpp\"\n#include <fmt/format.h>\n#include <map>\n"},
      {"services/cost/include/qm/cost/api.hpp", "#pragma once\n#include <grpcpp/impl/service_type.h>\n"},
      {"services/cost/test/shell/a_test.cpp", "#include \"qm/testing/testing.hpp\"\n#include <gtest/gtest.h>\n"},
      {"docs/a.md", "[laws](laws.md#l1), [readme](../README.md), [adr](adr), [site](https://kueue.sigs.k8s.io)\n"},
      {"libs/base/src/a.cpp", "// a hackathon, todo lists\n"},
      {"libs/base/src/a.cpp", "// besides, a person who reads this; analogue\n"},
      {"libs/bus/include/qm/bus/a.hpp",
       "#pragma once\n/// Order    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen.\n"
       "/// Cost     one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen.\n"},
  };
  for (const auto& [path, text] : fine) {
    for (const Rule& r : rules()) {
      for (const Finding& f : r.check(make_file(path, text))) ADD_FAILURE() << r.name << ": " << f.to_string();
    }
  }
}

TEST(Tidy, ExceptionsOfWordsAreFewAndGiveAReason) {
  EXPECT_LE(word_exceptions().size(), kMaxExceptions);
  for (const WordException& e : word_exceptions()) EXPECT_NE(e.reason, "") << e.path << ' ' << e.word;
}

TEST(Tidy, EveryLibraryHasItsArrows) {
  for (const SourceFile& file : tree()) {
    if (!file.under("libs/") || !file.is_code()) continue;
    const std::string folder = file.path.substr(0, file.path.find('/', 5) + 1);
    EXPECT_NE(std::ranges::find(arrows(), folder, &Arrows::module), arrows().end()) << folder;
  }
}

TEST(Tidy, CodeIsWhatIsNeitherBlankNorComment) {
  EXPECT_EQ(code_lines(make_file("a.cpp", "// a\n\n#include <map>\n  /// b\nint x;  // c\n   \n")), 2U);
}

// The simulation must stay small enough to review against the real systems, or its results prove nothing.
TEST(Tidy, TheSimulatedFleetStaysSmall) {
  std::size_t lines = 0;
  for (const SourceFile& file : tree()) {
    if (file.is_code() && (file.under("fleet/src/") || file.path == "fleet/main.cpp")) lines += code_lines(file);
  }
  EXPECT_GT(lines, 1000U) << "the fleet is not found";
  EXPECT_LE(lines, 7050U) << "write what repeats once, or leave out what no test, service or demo uses";
}

// A library further down in the table never includes one further up: the table itself has no cycle.
TEST(Tidy, ArrowsHaveNoCircle) {
  std::set<std::string_view> below = {"proto"};
  for (const Arrows& a : arrows()) {
    if (!a.module.starts_with("libs/")) continue;
    for (const auto name : a.may) EXPECT_TRUE(below.contains(name)) << a.module << " looks at " << name;
    below.insert(a.module.substr(5, a.module.size() - 6));
  }
}

}  // namespace tidy_test
}  // namespace qm::tidy
