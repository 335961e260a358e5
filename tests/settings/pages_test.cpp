// docs/settings.md and the definitions in values.schema.json are made from the tables of the programs. `./qm docs` writes
// both.
#include "pages.hpp"

#include "agent_settings.hpp"
#include "qm/admission/settings.hpp"
#include "qm/autoscaler/settings.hpp"
#include "qm/cost/settings.hpp"
#include "qm/placement/settings.hpp"
#include "qm/testing/golden.hpp"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace qm {
namespace setting_pages_test {

struct Program {
  std::string name;  ///< without "qm-"
  std::vector<settings::Setting> settings;
};

std::vector<Program> programs() {
  return {{"admission", admission::settings_table().settings()},
          {"placement", placement::settings_table().settings()},
          {"autoscaler", autoscaler::settings_table().settings()},
          {"telemetry", {}},
          {"cost", cost::settings_table().settings()},
          {"agent", agent::settings_table().settings()}};
}

/// Settings that the chart sets from a value of its own. `settings` of the chart does not allow them, so that no
/// setting has two values.
using ChartValues = std::map<std::string, std::string>;  ///< from the setting to the chart's value
const ChartValues& chart_values(const std::string& program) {
  static const std::map<std::string, ChartValues> all{
      {"admission",
       {{"quota", "ownership.quota"},
        {"binding", "ownership.binding"},
        {"kinds", "workloadKinds"},
        {"placement", "services.placement.enabled"},
        {"webhook", "webhook.port"},
        {"webhook-service", "webhook.port"},
        {"webhook-policy", "webhook.policy"},
        {"webhook-policy-file", "webhook.policyFile"}}},
      {"placement", {{"quota", "ownership.quota"}, {"binding", "ownership.binding"}}},
      {"agent",
       {{"nodes", "agent.enabled"},
        {"telemetry", "services.telemetry.enabled"},
        {"dcgm", "agent.dcgm"},
        {"imds", "agent.imds"},
        {"pod-resources", "agent.podResources"},
        {"device-plugin", "agent.devicePlugin.enabled"},
        {"device-plugin-shares", "agent.devicePlugin.shares"},
        {"device-plugin-strict", "agent.devicePlugin.strict"},
        {"sysfs", "agent.nodeFacts"},
        {"kubelet-config", "agent.nodeFacts"},
        {"model-cache", "agent.modelCache"},
        {"kubelet-pods", "agent.checkpoints.files"},
        {"proc", "agent.checkpoints.signals"}}}};
  static const ChartValues none;
  const auto found = all.find(program);
  return found == all.end() ? none : found->second;
}

constexpr const char* kHead = R"(# Settings

This page is made by `./qm docs` from the tables of the programs. A test compares it with them. `PROGRAM --help` prints
the same, and the flags that all programs have.

A setting is given as `--set NAME=VALUE`, or in the values of the [chart](install.md) as `services.SERVICE.settings` and
`agent.settings`, whose schema refuses other values. A program does not start with an unknown name or a value that is not
allowed; it names the allowed values, or the nearest name. A duration has units: `90s`, `5m`, `1h30m`. A list is separated
by commas.
)";

std::string page() {
  std::string out = kHead;
  for (const Program& program : programs()) {
    out += fmt::format("\n## qm-{}\n\n", program.name);
    out += program.settings.empty() ? "It has no settings of its own.\n" : settings::markdown(program.settings);
    const auto& values = chart_values(program.name);
    if (values.empty()) continue;
    out += "\nThe chart sets these from other values, and its `settings` do not allow them:\n\n";
    for (const auto& [name, value] : values) out += fmt::format("- `{}` from `{}`\n", name, value);
  }
  return out;
}

/// The definitions, one line for each setting.
std::string definitions() {
  std::string out = "  \"definitions\": {";
  const char* comma = "";
  for (const Program& program : programs()) {
    const Json schema = settings::schema(program.settings);
    out += fmt::format(
        "{}\n    \"{}\": {{\n      \"type\": \"object\",\n      \"additionalProperties\": false,\n"
        "      \"properties\": {{",
        std::exchange(comma, ","), program.name);
    const char* next = "\n";
    for (const auto& [name, property] : schema["properties"].members()) {
      if (chart_values(program.name).contains(name)) continue;
      out += fmt::format("{}        {}: {}", std::exchange(next, ",\n"), Json(name).dump(), property.dump());
    }
    out += program.settings.empty() ? "}\n    }" : "\n      }\n    }";
  }
  return out + "\n  }\n}\n";
}

std::string file(const std::string& path) { return std::string(QM_SOURCE_DIR) + "/" + path; }
const std::string kSchema = "deploy/helm/quartermaster/values.schema.json";

TEST(SettingPages, ThePageIsMadeFromTheTables) {
  EXPECT_TRUE(testing::matches_golden(file("docs/settings.md"), page()));
}

