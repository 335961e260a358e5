#pragma once
#include "qm/model/resources.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace qm {

/// With "false" as the value of this label a workload is not migrated for defragmentation.
inline constexpr std::string_view kMovable = "quartermaster.dev/movable";

/// Whether a workload must never be migrated: by its labels, or because no controller would create its pods again
/// (kinds Pod and PodGroup).
[[nodiscard]] inline bool stays_where_it_is(std::string_view kind, const Labels& labels) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kWords{
      {{kMovable, "false"}, {words::kDoNotDisrupt, "true"}, {"volcano.sh/preemptable", "false"}}};
  if (kind == "Pod" || kind == "PodGroup") return true;
  return std::ranges::any_of(kWords, [&labels](const auto& word) {
    const auto label = labels.find(std::string(word.first));
    return label != labels.end() && label->second == word.second;
  });
}

}  // namespace qm
