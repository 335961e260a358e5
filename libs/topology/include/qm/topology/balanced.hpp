#pragma once
#include "qm/topology/counts.hpp"

#include <optional>
#include <span>
#include <vector>

namespace qm::topology {

/// A number of pods in whole slices, optionally with a leader.
struct Load {
  Pods slices = 0;
  Pods leaders = 0;
  Pods slice_size = 1;
  [[nodiscard]] Pods pods() const { return slices * slice_size; }
};

/// The number of domains that a load needs when they are filled in descending order of capacity.
struct GreedyFit {
  Pods domains = 0;
  DomainId last_with_leader = kNoDomain;
  DomainId last = kNoDomain;  ///< the last of those without a leader
};
[[nodiscard]] std::optional<GreedyFit> greedy_fit(const State& state, std::span<const DomainId> domains,
                                                  const Load& load, bool affinity);

/// The fewest domains that the load fits, and of these the ones with the least unused capacity; empty if it does not
/// fit. `by_evenness`: ties go to the domains with the most equal children, otherwise to smaller values.
///
/// Cost     O(domains · d · states · log states), d domains chosen, states the possible sums of capacity of d of
///          them.
[[nodiscard]] std::vector<DomainId> fewest_that_fit(const Tree& tree, const State& state,
                                                    std::span<const DomainId> domains, const Load& load,
                                                    bool by_evenness, bool affinity);

/// Sorted by most leaders, most slices with a leader, most even children, smaller values.
[[nodiscard]] std::vector<DomainId> sorted_by_evenness(const Tree& tree, const State& state,
                                                       std::span<const DomainId> domains);

/// Assigns `threshold` slices to each of the fewest domains, and the rest to those with the most capacity; state
/// becomes the assignment. Empty if that is not possible, and then state is not valid.
[[nodiscard]] std::vector<DomainId> share_evenly(const Tree& tree, State& state, std::span<const DomainId> domains,
                                                 const Load& load, Pods threshold, bool affinity);

/// Sets the counts to zero where the capacity is below `threshold` slices, among `domains` and their children; a
/// leader is only allowed where that many slices fit in addition to it.
void prune_below(const Tree& tree, State& state, DomainRange domains, Pods threshold, const SliceShape& slices,
                 bool with_leader);

/// Prepares the state for a balanced placement at `level`: the siblings there that fit the load with the highest
/// minimum share per domain. The rest of the state is unchanged.
struct BalancedChoice {
  DomainRange siblings;
  Pods threshold = 0;  ///< minimum number of slices of each chosen domain
};
/// Nothing if the load fits under no parent.
[[nodiscard]] std::optional<BalancedChoice> choose_siblings(const Tree& tree, State& state, int level, const Load& load,
                                                            const SliceShape& slices, bool affinity);

}  // namespace qm::topology
