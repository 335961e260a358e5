// Deployed files: alerts have runbooks and tests that make them fire, and the pages match the chart.
#include "qm/config/yaml_reader.hpp"
#include "qm/testing/promtool.hpp"
#include "support.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace qm::deploy {
namespace files_test {

std::vector<Json> alerts() {
  std::vector<Json> out;
  const auto loaded = objects_of(source("deploy/prometheus/rules.yaml"));
  for (const auto& object : loaded) {
    for (const Json& group : object.document.content["groups"].items()) {
      for (const Json& rule : group["rules"].items()) out.push_back(rule);
    }
  }
  return out;
}

/// "## Leader changes" -> "leader-changes", the anchor that a browser uses.
std::set<std::string> sections(const std::string& text) {
  std::set<std::string> out;
  for (std::size_t at = 0; (at = text.find("\n## ", at)) != std::string::npos; ++at) {
    std::string name = text.substr(at + 4, text.find('\n', at + 4) - at - 4);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return c == ' ' ? '-' : char(std::tolower(c)); });
    out.insert(name);
  }
  return out;
}

// S-334, S-495: every alert has a runbook.
TEST(Alerts, EachHasARunbookASeverityAndACaseThatFires) {
  const auto known = sections(testing::read_file(source("docs/runbooks.md")));
  const std::string cases = testing::read_file(source("tests/deploy/rules_test.yaml"));
  const auto all = alerts();
  ASSERT_GE(all.size(), 10u);
  for (const Json& alert : all) {
    const std::string& name = alert["alert"].string();
    SCOPED_TRACE(name);
    const std::string& severity = alert["labels"]["severity"].string();
    EXPECT_TRUE(severity == "critical" || severity == "warning") << severity;
    EXPECT_FALSE(alert["annotations"]["summary"].string().empty());
    EXPECT_FALSE(alert["annotations"]["description"].string().empty());
    const std::string& runbook = alert["annotations"]["runbook"].string();
    ASSERT_TRUE(runbook.starts_with("docs/runbooks.md#")) << runbook;
    EXPECT_TRUE(known.contains(runbook.substr(runbook.find('#') + 1))) << runbook;
    const auto fires = cases.find("alertname: " + name + "\n    exp_alerts:\n    - exp_labels:");
    EXPECT_NE(fires, std::string::npos) << "no case in rules_test.yaml shows it firing";
  }
}

/// The receiver of an alert with this severity: the first route that matches it, else the one above.
std::string receiver_of(const Json& route, const std::string& severity) {
  for (const Json& child : route["routes"].items()) {
    bool matches = true;
    for (const Json& matcher : child["matchers"].items())
      matches = matches && matcher.string() == "severity=\"" + severity + "\"";
    if (matches) return child["receiver"].string();
  }
  return route["receiver"].string();
}

// S-495: every alert has a runbook, and a route by its severity to a receiver of its own.
TEST(Alerts, EachSeverityHasARouteToAReceiver) {
  const auto loaded = objects_of(source("deploy/compose/alertmanager.yml"));
  ASSERT_EQ(loaded.size(), 1U);
  const Json& config = loaded[0].document.content;
  std::set<std::string> receivers;
  for (const Json& receiver : config["receivers"].items()) receivers.insert(receiver["name"].string());
  const std::string rest = receiver_of(config["route"], "none of the rules");
  EXPECT_TRUE(receivers.contains(rest)) << rest;
  std::map<std::string, std::string> routes;
  for (const Json& alert : alerts()) {
    SCOPED_TRACE(alert["alert"].string());
    const std::string& severity = alert["labels"]["severity"].string();
    const std::string receiver = routes[severity] = receiver_of(config["route"], severity);
    EXPECT_TRUE(receivers.contains(receiver)) << severity << " is routed to " << receiver << ", which is not defined";
    EXPECT_NE(receiver, rest) << severity << " has no route";
  }
  EXPECT_EQ(routes.size(), 2U);
  EXPECT_NE(routes["critical"], routes["warning"]);
}

