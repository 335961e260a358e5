// The definitions of the quartermaster.dev kinds are generated from the tables that parse them, and the shipped file
// has the same text.
#include "qm/config/crd.hpp"

#include "qm/config/manifest.hpp"
#include "qm/config/yaml_reader.hpp"
#include "qm/testing/golden.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace qm::config {
namespace crd_test {

const Json& spec_of(const Json& crd) {
  return crd["spec"]["versions"].at(0)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
}

TEST(Crds, TheShippedFileMatchesTheTables) {
  EXPECT_TRUE(testing::matches_golden(std::string(QM_SOURCE_DIR) + "/deploy/crds/quartermaster.yaml", own_crds_text()));
}

TEST(Crds, TheDefinitionOfNodeClassesMatchesTheirTable) {
  const std::string file = std::string(QM_SOURCE_DIR) + "/deploy/crds/ecosystem/karpenter.yaml";
  const auto shipped = read_yaml(testing::read_file(file), file);
  const auto found = std::ranges::find_if(shipped.documents, [](const Document& document) {
    return document.content["spec"]["names"]["kind"].string() == "EC2NodeClass";
  });
  ASSERT_NE(found, shipped.documents.end());
  EXPECT_EQ(to_yaml(found->content), to_yaml(node_class_crd())) << "run qm-crds ec2nodeclass";
}

TEST(Crds, EveryOwnKindThatIsReadHasOne) {
  std::vector<std::string> read, defined;
  for (const std::string& kind : typed_kinds()) {
    if (kind.starts_with("quartermaster.dev/")) read.push_back(kind);
  }
  for (const Json& crd : own_crds()) {
    const Json& spec = crd["spec"];
    ASSERT_EQ(spec["versions"].size(), 1u);
    defined.push_back(spec["group"].string() + "/" + spec["versions"].at(0)["name"].string() + " " +
                      spec["names"]["kind"].string());
  }
  std::ranges::sort(defined);
  EXPECT_EQ(defined, read);
}

TEST(Crds, EveryFieldOfTheTablesIsTyped) {
  // No quartermaster.dev kind has an open schema: an API server refuses what the reader would refuse.
  for (const Json& crd : own_crds()) {
    const std::string text = crd["spec"]["versions"].dump();
    EXPECT_EQ(text.find("preserve-unknown-fields"), std::string::npos) << crd["metadata"]["name"].string();
    EXPECT_TRUE(crd["spec"]["versions"].at(0)["subresources"].contains("status"));
  }
  const auto crds = own_crds();
  ASSERT_EQ(crds.size(), 3u);
  const Json& policy = spec_of(crds[1]);
  EXPECT_EQ(policy["port"]["minimum"].integer(), 1);
  EXPECT_EQ(policy["port"]["maximum"].integer(), 65'535);
  EXPECT_EQ(policy["mode"]["enum"].at(0).string(), "http");
  const Json& prices = spec_of(crds[2])["prices"];
  EXPECT_EQ(prices["maxItems"].integer(), 256);
  EXPECT_EQ(prices["items"]["required"].at(0).string(), "usdPerHour");
  EXPECT_EQ(prices["items"]["properties"]["capacityType"]["enum"].size(), 3u);
  const Json& budget = spec_of(crds[0]);
  EXPECT_EQ(budget["period"]["enum"].size(), 4u);
  EXPECT_EQ(budget["carryOverPercent"]["maximum"].integer(), 100);
}

TEST(Crds, TheReaderEnforcesTheBoundsOfTheSchema) {
  std::string many = "apiVersion: quartermaster.dev/v1alpha1\nkind: PricePlan\nmetadata: {name: a}\nspec:\n  prices:\n";
  for (int i = 0; i < 256; ++i) many += fmt::format("  - {{instanceType: t{}, usdPerHour: 1}}\n", i);
  EXPECT_TRUE(load_text(many, "a.yaml").ok());
  many += "  - {instanceType: t256, usdPerHour: 1}\n";
  const Loaded loaded = load_text(many, "a.yaml");
  ASSERT_EQ(loaded.diagnostics.size(), 1u);
  EXPECT_EQ(loaded.diagnostics[0].message, "has 257 items, at most 256 are allowed");

  const std::string name(64, 'x');
  const Loaded longer = load_text(
      "apiVersion: quartermaster.dev/v1alpha1\nkind: PricePlan\nmetadata: {name: a}\nspec:\n  prices:\n  - {zone: " +
          name + ", usdPerHour: 1}\n",
      "a.yaml");
  ASSERT_EQ(longer.diagnostics.size(), 1u);
  EXPECT_EQ(longer.diagnostics[0].message, "has 64 characters, at most 63 are allowed");
}

/// The messages of all CEL rules below it.
void cel_rules(const Json& schema, std::set<std::string>& out) {
  for (const auto& [key, value] : schema.members()) {
    if (key != "x-kubernetes-validations") {
      cel_rules(value, out);
      continue;
    }
    for (const auto& rule : value.items()) out.insert(rule["message"].string());
  }
  for (const auto& item : schema.items()) cel_rules(item, out);
}

// The simulated fleet checks by schema alone, so the reader must refuse what a CEL rule refuses. A definition with a
// new CEL rule fails here until the reader has it too.
TEST(Crds, WhatARuleInCelRefusesTheReaderRefuses) {
  const std::map<std::string, std::string> refused = {
      {"set one of clusterQueue, team and namespace",
       "kind: Budget\nmetadata: {name: a}\nspec: {clusterQueue: a, team: b, amount: 1, unit: USD, period: Month}\n"},
      {"two entries price the same nodes; keep one of them",
       "kind: PricePlan\nmetadata: {name: a}\nspec:\n  prices:\n  - {zone: a, usdPerHour: 1}\n  - {zone: a, usdPerHour: 2}\n"}};
  std::set<std::string> rules, known;
  for (const auto& file : std::filesystem::recursive_directory_iterator(std::string(QM_SOURCE_DIR) + "/deploy/crds")) {
    if (file.path().extension() != ".yaml") continue;
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    for (const auto& document : read_yaml(text.str(), file.path()).documents) cel_rules(document.content, rules);
  }
  for (const auto& [message, object] : refused) {
    known.insert(message);
    EXPECT_FALSE(load_text("apiVersion: quartermaster.dev/v1alpha1\n" + object, "a.yaml").ok()) << message;
  }
  EXPECT_EQ(rules, known);
}

TEST(Crds, PatternsTakeWhatTheReaderTakes) {
  const Json prices = spec_of(own_crds()[2])["prices"]["items"]["properties"]["usdPerHour"];
  const Json expected = spec_of(own_crds()[1])["expected"];
  const std::regex money(prices["pattern"].string()), duration(expected["pattern"].string());
  for (const char* text : {"0", "98.32", "0.000000001", "1000000"}) {
    EXPECT_TRUE(std::regex_match(text, money)) << text;
    EXPECT_TRUE(Money::parse_usd(text)) << text;
  }
  for (const char* text : {"-1", "1e3", "one", "1.", ".5", "0.0000000001", ""}) {
    EXPECT_FALSE(std::regex_match(text, money)) << text;
  }
  for (const char* text : {"0", "40s", "1h30m", "1.5s", "250ms"}) {
    EXPECT_TRUE(std::regex_match(text, duration)) << text;
    EXPECT_TRUE(parse_duration(text)) << text;
  }
  for (const char* text : {"40", "s", "-4s", "1d", "1h 3m"}) EXPECT_FALSE(std::regex_match(text, duration)) << text;
}

rc::Gen<Json> json_of(int depth) {
  const auto words =
      rc::gen::element<std::string>("", "a", "yes", "No", "null", "1", "0x1f", "- a", "a: b", "# c", "x\ny", " lead",
                                    "trail ", "µs", "it's \"so\"", "~", "{}", "2026-11-21", "a/b.c");
  const auto scalar = rc::gen::oneOf(rc::gen::map(words, [](std::string s) { return Json(std::move(s)); }),
                                     rc::gen::map(rc::gen::inRange(-5, 100'000), [](int i) { return Json(i); }),
                                     rc::gen::map(rc::gen::arbitrary<bool>(), [](bool b) { return Json(b); }));
  if (depth == 0) return scalar;
  return rc::gen::oneOf(
      scalar, rc::gen::map(rc::gen::container<std::vector<Json>>(json_of(depth - 1)), [](auto v) { return Json(v); }),
      rc::gen::map(rc::gen::container<std::map<std::string, Json>>(rc::gen::nonEmpty(words), json_of(depth - 1)),
                   [](auto m) {
                     Json out = Json::object();
                     for (auto& [key, value] : m) out.set(key, value);
                     return out;
                   }));
}

RC_GTEST_PROP(Yaml, IsReadBackAsItWas, ()) {
  Json content = Json::object({{"apiVersion", "a.b/v1"}, {"kind", "Thing"}, {"data", *rc::gen::resize(5, json_of(3))}});
  const std::string text = to_yaml(content);
  const Loaded loaded = load_text(text, "a.yaml");
  RC_ASSERT(loaded.objects.size() == 1u);
  if (!(loaded.objects[0].document.content == content)) RC_FAIL(text);
}

}  // namespace crd_test
}  // namespace qm::config
