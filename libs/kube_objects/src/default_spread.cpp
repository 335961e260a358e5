#include "qm/kube_objects/default_spread.hpp"

#include "qm/base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::kube_objects {
namespace {

constexpr std::string_view kHard = "DoNotSchedule", kSoft = "ScheduleAnyway";

kube_rules::Spread spread(std::string key, std::int64_t skew, bool required) {
  kube_rules::Spread out;
  out.topology_key = std::move(key);
  out.max_skew = skew;
  out.required = required;
  return out;
}

bool same(const kube_rules::Spread& a, const kube_rules::Spread& b) {
  return a.topology_key == b.topology_key && a.required == b.required;
}

bool equal(const DefaultSpread& a, const DefaultSpread& b) {
  return std::ranges::equal(
      a, b, [](const auto& one, const auto& other) { return same(one, other) && one.max_skew == other.max_skew; });
}

}  // namespace

DefaultSpread system_spread() {
  return {spread("kubernetes.io/hostname", 3, false), spread("topology.kubernetes.io/zone", 5, false)};
}

Result<DefaultSpread> default_spread_of(std::string_view text) {
  if (text == "none") return DefaultSpread{};
  if (text == "system") return system_spread();
  DefaultSpread out;
  while (true) {
    const auto comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const auto last = item.rfind(':');
    const auto first = last == std::string_view::npos ? last : item.rfind(':', last - 1);
    const auto refuse = [&](std::string_view why) {
      return fail(Error{Code::kInvalid,
                        fmt::format("the default constraint \"{}\" {}", item, why),
                        {},
                        "write system, none, or KEY:MAXSKEW:DoNotSchedule and KEY:MAXSKEW:ScheduleAnyway"});
    };
    if (first == std::string_view::npos || first == 0) return refuse("has no three parts");
    const auto skew = whole_number(item.substr(first + 1, last - first - 1));
    const std::string_view otherwise = item.substr(last + 1);
    if (!skew || *skew < 1) return refuse("has no skew of 1 or more");
    if (otherwise != kHard && otherwise != kSoft) return refuse("ends with another word");
    out.push_back(spread(std::string(item.substr(0, first)), *skew, otherwise == kHard));
    if (std::ranges::count_if(out, [&](const auto& one) { return same(one, out.back()); }) > 1)
      return refuse("is repeated");
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

std::string text_of(const DefaultSpread& defaults) {
  if (defaults.empty()) return "none";
  if (equal(defaults, system_spread())) return "system";
  std::string out;
  for (const auto& one : defaults)
    out +=
        fmt::format("{}{}:{}:{}", out.empty() ? "" : ",", one.topology_key, one.max_skew, one.required ? kHard : kSoft);
  return out;
}

void add_default_spread(const DefaultSpread& defaults, const LabelSelector& selected, kube_rules::PodTemplate& pod) {
  if (!pod.rules.spread.empty() || selected.requirements.empty()) return;
  pod.rules.spread = defaults;
  for (auto& one : pod.rules.spread) one.pods = selected;
}

}  // namespace qm::kube_objects
