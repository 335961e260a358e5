#pragma once
#include <map>
#include <string>
#include <vector>

namespace qm::testing {

/// promtool of Prometheus: QM_PROMTOOL, else the machine's own. Empty where there is none, and the test then says
/// GTEST_SKIP() << qm::testing::kNoPromtool.
std::string promtool();
inline constexpr const char* kNoPromtool = "promtool is missing: apt-get install prometheus, or set QM_PROMTOOL";

/// What rules make of some series, which are scraped every 30 seconds.
struct RuleCase {
  std::string name;
  std::map<std::string, std::string> series;  ///< by name with labels; values as promtool takes them, "86x12"
  std::string expr;                           ///< asked for one value without labels
  std::map<std::string, double> expected;     ///< by the time since the start, "6m"
};
/// Number of series for which the alert fires.
std::string firing(const std::string& alert);
/// Name and labels of the first series of an exported page that begins so; empty where there is none.
std::string series_of(const std::string& page, const std::string& start);
/// Empty where each case comes out as it says; else promtool's words. `rules` is a rule file, in YAML or JSON.
std::string try_rules(const std::string& rules, const std::vector<RuleCase>& cases);
/// The same for cases in promtool's own form; their rule_files is [rules.yaml].
std::string try_rules(const std::string& rules, const std::string& cases);

}  // namespace qm::testing
