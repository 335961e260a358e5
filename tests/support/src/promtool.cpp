#include "qm/testing/promtool.hpp"

#include "qm/testing/testing.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace qm::testing {

std::string promtool() {
  if (const char* set = std::getenv("QM_PROMTOOL"); set != nullptr && *set != 0) return set;
  return std::filesystem::exists("/usr/bin/promtool") ? "/usr/bin/promtool" : "";
}

std::string firing(const std::string& alert) {
  return fmt::format(R"(count(ALERTS{{alertname="{}",alertstate="firing"}}) or vector(0))", alert);
}

std::string series_of(const std::string& page, const std::string& start) {
  const auto at = ("\n" + page).find("\n" + start);
  if (at == std::string::npos) return {};
  const std::string line = page.substr(at, page.find('\n', at) - at);
  return line.substr(0, line.rfind(' '));
}

std::string try_rules(const std::string& rules, const std::vector<RuleCase>& cases) {
  std::string text = "rule_files: [rules.yaml]\nevaluation_interval: 30s\ntests:\n";
  for (const RuleCase& one : cases) {
    text += fmt::format("- name: {}\n  interval: 30s\n  input_series:\n", one.name);
    for (const auto& [series, values] : one.series)
      text += fmt::format("  - {{series: '{}', values: '{}'}}\n", series, values);
    text += "  promql_expr_test:\n";
    for (const auto& [time, value] : one.expected) {
      text += fmt::format("  - {{expr: '{}', eval_time: {}, exp_samples: [{{labels: '{{}}', value: {}}}]}}\n", one.expr,
                          time, value);
    }
  }
  return try_rules(rules, text);
}

std::string try_rules(const std::string& rules, const std::string& cases) {
  const TempDir folder;
  std::ofstream(folder.path() + "/rules.yaml") << rules;
  std::ofstream(folder.path() + "/cases.yaml") << cases;
  const std::string output = folder.path() + "/output";
  for (const auto& [what, file] : {std::pair("check", "/rules.yaml"), std::pair("test", "/cases.yaml")}) {
    auto process = Process::start({{promtool(), what, "rules", folder.path() + file}, {}, output});
    if (!process) return process.error().to_string();
    const auto code = (*process)->wait(std::chrono::minutes(2));
    if (code != 0) return fmt::format("promtool {} rules: {}\n{}", what, code.value_or(-1), read_file(output));
  }
  return {};
}

}  // namespace qm::testing
