#include "qm/cost/settings.hpp"

#include "qm/base/option_range.hpp"
#include "qm/config/settings.hpp"

namespace qm::cost {

Result<Settings> settings_of(const std::map<std::string, std::string>& given) {
  QM_TRY(config::check_setting_names(given, {"observe", "settle"}));
  Settings out;
  if (const auto settle = given.find("settle"); settle != given.end() && !settle->second.empty()) {
    const OptionRange<std::int64_t> range(0, 86'400, "seconds");
    if (!range(settle->second).empty()) return fail(config::wrong_setting("settle", settle->second, range.text()));
    out.engine.settle_after = std::chrono::seconds(std::stoll(settle->second));
  }
  if (const auto observe = given.find("observe"); observe != given.end()) {
    if (observe->second != "bus" && observe->second != "cluster")
      return fail(
          config::wrong_setting("observe", observe->second, "bus, or cluster if no other service of the suite runs"));
    out.alone = observe->second == "cluster";
  }
  return out;
}

}  // namespace qm::cost
