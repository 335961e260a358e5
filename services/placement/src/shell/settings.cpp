#include "qm/placement/settings.hpp"

#include "qm/placement/gang/tree.hpp"
#include "qm/placement/pack/policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <sstream>

namespace qm::placement {
namespace {

/// Puts a value where it belongs; false: it is not understood.
using Read = std::function<bool(const std::string& value, Settings& out)>;
struct Setting {
  std::string_view name;
  std::string takes;  ///< the remedy where the value is not understood
  Read read;
};

std::optional<std::int64_t> number_of(const std::string& value, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most) return std::nullopt;
  return number;
}

std::vector<std::string> parts_of(const std::string& value, char separator) {
  std::vector<std::string> out;
  std::stringstream in(value);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

/// A whole number for the member that `at` names.
template <class At>
Setting number(std::string_view name, std::string_view what, std::int64_t least, std::int64_t most, At at) {
  return {name, fmt::format("give {} from {} to {}", what, least, most), [=](const std::string& value, Settings& out) {
            const auto read = number_of(value, least, most);
            if (read) at(out) = static_cast<std::remove_reference_t<decltype(at(out))>>(*read);
            return read.has_value();
          }};
}

template <class At>
Setting seconds(std::string_view name, At at) {
  constexpr std::int64_t kDay = 86'400;
  return {name, fmt::format("give whole seconds from 1 to {}", kDay), [=](const std::string& value, Settings& out) {
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
  auto& rules = out.engine.proposing;
  rules.on = value != "off";
  rules.evicting = value == "on" || value == "evict";
  rules.moving = value == "on" || value == "move";
  return !rules.on || rules.evicting || rules.moving;
}

bool read_recut(const std::string& value, Settings& out) {
  auto& rules = out.engine.recutting;
  rules.on = value != "off";
  const auto pools = value == "on" || value == "off" ? std::vector<std::string>() : parts_of(value, ',');
  rules.pools = {pools.begin(), pools.end()};
  return !value.empty() && !rules.pools.contains(std::string());
}

bool read_tidy(const std::string& value, Settings& out) {
  out.engine.tidying.on = value == "on";
  return value == "on" || value == "off";
}

/// Empty means as if it were not given.
Read owner(std::string Settings::*member) {
  return [member](const std::string& value, Settings& out) {
    if (!value.empty()) out.*member = value;
    return true;
  };
}

constexpr std::int64_t kMost = 1'000'000;

const std::vector<Setting>& table() {
  static const std::vector<Setting> settings{
      seconds("hold", [](Settings& s) -> auto& { return s.engine.hold; }),
      seconds("node-timeout", [](Settings& s) -> auto& { return s.engine.node_timeout; }),
      seconds("keep-ended", [](Settings& s) -> auto& { return s.engine.keep_ended; }),
      seconds("health-grace", [](Settings& s) -> auto& { return s.engine.health_grace; }),
      seconds("keep-after-loss", [](Settings& s) -> auto& { return s.engine.returning; }),
      {"policy", fmt::format("use {}", fmt::join(pack::policy_names(), ", ")), read_policy},
      {"topology",
       fmt::format("name up to {} labels of nodes, each once, the widest level first, without {}", gang::Tree::kMaxLevels,
                   kHostname),
       read_topology},
      {"apart", "name up to 32 workload types, of which no two share a node, or none", read_apart},
      {"gpu-pools", "write TYPE:whole or TYPE:slices, as training:whole,inference:slices, or none", read_gpu_pools},
      seconds("gap-period", [](Settings& s) -> auto& { return s.gap_period; }),
      {"mig-window", "write DAYS HH:MM-HH:MM in UTC with ; between several, as \"Sat,Sun 02:00-06:00;Wed 01:00-02:00\"",
       read_windows},
      {"propose", "use on, evict or move where only one of both shall be, or off where nobody shall be asked to give way",
       read_propose},
      seconds("propose-after", [](Settings& s) -> auto& { return s.engine.proposing.after; }),
      number("propose-most-lost", "GPU-seconds", 1, kMost,
             [](Settings& s) -> auto& { return s.engine.proposing.most_lost; }),
      {"recut", "use on, off, or names of the node pools whose GPUs may be cut for who waits", read_recut},
      seconds("recut-after", [](Settings& s) -> auto& { return s.engine.recutting.after; }),
      seconds("recut-pause", [](Settings& s) -> auto& { return s.engine.recutting.pause; }),
      number("recut-orders", "nodes that may be cut in an hour", 1, 1000,
             [](Settings& s) -> auto& { return s.engine.recutting.most_orders; }),
      {"tidy", "use on, or off where nobody shall be asked to move so that nodes come free", read_tidy},
      seconds("tidy-every", [](Settings& s) -> auto& { return s.engine.tidying.every; }),
      number("tidy-hourly", "workloads that may be asked to move in an hour", 1, kMost,
             [](Settings& s) -> auto& { return s.engine.tidying.hourly; }),
      number("tidy-least-gpus", "GPUs of whole nodes", 1, kMost,
             [](Settings& s) -> auto& { return s.engine.tidying.least_gpus; }),
      number("tidy-most-lost", "GPU-seconds", 1, kMost,
             [](Settings& s) -> auto& { return s.engine.tidying.most_lost; }),
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
  Settings out;
  for (const auto& [name, value] : given) {
    const auto setting = std::ranges::find(table(), name, &Setting::name);
    if (setting == table().end()) {
      return fail(Error{Code::kInvalid, fmt::format("there is no setting {}", name), name,
                        fmt::format("use {}", fmt::join(setting_names(), ", "))});
    }
    if (!setting->read(value, out)) {
      return fail(
          Error{Code::kInvalid, fmt::format("setting {}={} is not understood", name, value), name, setting->takes});
    }
  }
  return out;
}

}  // namespace qm::placement
