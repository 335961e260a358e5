#pragma once
#include "qm/cost/engine.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// One instance's lifetime as a pure function of the facts: its rates, its slices, and the owners of each.
namespace qm::cost {

inline constexpr Instant kFromTheStart = Instant::min();
inline constexpr Instant kNever = Instant::max();

/// The prices of one instance over its life.
class Rates {
 public:
  Rates(const State& state, const InstanceRow& row);
  /// The provider's charge for [from, until).
  [[nodiscard]] Money bill(Instant from, Instant until) const;
  [[nodiscard]] HourlyRate at(Instant t) const;
  [[nodiscard]] bool priced() const { return priced_; }
  [[nodiscard]] const std::vector<std::pair<Instant, HourlyRate>>& segments() const { return segments_; }

 private:
  Instant origin_;
  bool priced_ = true;
  std::vector<std::pair<Instant, HourlyRate>> segments_;  ///< by start; neighbors differ
};

/// The node of an instance: from the node's own event, else from the autoscaler's.
[[nodiscard]] NodeName node_of(const State& state, const InstanceId& id, const InstanceRow& row);
/// The time from which an instance's slices can still change.
[[nodiscard]] inline Instant open_from(const InstanceRow& row) { return std::max(row.launched, row.frozen_until); }
[[nodiscard]] inline Instant end_of_life(const InstanceRow& row) {
  return row.stopped == Instant{} ? kNever : row.stopped;
}
/// Posted up to here; the start if nothing is posted.
[[nodiscard]] inline Instant settled(const InstanceRow& row) { return std::max(open_from(row), row.settled_until); }

/// A view of one instance between two times, for splitting it into slices.
class Timeline {
 public:
  /// `from` must be a boundary: the launch, a full hour, or the time of a change.
  Timeline(const State& state, const Engine::Index& index, const InstanceId& id, Instant from, Instant until);
  struct Piece {
    Instant start, end;
  };
  /// The slices that begin in [from, until), whole: the last may end after `until`. At most `max`.
  [[nodiscard]] std::vector<Piece> pieces(std::size_t max = SIZE_MAX) const;
  /// The charge of [start, end) within one piece. For a part of a piece compute differences of prefixes.
  [[nodiscard]] SliceRow slice(Instant start, Instant end) const;

 private:
  struct Occupancy {
    Instant from, until;
    const Owner* owner;
    const std::vector<DeviceShare>* devices;
  };
  [[nodiscard]] std::string_view pool_at(Instant t) const;

  const InstanceRow& row_;
  Rates rates_;
  std::string node_;
  std::int32_t gpus_ = 0;
  std::int32_t compute_slices_;  // of each GPU under MIG
  const std::map<Instant, NodePoint>* points_ = nullptr;
  std::vector<Occupancy> stays_;
  std::vector<Instant> cuts_;
  Instant from_, until_;
};

}  // namespace qm::cost
