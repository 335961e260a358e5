#pragma once
#include "qm/placement/mig/geometry.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace qm::placement::mig {

/// A layout of one GPU, as its number in the table. Numbers are the same in every process.
using StateId = std::uint16_t;
inline constexpr StateId kNoState = 0xFFFF;
/// A possible instance, a profile at a start, as its number in the table.
using SpotId = std::uint8_t;
/// A set of spots, one bit per number.
using SpotMask = std::uint32_t;

struct Spot {
  ProfileId profile = 0;
  std::int8_t start = 0;
  friend auto operator<=>(const Spot&, const Spot&) = default;
};

/// All layouts that a geometry allows, with the transitions for placing and freeing an instance.
///
/// Order    states by their masks: 0 is the GPU without instances, and a state comes after all states that it
///          contains. Spots by profile, then start.
/// Threads  any, after construction.
/// Cost     construction takes milliseconds; place and free are one look-up each. 2,319 states of 25 spots
///          for seven slices with all profiles, 0.2 MB.
class StateTable {
 public:
  static constexpr std::size_t kMostProfiles = 8;
  /// Requires no more profiles than that, and no more than 32 spots.
  explicit StateTable(const Geometry& geometry);
  /// The table of the family, constructed at first use.
  static const StateTable& of(Family family);

  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] std::size_t size() const { return masks_.size(); }
  [[nodiscard]] static constexpr StateId empty() { return 0; }

  [[nodiscard]] std::span<const Spot> spots() const { return spots_; }
  [[nodiscard]] const Spot& spot(SpotId id) const { return spots_[id]; }
  [[nodiscard]] const Profile& profile_at(SpotId id) const { return geometry_.profiles[spots_[id].profile]; }
  /// The spots of one profile, lowest start first.
  [[nodiscard]] std::span<const SpotId> spots_of(ProfileId profile) const { return by_profile_[profile]; }
  /// None if no instance of the profile may start there.
  [[nodiscard]] std::optional<SpotId> find_spot(const Spot& spot) const;

  [[nodiscard]] SpotMask mask(StateId state) const { return masks_[state]; }
  [[nodiscard]] bool has(StateId state, SpotId spot) const { return (masks_[state] >> spot & 1U) != 0; }
  /// The state with exactly these instances; kNoState if they are not a legal layout.
  [[nodiscard]] StateId find(SpotMask mask) const;
  [[nodiscard]] StateId find(std::span<const Spot> instances) const;
  [[nodiscard]] std::vector<Spot> instances(StateId state) const;

  /// The state with the instance added; kNoState if it does not fit.
  [[nodiscard]] StateId place(StateId state, SpotId spot) const { return place_[state * spots_.size() + spot]; }
  /// The state with the instance removed; kNoState if it does not exist.
  [[nodiscard]] StateId free(StateId state, SpotId spot) const { return free_[state * spots_.size() + spot]; }
  [[nodiscard]] bool fits(StateId state, ProfileId profile) const { return fits_[state] >> profile & 1U; }
  [[nodiscard]] int compute_used(StateId state) const { return compute_[state]; }
  [[nodiscard]] int memory_used(StateId state) const { return memory_[state]; }

 private:
  [[nodiscard]] bool legal(SpotMask mask, SpotId more) const;

  Geometry geometry_;
  std::vector<Spot> spots_;
  std::vector<std::vector<SpotId>> by_profile_;
  std::vector<SpotMask> masks_;  // sorted
  std::vector<StateId> place_, free_;
  std::vector<std::uint8_t> fits_;  // profiles, bit by number
  std::vector<std::int8_t> compute_, memory_;
};

}  // namespace qm::placement::mig