// Two rules with one name are one alert in Alertmanager and in the runbook.
TEST(Alerts, HaveNamesOfTheirOwn) {
  std::set<std::string> names, groups;
  for (const Json& alert : alerts()) {
    const std::string& name = alert["alert"].string();
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(names.insert(name).second) << name << " occurs twice";
  }
  for (const auto& object : objects_of(source("deploy/prometheus/rules.yaml"))) {
    for (const Json& group : object.document.content["groups"].items())
      EXPECT_TRUE(groups.insert(group["name"].string()).second) << group["name"].string() << " occurs twice";
  }
  EXPECT_EQ(testing::read_file(source("deploy/prometheus/rules.yaml")),
            testing::read_file(source("deploy/helm/quartermaster/files/rules.yaml")));
}

TEST(Alerts, UseMetricsThatTheServicesExport) {
  std::string code;
  for (const char* folder : {"libs/rpc/src", "services"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source(folder))) {
      if (entry.path().extension() == ".cpp") code += testing::read_file(entry.path());
    }
  }
  std::set<std::string> used;
  for (const Json& alert : alerts()) {
    const std::string& text = alert["expr"].string();
    for (const char* prefix : {"qm_", "DCGM_"}) {
      for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;) {
        const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", at);
        std::string name = text.substr(at, end - at);
        if (name.ends_with("_count")) name.resize(name.size() - 6);  // of a histogram
        used.insert(name);
        at = std::min(end, text.size());
      }
    }
  }
  EXPECT_GE(used.size(), 10u);
  for (const std::string& name : used) {
    // The gauges of the service host are in a list, each with its full name.
    EXPECT_NE(code.find('"' + name + '"'), std::string::npos) << name << " is exported by no service";
  }
}

// S-496: Prometheus evaluates a group once a minute by default, which would add to the time of a scrape.
TEST(Alerts, ThoseOfGpusAreEvaluatedAsOftenAsTheyAreScraped) {
  const auto values = objects_of(source("deploy/helm/quartermaster/values.yaml"));
  ASSERT_EQ(values.size(), 1U);
  std::size_t alerts = 0;
  for (const auto& object : objects_of(source("deploy/prometheus/rules.yaml"))) {
    for (const Json& group : object.document.content["groups"].items()) {
      for (const Json& rule : group["rules"].items()) {
        if (rule["expr"].string().find("DCGM_") == std::string::npos) continue;
        EXPECT_EQ(group["interval"], values[0].document.content["monitoring"]["interval"]) << rule["alert"].string();
        ++alerts;
      }
    }
  }
  EXPECT_GE(alerts, 3U);
}

TEST(Alerts, Fire) {
  if (testing::promtool().empty()) GTEST_SKIP() << testing::kNoPromtool;
  EXPECT_EQ(testing::try_rules(testing::read_file(source("deploy/prometheus/rules.yaml")),
                               testing::read_file(source("tests/deploy/rules_test.yaml"))),
            "");
}

Json panel(const std::string& board, const std::string& title) {
  const auto read = Json::parse(testing::read_file(source("deploy/grafana/dashboards/" + board + ".json")));
  EXPECT_TRUE(read) << board;
  const Json whole = read.value_or(Json());
  for (const Json& one : whole["panels"].items()) {
    if (one["title"].string() == title) return one;
  }
  ADD_FAILURE() << board << " has no panel " << title;
  return {};
}

