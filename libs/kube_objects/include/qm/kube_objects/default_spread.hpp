#pragma once
#include "qm/base/result.hpp"
#include "qm/kube_rules/pod_rules.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::kube_objects {

/// Topology spread that kube-scheduler applies to pods without constraints of their own, without the selector of pods.
using DefaultSpread = std::vector<kube_rules::Spread>;

/// The defaults of kube-scheduler (defaultingType System): hosts with a skew of 3 and zones with 5, both ScheduleAnyway.
[[nodiscard]] DefaultSpread system_spread();

/// Reads "system", "none" or a list of defaultConstraints as KEY:MAXSKEW:DoNotSchedule or KEY:MAXSKEW:ScheduleAnyway.
///
/// Fails    kInvalid: an item without three parts, a skew below 1, another third part, or a repeated key and part.
[[nodiscard]] Result<DefaultSpread> default_spread_of(std::string_view text);
/// The inverse of default_spread_of.
[[nodiscard]] std::string text_of(const DefaultSpread& defaults);

/// Adds the defaults to a pod that has no constraint. `selected`: the pods of its Services and of its controller; without
/// requirements the defaults do not apply.
///
/// Source   plugins/podtopologyspread/common.go of kube-scheduler 1.36, buildDefaultConstraints.
void add_default_spread(const DefaultSpread& defaults, const LabelSelector& selected, kube_rules::PodTemplate& pod);

}  // namespace qm::kube_objects
