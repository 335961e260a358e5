#include "qm/admission/cluster.hpp"

#include "qm/admission/kueue_configuration.hpp"
#include "qm/base/option_range.hpp"
#include "qm/config/manifest.hpp"
#include "qm/config/settings.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace qm::admission {

std::set<std::string> suspending_kinds() {
  std::set<std::string> out;
  for (const auto& kind : config::workload_kinds()) {
    if (kind.suspends()) out.emplace(kind.kind);
  }
  return out;
}

namespace {

/// Kueue's admissionFairSharing, with the field names of its Configuration.
Status read_usage(const std::map<std::string, std::string>& extra, UsageMemory& out) {
  const auto duration = [&](const char* name, Duration least, Duration& into) -> Status {
    const auto it = extra.find(name);
    if (it == extra.end() || it->second.empty()) return {};
    const auto parsed = config::parse_duration(it->second);
    if (!parsed || *parsed < least) {
      return fail(config::wrong_setting(
          name, it->second, fmt::format("a duration of {} or more, such as 5m", least == Duration{0} ? "0s" : "1s")));
    }
    into = *parsed;
    return {};
  };
  QM_TRY(duration("usage-half-life-time", Duration{0}, out.half_life));
  QM_TRY(duration("usage-sampling-interval", std::chrono::seconds(1), out.sampling));
  const auto weights = extra.find("resource-weights");
  for (std::string_view rest = weights == extra.end() ? std::string_view() : weights->second; !rest.empty();) {
    const auto one = rest.substr(0, rest.find(','));
    const auto colon = one.rfind(':');
    const auto weight = Quantity::parse(colon == std::string_view::npos ? "" : one.substr(colon + 1));
    if (!weight || weight->milli() < 0 || colon == 0) {
      return fail(config::wrong_setting("resource-weights", weights->second,
                                        "RESOURCE:WEIGHT with weights of 0 or more, such as nvidia.com/gpu:1,cpu:0.1"));
    }
    out.weights[std::string(one.substr(0, colon))] = static_cast<double>(weight->milli()) / 1000;
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return {};
}

std::vector<std::string_view> known_settings(const std::vector<std::string_view>& of_others) {
  std::vector<std::string_view> out{"binding",         "fair-sharing",         "preemption-budget-per-hour",
                                    "kinds",           "kueue-configuration",  "placement",
                                    "quota",           "resource-weights",     "rest",
                                    "rules",           "usage-half-life-time", "usage-sampling-interval",
                                    "workload-objects"};
  std::ranges::copy(of_others, std::back_inserter(out));
  return out;
}

}  // namespace

Result<ClusterSettings> ClusterSettings::parse(const std::map<std::string, std::string>& extra,
                                               const std::vector<std::string_view>& of_others) {
  QM_TRY(config::check_setting_names(extra, known_settings(of_others)));
  ClusterSettings out;
  const auto read = [&](const char* name, std::string& into) {
    const auto it = extra.find(name);
    if (it != extra.end() && !it->second.empty()) into = it->second;
  };
  read("quota", out.quota);
  read("binding", out.binding);
  std::string placement = "own";
  read("placement", placement);
  if (placement != "own" && placement != "none") {
    return fail(config::wrong_setting("placement", placement, "own, or none where another scheduler binds all pods"));
  }
  out.placement = placement == "own";
  std::string kinds;
  read("kinds", kinds);
  if (!kinds.empty()) out.kinds.clear();
  for (std::string_view rest = kinds; !rest.empty();) {
    const auto comma = rest.find(',');
    const auto* kind = config::workload_kind(rest.substr(0, comma));
    if (kind == nullptr || !kind->suspends()) {
      return fail(config::wrong_setting("kinds", rest.substr(0, comma),
                                        fmt::format("some of {}", fmt::join(suspending_kinds(), ", "))));
    }
    out.kinds.emplace(kind->kind);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  std::string rules = "continuous", sharing = "false", rest;
  read("rules", rules);
  if (rules != "continuous" && rules != "exact") {
    return fail(
        config::wrong_setting("rules", rules, "continuous, or exact for the decisions of Kueue, cycle by cycle"));
  }
  out.rules.exact = rules == "exact";
  read("fair-sharing", sharing);
  if (sharing != "true" && sharing != "false") {
    return fail(config::wrong_setting("fair-sharing", sharing, "true or false"));
  }
  out.rules.fair_sharing = sharing == "true";
  read("rest", rest);
  if (!rest.empty()) {
    const auto parsed = config::parse_duration(rest);
    if (!parsed || *parsed < Duration{0}) {
      return fail(config::wrong_setting("rest", rest, "a duration of 0s or more, such as 10m"));
    }
    out.rules.rest = *parsed;
  }
  QM_TRY(read_usage(extra, out.rules.usage));
  std::string hourly;
  read("preemption-budget-per-hour", hourly);
  if (!hourly.empty()) {
    const auto range = at_least<std::int64_t>(0, "workloads in an hour");
    if (!range(hourly).empty()) return fail(config::wrong_setting("preemption-budget-per-hour", hourly, range.text()));
    out.preemption_budget_per_hour = std::stoll(hourly);
  }
  std::string objects = "false";
  read("workload-objects", objects);
  if (objects != "true" && objects != "false") {
    return fail(config::wrong_setting("workload-objects", objects, "true or false"));
  }
  out.workload_objects = objects == "true";
  if (const auto file = extra.find("kueue-configuration"); file != extra.end() && !file->second.empty()) {
    QM_ASSIGN(const auto configuration, read_kueue_configuration(file->second));
    out.pods_ready = configuration.pods_ready;
  }
  return out;
}

Cluster::Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, ClusterSettings settings,
                 CheckpointPolicies& checkpoints)
    : checkpoints_(checkpoints),
      pod_defaults_(client),
      quota_(client, {"quota", settings.quota, kube::other_controllers_of("quota")}),
      binding_(client, {"binding", settings.binding, kube::other_controllers_of("binding")}),
      pods_(client, host,
            {&quota_, &binding_, &checkpoints, settings.placement, nullptr, settings.pods_ready.has_value()}),
      workloads_(
          client, host, clock,
          {&quota_, &binding_, &checkpoints, settings.placement, &pod_defaults_, settings.pods_ready.has_value()},
          {settings.workload_objects}),
      config_(client, host),
      status_(client, host, config_, clock, &quota_) {
  const WatchOptions options{
      &quota_, &binding_, &checkpoints, settings.placement, &pod_defaults_, settings.pods_ready.has_value()};
  if (!settings.placement) {
    nodes_ = std::make_unique<NodeWatch>(client, host, clock);
    ungater_ = std::make_unique<TopologyUngater>(client, host);
  }
  for (const auto& kind : settings.kinds) jobs_.push_back(std::make_unique<JobWatch>(client, host, options, kind));
  pod_defaults_.listen([this] {
    for (auto& jobs : jobs_) jobs->owners_changed();
    workloads_.owners_changed();
  });
  for (auto* owner : {&quota_, &binding_}) {
    owner->listen([this] {
      for (auto& jobs : jobs_) jobs->owners_changed();
      workloads_.owners_changed();
      pods_.owners_changed();
    });
  }
}

Cluster::~Cluster() { stop(); }

void Cluster::start() {
  // A workload is evaluated as soon as it is observed: load the policies first, but wait for them only briefly.
  checkpoints_.start();
  pod_defaults_.start();
  const auto patient_until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!(checkpoints_.synced() && pod_defaults_.synced()) && std::chrono::steady_clock::now() < patient_until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  quota_.start();
  binding_.start();
  config_.start();
  if (nodes_) nodes_->start();
  if (ungater_) ungater_->start();
  for (auto& jobs : jobs_) jobs->start();
  pods_.start();
  workloads_.start();
  status_.start();
}

void Cluster::stop() {
  status_.stop();
  if (ungater_) ungater_->stop();
  if (nodes_) nodes_->stop();
  workloads_.stop();
  for (auto& jobs : jobs_) jobs->stop();
  pods_.stop();
  config_.stop();
  checkpoints_.stop();
  pod_defaults_.stop();
  quota_.stop();
  binding_.stop();
}

bool Cluster::synced() const {
  return quota_.known() && binding_.known() && config_.synced() && pods_.synced() && workloads_.synced() &&
         std::ranges::all_of(jobs_, [](const auto& jobs) { return jobs->synced(); });
}

Json Cluster::debug_state() const { return Json::object({{"leftToOthers", quota_.left_alone()}}); }

}  // namespace qm::admission
