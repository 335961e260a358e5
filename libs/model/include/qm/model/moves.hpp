#pragma once
#include "qm/model/resources.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace qm {

/// "false" as a label of a workload: it is not told to go on elsewhere so that nodes come free.
inline constexpr std::string_view kMovable = "quartermaster.dev/movable";

/// Whether a workload is never told to go on elsewhere, by what it says of itself; or because nobody makes its pods again: those that stand for themselves.
[[nodiscard]] inline bool stays_where_it_is(std::string_view kind, const Labels& labels) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kWords{
      {{kMovable, "false"}, {words::kDoNotDisrupt, "true"}, {"volcano.sh/preemptable", "false"}}};
  if (kind == "Pod" || kind == "PodGroup") return true;
  return std::ranges::any_of(kWords, [&labels](const auto& word) {
    const auto said = labels.find(std::string(word.first));
    return said != labels.end() && said->second == word.second;
  });
}

}  // namespace qm
