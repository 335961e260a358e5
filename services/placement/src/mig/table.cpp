// All layouts are found once, by adding one instance at a time to those known, and sorted by their
// masks. Adding a bit makes a mask larger, so every state that another state can become comes after
// it in numeric order. Sums over later states therefore go through the table backwards.
#include "qm/placement/mig/table.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace qm::placement::mig {

StateTable::StateTable(const Geometry& geometry) : geometry_(geometry), by_profile_(geometry.profiles.size()) {
  for (ProfileId profile = 0; profile < geometry_.profiles.size(); ++profile) {
    for (const std::int8_t start : geometry_.profiles[profile].starts) {
      by_profile_[profile].push_back(static_cast<SpotId>(spots_.size()));
      spots_.push_back({profile, start});
    }
  }
  QM_ASSERT(spots_.size() <= 32 && geometry_.profiles.size() <= kMostProfiles, "{} spots of {} profiles", spots_.size(),
            geometry_.profiles.size());

  std::set<SpotMask> seen{0};
  for (std::vector<SpotMask> todo{0}; !todo.empty();) {
    const SpotMask mask = todo.back();
    todo.pop_back();
    for (SpotId spot = 0; spot < spots_.size(); ++spot) {
      if (legal(mask, spot) && seen.insert(mask | 1U << spot).second) todo.push_back(mask | 1U << spot);
    }
  }
  masks_.assign(seen.begin(), seen.end());
  QM_ASSERT(masks_.size() < kNoState, "{} states", masks_.size());

  place_.assign(masks_.size() * spots_.size(), kNoState);
  free_ = place_;
  fits_.assign(masks_.size(), 0);
  compute_.assign(masks_.size(), 0);
  memory_ = compute_;
  for (StateId state = 0; state < masks_.size(); ++state) {
    for (SpotId spot = 0; spot < spots_.size(); ++spot) {
      const auto at = state * spots_.size() + spot;
      if (has(state, spot)) {
        free_[at] = find(masks_[state] & ~(1U << spot));
        compute_[state] = static_cast<std::int8_t>(compute_[state] + profile_at(spot).compute);
        memory_[state] = static_cast<std::int8_t>(memory_[state] + profile_at(spot).memory);
      } else if (const StateId next = find(masks_[state] | 1U << spot); next != kNoState) {
        place_[at] = next;
        fits_[state] = static_cast<std::uint8_t>(fits_[state] | 1U << spots_[spot].profile);
      }
    }
  }
}

const StateTable& StateTable::of(Family family) {
  static const StateTable all_seven(geometry_of(Family::kSeven));
  static const StateTable all_four(geometry_of(Family::kFour));
  return family == Family::kSeven ? all_seven : all_four;
}

bool StateTable::legal(SpotMask mask, SpotId more) const {
  const Profile& profile = profile_at(more);
  const int begin = spots_[more].start, end = begin + profile.memory;
  int compute = profile.compute, same = 1;
  for (SpotMask rest = mask; rest != 0; rest &= rest - 1) {
    const auto id = static_cast<SpotId>(std::countr_zero(rest));
    const Profile& other = profile_at(id);
    if (begin < spots_[id].start + other.memory && spots_[id].start < end) return false;
    if (profile.media && other.media) return false;
    compute += other.compute;
    same += spots_[id].profile == spots_[more].profile ? 1 : 0;
  }
  return compute <= geometry_.compute_slices && same <= profile.most;
}

std::optional<SpotId> StateTable::find_spot(const Spot& spot) const {
  const auto at = std::ranges::lower_bound(spots_, spot);
  if (at == spots_.end() || *at != spot) return std::nullopt;
  return static_cast<SpotId>(at - spots_.begin());
}

StateId StateTable::find(SpotMask mask) const {
  const auto at = std::ranges::lower_bound(masks_, mask);
  return at == masks_.end() || *at != mask ? kNoState : static_cast<StateId>(at - masks_.begin());
}

StateId StateTable::find(std::span<const Spot> instances) const {
  SpotMask mask = 0;
  for (const Spot& instance : instances) {
    const auto spot = find_spot(instance);
    if (!spot || (mask >> *spot & 1U) != 0) return kNoState;
    mask |= 1U << *spot;
  }
  return find(mask);
}

std::vector<Spot> StateTable::instances(StateId state) const {
  std::vector<Spot> out;
  for (SpotMask rest = masks_[state]; rest != 0; rest &= rest - 1)
    out.push_back(spots_[static_cast<std::size_t>(std::countr_zero(rest))]);
  return out;
}

}  // namespace qm::placement::mig
