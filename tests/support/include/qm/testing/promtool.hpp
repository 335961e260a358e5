#pragma once
#include <map>
#include <string>
#include <vector>

namespace qm::testing {

/// promtool of Prometheus: QM_PROMTOOL, else the installed one. Empty if there is none; the test then calls
/// GTEST_SKIP() << qm::testing::kNoPromtool.
std::string promtool();
inline constexpr const char* kNoPromtool = "promtool is missing: apt-get install prometheus, or set QM_PROMTOOL";

/// The result of rules for some series, which are scraped every 30 seconds.
struct RuleCase {
  std::string name;
  std::map<std::string, std::string> series;  ///< by name with labels; values in promtool's notation, "86x12"
  std::string expr;                           ///< must have one value without labels
  std::map<std::string, double> expected;     ///< by the time since the start, "6m"
};
/// Number of series for which the alert fires.
std::string firing(const std::string& alert);
/// Name and labels of the first series of an exported page with this prefix; empty if there is none.
std::string series_of(const std::string& page, const std::string& start);
/// Empty if each case has its expected result; else promtool's output. `rules` is a rule file, in YAML or JSON.
std::string try_rules(const std::string& rules, const std::vector<RuleCase>& cases);
/// The same for cases in promtool's own form; their rule_files is [rules.yaml].
std::string try_rules(const std::string& rules, const std::string& cases);

}  // namespace qm::testing