TEST(SettingPages, TheSchemaOfTheChartIsMadeFromTheTables) {
  const std::string text = testing::read_file(file(kSchema));
  const auto at = text.find("  \"definitions\": {");
  ASSERT_NE(at, std::string::npos);
  EXPECT_TRUE(testing::matches_golden(file(kSchema), text.substr(0, at) + definitions()));
}

TEST(SettingPages, EachServiceOfTheChartRefersToItsDefinition) {
  const auto schema = Json::parse(testing::read_file(file(kSchema)));
  ASSERT_TRUE(schema) << schema.error().to_string();
  const Json& values = (*schema)["properties"];
  for (const Program& program : programs()) {
    const Json& part = program.name == "agent" ? values["agent"] : values["services"]["properties"][program.name];
    EXPECT_EQ(part["properties"]["settings"]["$ref"].string(), "#/definitions/" + program.name);
    EXPECT_EQ((*schema)["definitions"][program.name]["properties"].size(),
              program.settings.size() - chart_values(program.name).size())
        << program.name;
  }
}

// A row that names no setting, or a value that the chart does not have, would document what does not exist.
TEST(SettingPages, ValuesThatReplaceSettingsExist) {
  const auto schema = Json::parse(testing::read_file(file(kSchema)));
  ASSERT_TRUE(schema) << schema.error().to_string();
  for (const Program& program : programs()) {
    for (const auto& [name, value] : chart_values(program.name)) {
      EXPECT_NE(std::ranges::find(program.settings, name, &settings::Setting::name), program.settings.end()) << name;
      const Json* at = &*schema;
      for (std::size_t from = 0, to = 0; to != std::string::npos; from = to + 1) {
        to = value.find('.', from);
        at = &(*at)["properties"][value.substr(from, to == std::string::npos ? to : to - from)];
      }
      EXPECT_TRUE(at->is_object()) << value;
    }
  }
}

struct Options {
  bool strict = false;
  std::int64_t nodes = 4;
  Duration hold = std::chrono::minutes(5);
  std::string mode = "off", owner, pools = "on";
};

std::vector<settings::Setting> few() {
  using namespace settings;
  auto pools = text("off, on, or names");
  pools.form.type = Type::kList;
  pools.form.words = {"off", "on"};
  return settings::Table<Options>{
      {"strict", boolean(), at(&Options::strict), "Refuses a|b."},
      {"nodes", integer(1, 1000, "nodes"), at(&Options::nodes), "Nodes at once."},
      {"hold", duration(Duration(0)), at(&Options::hold), "Life of a reservation."},
      {"mode", choice<std::string>({{"off", "off"}, {"warn", "warn"}, {"on", "on"}}), at(&Options::mode), "Mode."},
      {"owner", text("a name"), at(&Options::owner), "Owner."},
      {"pools", pools, at(&Options::pools), "Pools."}}
      .settings();
}

TEST(SettingPages, ARowOfThePage) {
  const auto page = settings::markdown(few());
  EXPECT_THAT(page, ::testing::HasSubstr("| `mode` | enum | `off` | off, warn or on | Mode. |\n"));
  EXPECT_THAT(page, ::testing::HasSubstr("| `owner` | text | not set | a name | Owner. |\n"));
  EXPECT_THAT(page, ::testing::HasSubstr("Refuses a\\|b."));
}

// YAML reads `on` in the values of a chart as true.
TEST(SettingPages, TheSchemaHasTheAllowedValues) {
  const Json schema = settings::schema(few());
  EXPECT_FALSE(schema["additionalProperties"].boolean(true));
  const Json& of = schema["properties"];
  EXPECT_EQ(of["mode"]["enum"].dump(), R"(["off","warn","on",true,false])");
  EXPECT_EQ(of["strict"]["enum"].dump(), R"(["true","false",true,false])");
  EXPECT_EQ(of["nodes"].dump(),
            R"({"type":"integer","minimum":1,"maximum":1000,"description":"Nodes at once. Use 1 to 1,000 nodes."})");
  EXPECT_EQ(of["hold"]["type"].string(), "string");
  EXPECT_THAT(of["hold"]["pattern"].string(), ::testing::HasSubstr("h|m|s|ms"));
  EXPECT_EQ(of["owner"]["minLength"].integer(), 1);
  EXPECT_EQ(of["pools"]["type"].dump(), R"(["string","boolean"])");
}

// A reader sees the name, the allowed values and one sentence of each setting.
TEST(SettingPages, EachSettingIsDescribedInOneSentence) {
  for (const Program& program : programs()) {
    for (const auto& setting : program.settings) {
      SCOPED_TRACE(program.name + " " + setting.name);
      EXPECT_THAT(setting.name, ::testing::MatchesRegex("[a-z]+(-[a-z]+)*"));
      EXPECT_TRUE(setting.help.ends_with('.'));
      EXPECT_EQ(setting.help.find(". "), std::string::npos);
      EXPECT_FALSE(setting.form.allowed.empty());
      EXPECT_FALSE(setting.form.allowed.ends_with('.'));
    }
  }
}

}  // namespace setting_pages_test
}  // namespace qm
