#pragma once
#include "qm/topology/resources.hpp"
#include "qm/topology/tree.hpp"

#include <span>
#include <vector>

namespace qm::topology {

/// The free capacity of a domain, for one kind of pod; on the way down, the assigned pods.
///
/// "With leader" is the capacity that remains after the leader of the gang is placed there; without a leader in the
/// request it is the same. Slices count at their own level and above; below it they are 0 until a layer of slices
/// inside slices is assigned.
struct Counts {
  Pods pods = 0;
  Pods slices = 0;
  Pods pods_with_leader = 0;
  Pods slices_with_leader = 0;
  Pods leaders = 0;           ///< 1 if a leader fits; for larger domains the maximum over the children
  std::int64_t affinity = 0;  ///< weights of the preferred terms that the nodes match
  friend bool operator==(const Counts&, const Counts&) = default;
};

/// The unit of capacity.
struct CapacityUnit {
  Pods Counts::*plain;
  Pods Counts::*with_leader;
};
inline constexpr CapacityUnit kInSlices{&Counts::slices, &Counts::slices_with_leader};
inline constexpr CapacityUnit kInPods{&Counts::pods, &Counts::pods_with_leader};

/// By DomainId.
using State = std::vector<Counts>;

/// The slices of a gang: runs of `size` at `level`, and inside them, by level, runs of inner[level] if that is above
/// 0.
struct SliceShape {
  Pods size = 1;
  int level = 0;
  std::vector<Pods> inner;
  [[nodiscard]] Pods inner_at(int at) const {
    return static_cast<std::size_t>(at) < inner.size() ? inner[static_cast<std::size_t>(at)] : 0;
  }
};

/// Adds up the capacity of the leaves, for `top` and everything below it. A leader costs a domain as little as it
/// costs the cheapest child in which it fits.
///
/// Cost     O(domains below top), level by level in the order of memory.
void roll_up(const Tree& tree, State& state, DomainRange top, const SliceShape& slices, bool with_leader);

/// The order in which domains are used.
struct Ordering {
  bool least_free = false;  ///< the ones with least capacity first, instead of most
  bool affinity = false;    ///< the nodes' preference comes before capacity
};
/// By slices (as in the ordering), then fewest pods, then by values. Total, so equal input gives equal order.
[[nodiscard]] std::vector<DomainId> sorted(const State& state, std::span<const DomainId> domains, Ordering ordering);
/// The same by the capacity with a leader, first the domains in which a leader fits.
[[nodiscard]] std::vector<DomainId> sorted_with_leader(const State& state, std::span<const DomainId> domains,
                                                       Ordering ordering);
/// Whether a precedes b in that order.
[[nodiscard]] bool first_with_leader(const State& state, DomainId a, DomainId b, Ordering ordering);

[[nodiscard]] std::vector<DomainId> to_list(DomainRange range);

}  // namespace qm::topology