// S-336: the colors of the utilization bands; between 90 and 95 %, for which the requirement names no color, it is
// yellow.
TEST(Panels, UtilizationHasTheColorsOfItsBands) {
  const Json steps = panel("gpu", "Utilization").path("fieldConfig.defaults.thresholds")["steps"];
  const auto color = [&](std::int64_t percent) {
    std::string out;
    for (const Json& step : steps.items()) {
      if (step["value"].is_null() || step["value"].integer() <= percent) out = step["color"].string();
    }
    return out;
  };
  for (const auto& [from, until, expected] :
       {std::tuple(0, 39, "red"), {40, 69, "yellow"}, {70, 89, "green"}, {90, 94, "yellow"}, {96, 100, "red"}}) {
    for (const int percent : {from, until}) EXPECT_EQ(color(percent), expected) << percent;
  }
  EXPECT_NE(testing::read_file(source("docs/decisions.md")).find("\n| S-336 | a color for 90 to 95 % | yellow"),
            std::string::npos);
}

// S-356: the number of pending workloads and their waiting time, for each ClusterQueue.
TEST(Panels, QueuesShowDepthAndWait) {
  EXPECT_EQ(panel("queue", "Pending now")["targets"].at(0)["expr"].string(),
            "sum by (cluster_queue) (kueue_pending_workloads)");
  for (const char* title : {"Median wait", "Waits by cluster queue"}) {
    const std::string sql = panel("queue", title)["targets"].at(0)["rawSql"].string();
    EXPECT_NE(sql.find("cluster_queue"), std::string::npos) << sql;
    EXPECT_NE(sql.find("within group (order by wait_seconds)"), std::string::npos) << sql;
  }
}

// Templates of the chart are not YAML before Helm renders them.
TEST(Yaml, EachShippedFileCanBeParsed) {
  namespace fs = std::filesystem;
  int files = 0;
  for (const char* folder : {"deploy", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source(folder))) {
      const std::string path = entry.path().string();
      if (!(path.ends_with(".yaml") || path.ends_with(".yml")) || path.find("/templates/") != std::string::npos)
        continue;
      const auto read = config::read_yaml(testing::read_file(path), path);
      for (const auto& found : read.diagnostics) ADD_FAILURE() << found.to_string();
      EXPECT_FALSE(read.documents.empty()) << path;
      ++files;
    }
  }
  EXPECT_GT(files, 40);
}

// An image named by a variable can be pinned by digest without a change of the file; an image without a tag changes
// without notice.
TEST(Compose, EachImageHasATagAndAVariableForADigest) {
  const std::string page = testing::read_file(source("docker-compose.yml"));
  std::istringstream lines(page);
  std::set<std::string> variables;
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("image: ");
    if (at == std::string::npos || line.find("&build") != std::string::npos) continue;
    SCOPED_TRACE(line);
    const std::string image = line.substr(at + 7);
    ASSERT_TRUE(image.starts_with("${QM_IMAGE_") && image.ends_with("}"));
    EXPECT_TRUE(variables.insert(image.substr(2, image.find(':') - 2)).second) << "two images have one variable";
    const std::string name = image.substr(image.find(":-") + 2);
    EXPECT_NE(name.find(':', name.rfind('/') == std::string::npos ? 0 : name.rfind('/')), std::string::npos)
        << "no tag";
    EXPECT_EQ(name.find("latest"), std::string::npos);
  }
  EXPECT_EQ(variables.size(), 14u);
}

// S-361: the ports that a host firewall needs are documented, with those of the chart.
TEST(Pages, InstallationNamesEveryPort) {
  const std::string page = testing::read_file(source("docs/install.md"));
  const std::string ports = page.substr(page.find("## Ports"), page.find("## What the pods") - page.find("## Ports"));
  for (const char* port :
       {"22 (SSH)", "10250 (kubelet)", "10.0.0.0/8", "| 7100 |", "| 7200 |", "| 9443 |", "| 7290 |", "5432"}) {
    EXPECT_NE(ports.find(port), std::string::npos) << port;
  }
  const auto values = objects_of(source("deploy/helm/quartermaster/values.yaml"));
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0].document.content["webhook"]["port"].integer(), 9443);
  EXPECT_EQ(values[0].document.content["agent"]["httpPort"].integer(), 7290);
}

}  // namespace files_test
}  // namespace qm::deploy
