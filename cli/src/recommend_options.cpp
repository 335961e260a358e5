// Options of `recommend`.
#include "recommend_options.hpp"

#include "option_values.hpp"
#include "qm/base/option_range.hpp"

#include <CLI/CLI.hpp>

namespace qm::cli {
namespace {

constexpr std::int32_t kMostReplicas = 100'000;

}  // namespace

void RecommendFlags::add_to(CLI::App& app) {
  app.add_option("action", action_, "sharing or schedule")->required()->check(CLI::IsMember({"sharing", "schedule"}));
  ranged(app.add_option("--tenants", tenants_, "sharing: how many share one GPU that do not trust one another"),
         at_least<std::int64_t>(1, "tenants"));
  app.add_flag("--production", production_, "sharing: latency matters: users wait for the answers");
  app.add_option("--gpu-model", model_, "sharing: GPU model, such as H100 or Tesla-T4");
  app.add_option("--table", table_, "sharing: a comparison of your own, CSV with dimension,mig,mps,time_slicing");
  app.add_option("-f,--file", files_, "schedule: CSV with the columns hour,replicas: what each hour needed, or -")
      ->expected(1);
  app.add_option("--usd-hour", usd_, "schedule: price of one replica in an hour");
  app.add_option("--timezone", timezone_, "schedule: zone of the hours of the day, such as Europe/Berlin")
      ->capture_default_str();
  ranged(app.add_option("--least", least_, "schedule: replicas at any time")->capture_default_str(),
         OptionRange<std::int32_t>(0, kMostReplicas, "replicas"));
  app.add_option("--off-peak", sizes_, "schedule: another size for the quiet hours, to compare (repeatable)");
}

Verb RecommendFlags::sharing() const {
  if (!files_.empty()) refuse("recommend sharing: give the comparison with --table");
  return RecommendVerb{tenants_, production_, model_, table_};
}

Verb RecommendFlags::schedule() const {
  if (files_.empty()) refuse("recommend schedule: give the history with -f FILE");
  if (usd_.empty()) refuse("recommend schedule: give the price of one replica with --usd-hour");
  return ScheduleVerb{files_, parse_usd("--usd-hour", usd_), least_, sizes_, timezone_};
}

Verb RecommendFlags::verb() const { return action_ == "sharing" ? sharing() : schedule(); }

}  // namespace qm::cli
