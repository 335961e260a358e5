#include "qm/placement/settings.hpp"

#include "qm/base/option_range.hpp"
#include "qm/base/parse.hpp"
#include "qm/config/settings.hpp"
#include "qm/placement/gang/tree.hpp"
#include "qm/placement/pack/policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <sstream>

namespace qm::placement {
namespace {

/// Parses a value into the settings; false: the value is not valid.
using Read = std::function<bool(const std::string& value, Settings& out)>;
struct Setting {
  std::string_view name;
  std::string allowed;  ///< accepted values, with their units
  Read read;
};

std::optional<std::int64_t> number_of(const std::string& value, std::int64_t least, std::int64_t most) {
  const auto number = whole_number(value);
  return number && *number >= least && *number <= most ? number : std::nullopt;
}

std::vector<std::string> parts_of(const std::string& value, char separator) {
  std::vector<std::string> out;
  std::stringstream in(value);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

/// An integer setting, stored in the member that `at` returns.
template <class At>
Setting number(std::string_view name, std::string_view what, std::int64_t least, std::int64_t most, At at) {
  return {name, OptionRange<std::int64_t>(least, most, what).text(), [=](const std::string& value, Settings& out) {
            const auto read = number_of(value, least, most);
            if (read) at(out) = static_cast<std::remove_reference_t<decltype(at(out))>>(*read);
            return read.has_value();
          }};
}

template <class At>
Setting seconds(std::string_view name, At at) {
  constexpr std::int64_t kDay = 86'400;
  return {name, OptionRange<std::int64_t>(1, kDay, "seconds").text(), [=](const std::string& value, Settings& out) {
            const auto read = number_of(value, 1, kDay);
            if (read) at(out) = std::chrono::seconds(*read);
            return read.has_value();
          }};
}

bool read_policy(const std::string& value, Settings& out) {
  out.engine.policy = value;
  return std::ranges::count(pack::policy_names(), value) > 0;
}

bool read_topology(const std::string& value, Settings& out) {
  auto& levels = out.engine.topology;
  levels = parts_of(value, ',');
  return levels.size() <= gang::Tree::kMaxLevels && std::ranges::all_of(levels, [&](const std::string& label) {
           return !label.empty() && label != kHostname && std::ranges::count(levels, label) == 1;
         });
}

bool read_apart(const std::string& value, Settings& out) {
  constexpr std::size_t kMostTypes = 32;
  auto& types = out.engine.apart;
  types = value == "none" ? std::vector<std::string>() : parts_of(value, ',');
  return types.size() <= kMostTypes && std::ranges::count(types, std::string()) == 0;
}

bool read_gpu_pools(const std::string& value, Settings& out) {
  out.engine.pools.clear();
  if (value == "none") return true;
  for (const std::string& pool : parts_of(value, ',')) {
    const auto colon = pool.find(':');
    const std::string kind = colon == std::string::npos ? std::string() : pool.substr(colon + 1);
    if (colon == 0 || (kind != "whole" && kind != "slices")) return false;
    out.engine.pools[pool.substr(0, colon)] = kind == "whole" ? GpuPool::kWhole : GpuPool::kSlices;
  }
  return true;
}

bool read_windows(const std::string& value, Settings& out) {
  for (const std::string& window : parts_of(value, ';')) {
    const auto weekly = relayout::weekly_of(window);
    if (!weekly) return false;
    out.engine.layout_windows.push_back(*weekly);
  }
  return true;
}

bool read_propose(const std::string& value, Settings& out) {
  auto& rules = out.engine.preemption;
  rules.on = value != "off";
  rules.evicting = value == "on" || value == "evict";
  rules.moving = value == "on" || value == "migrate";
  return !rules.on || rules.evicting || rules.moving;
}

bool read_repartition(const std::string& value, Settings& out) {
  auto& rules = out.engine.mig_repartition;
  rules.on = value != "off";
  const auto pools = value == "on" || value == "off" ? std::vector<std::string>() : parts_of(value, ',');
  rules.pools = {pools.begin(), pools.end()};
  return !value.empty() && !rules.pools.contains(std::string());
}

bool read_defrag(const std::string& value, Settings& out) {
  out.engine.defrag.on = value == "on";
  return value == "on" || value == "off";
}

/// An empty value counts as not given.
Read owner(std::string Settings::*member) {
  return [member](const std::string& value, Settings& out) {
    if (!value.empty()) out.*member = value;
    return true;
  };
}

constexpr std::int64_t kMost = 1'000'000;

const std::vector<Setting>& table() {
  static const std::vector<Setting> settings{
      seconds(
          "hold", [](Settings & s) -> auto& { return s.engine.hold; }),
      seconds(
          "node-timeout", [](Settings & s) -> auto& { return s.engine.node_timeout; }),
      seconds(
          "ended-retention", [](Settings & s) -> auto& { return s.engine.keep_ended; }),
      seconds(
          "health-grace", [](Settings & s) -> auto& { return s.engine.health_grace; }),
      seconds(
          "gang-recovery-hold", [](Settings & s) -> auto& { return s.engine.returning; }),
      {"policy", fmt::format("one of {}", fmt::join(pack::policy_names(), ", ")), read_policy},
      {"topology",
       fmt::format("up to {} labels of nodes, each once, the widest level first, without {}", gang::Tree::kMaxLevels,
                   kHostname),
       read_topology},
      {"isolate-workload-types", "up to 32 workload types, of which no two share a node, or none", read_apart},
      {"gpu-pools", "TYPE:whole or TYPE:slices, such as training:whole,inference:slices, or none", read_gpu_pools},
      seconds(
          "gap-period", [](Settings & s) -> auto& { return s.gap_period; }),
      {"mig-window", "DAYS HH:MM-HH:MM in UTC with ; between several, such as \"Sat,Sun 02:00-06:00;Wed 01:00-02:00\"",
       read_windows},
      {"preemption", "on, evict (only evictions), migrate (only migrations) or off (no preemption by placement)",
       read_propose},
      seconds(
          "preemption-after", [](Settings & s) -> auto& { return s.engine.preemption.after; }),
      number(
          "max-lost-gpu-seconds", "GPU-seconds", 1, kMost,
          [](Settings & s) -> auto& { return s.engine.preemption.max_lost_gpu_seconds; }),
      {"mig-repartition", "on, off, or names of the node pools whose GPUs may be repartitioned for pending workloads",
       read_repartition},
      seconds(
          "mig-repartition-after", [](Settings & s) -> auto& { return s.engine.mig_repartition.after; }),
      seconds(
          "mig-repartition-cooldown", [](Settings & s) -> auto& { return s.engine.mig_repartition.pause; }),
      number(
          "mig-repartition-nodes-per-hour", "nodes that are repartitioned in an hour", 1, 1000,
          [](Settings & s) -> auto& { return s.engine.mig_repartition.most_orders; }),
      {"defragmentation", "on or off", read_defrag},
      seconds(
          "defragmentation-period", [](Settings & s) -> auto& { return s.engine.defrag.every; }),
      number(
          "defragmentation-migrations-per-hour", "workloads that are migrated in an hour", 1, kMost,
          [](Settings & s) -> auto& { return s.engine.defrag.hourly; }),
      number(
          "defragmentation-min-gpus", "GPUs of whole nodes", 1, kMost,
          [](Settings & s) -> auto& { return s.engine.defrag.least_gpus; }),
      number(
          "defragmentation-max-lost-gpu-seconds", "GPU-seconds", 1, kMost,
          [](Settings & s) -> auto& { return s.engine.defrag.max_lost_gpu_seconds; }),
      {"quota", {}, owner(&Settings::quota)},
      {"binding", {}, owner(&Settings::binding)}};
  return settings;
}

}  // namespace

std::vector<std::string_view> setting_names() {
  std::vector<std::string_view> out;
  for (const Setting& setting : table()) out.push_back(setting.name);
  return out;
}

Result<Settings> settings_of(const std::map<std::string, std::string>& given) {
  QM_TRY(config::check_setting_names(given, setting_names()));
  Settings out;
  for (const auto& [name, value] : given) {
    const auto setting = std::ranges::find(table(), name, &Setting::name);
    if (!setting->read(value, out)) return fail(config::wrong_setting(name, value, setting->allowed));
  }
  return out;
}

}  // namespace qm::placement
