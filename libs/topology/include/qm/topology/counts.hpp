#pragma once
#include "qm/topology/resources.hpp"
#include "qm/topology/tree.hpp"

#include <span>
#include <vector>

namespace qm::topology {

/// What a domain has room for, of one kind of pod; during the way down, what it was given.
///
/// "With leader" is what is left of the room once the leader of the gang is there too; where no leader is asked for,
/// the same. Slices count at their own level and above; below it they are 0 until a layer of slices inside slices is
/// shared out.
struct Counts {
  Pods pods = 0;
  Pods slices = 0;
  Pods pods_with_leader = 0;
  Pods slices_with_leader = 0;
  Pods leaders = 0;           ///< 1 where a leader fits, of larger domains the most of any child
  std::int64_t affinity = 0;  ///< weights of the preferred terms that the nodes match
  friend bool operator==(const Counts&, const Counts&) = default;
};

/// In what room is measured.
struct RoomUnit {
  Pods Counts::*plain;
  Pods Counts::*with_leader;
};
inline constexpr RoomUnit kInSlices{&Counts::slices, &Counts::slices_with_leader};
inline constexpr RoomUnit kInPods{&Counts::pods, &Counts::pods_with_leader};

/// By DomainId.
using State = std::vector<Counts>;

/// How pods come in runs: runs of `size` at `level`, and inside them, by level, runs of inner[level] where that is
/// above 0.
struct SliceShape {
  Pods size = 1;
  int level = 0;
  std::vector<Pods> inner;
  [[nodiscard]] Pods inner_at(int at) const {
    return static_cast<std::size_t>(at) < inner.size() ? inner[static_cast<std::size_t>(at)] : 0;
  }
};

/// Adds up what the leaves have room for, to `top` and everything below it. A leader costs a domain as little as it
/// costs the child that it costs least, among those it fits in.
///
/// Cost     O(domains below top), level by level in the order of memory.
void roll_up(const Tree& tree, State& state, DomainRange top, const SliceShape& slices, bool with_leader);

/// By what domains are taken first.
struct Ordering {
  bool least_free = false;  ///< the ones with least room first, and not those with most
  bool affinity = false;    ///< the nodes' preference comes before room
};
/// By slices (as the ordering says), then fewest pods, then by values. Total, so equal input gives equal order.
[[nodiscard]] std::vector<DomainId> sorted(const State& state, std::span<const DomainId> domains, Ordering ordering);
/// The same by what is left with a leader, those that a leader fits in first.
[[nodiscard]] std::vector<DomainId> sorted_with_leader(const State& state, std::span<const DomainId> domains,
                                                       Ordering ordering);
/// Whether a stands before b in that.
[[nodiscard]] bool first_with_leader(const State& state, DomainId a, DomainId b, Ordering ordering);

[[nodiscard]] std::vector<DomainId> to_list(DomainRange range);

}  // namespace qm::topology
