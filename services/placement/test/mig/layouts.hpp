#pragma once
// Shared by the MIG tests: geometries without some profiles, layouts written as text, and a check
// of legality from scratch.
#include "qm/placement/mig/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace qm::placement::mig::testing {

/// The geometry without the profiles of these shapes.
inline Geometry without(Geometry geometry, const std::set<std::string_view>& shapes) {
  std::erase_if(geometry.profiles, [&](const Profile& profile) { return shapes.contains(profile.shape); });
  return geometry;
}

/// "3g@0 1g@4".
inline std::string text_of(const StateTable& table, StateId state) {
  std::string out;
  for (const Spot& spot : table.instances(state)) {
    out += fmt::format("{}{}@{}", out.empty() ? "" : " ", table.geometry().profiles[spot.profile].shape, spot.start);
  }
  return out;
}

/// Parses such a text; unknown shapes and starts become a spot that no geometry has.
inline std::vector<Spot> spots_of(const Geometry& geometry, std::string_view text) {
  std::vector<Spot> out;
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const auto shape = word.substr(0, word.find('@'));
    const auto at = std::ranges::find(geometry.profiles, shape, &Profile::shape);
    out.push_back(
        {static_cast<ProfileId>(at - geometry.profiles.begin()), static_cast<std::int8_t>(word.back() - '0')});
  }
  return out;
}
inline StateId state_of(const StateTable& table, std::string_view text) {
  return table.find(spots_of(table.geometry(), text));
}

/// Checks whether instances may exist together, by painting slices: independent of the table.
inline bool legal(const Geometry& geometry, const std::vector<Spot>& instances) {
  std::vector<int> memory(static_cast<std::size_t>(geometry.memory_slices)), count(geometry.profiles.size());
  int compute = 0, media = 0;
  for (const Spot& spot : instances) {
    if (spot.profile >= geometry.profiles.size()) return false;
    const Profile& profile = geometry.profiles[spot.profile];
    if (std::ranges::find(profile.starts, spot.start) == profile.starts.end()) return false;
    for (int slice = spot.start; slice < spot.start + profile.memory; ++slice) {
      if (slice >= geometry.memory_slices || memory[static_cast<std::size_t>(slice)]++ > 0) return false;
    }
    compute += profile.compute;
    media += profile.media ? 1 : 0;
    if (++count[spot.profile] > profile.most) return false;
  }
  return compute <= geometry.compute_slices && media <= 1;
}

}  // namespace qm::placement::mig::testing
