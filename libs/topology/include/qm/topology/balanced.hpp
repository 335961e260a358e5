#pragma once
#include "qm/topology/counts.hpp"

#include <optional>
#include <span>
#include <vector>

namespace qm::topology {

/// Pods in whole slices, perhaps with a leader.
struct Load {
  Pods slices = 0;
  Pods leaders = 0;
  Pods slice_size = 1;
  [[nodiscard]] Pods pods() const { return slices * slice_size; }
};

/// What it takes to fill domains from the roomiest on.
struct GreedyFit {
  Pods domains = 0;
  DomainId last_with_leader = kNoDomain;
  DomainId last = kNoDomain;  ///< of those without a leader
};
[[nodiscard]] std::optional<GreedyFit> greedy_fit(const State& state, std::span<const DomainId> domains,
                                                  const Load& load, bool affinity);

/// As few of the domains as the load fits in, and of these the ones with least room to spare; empty where it does not
/// fit. `by_evenness`: of equals those whose children are most alike come first, else those with smaller values.
///
/// Cost     O(domains · d · states · log states), d domains chosen, states the sums of room that d of them can have.
[[nodiscard]] std::vector<DomainId> fewest_that_fit(const Tree& tree, const State& state,
                                                    std::span<const DomainId> domains, const Load& load,
                                                    bool by_evenness, bool affinity);

/// Most leaders, most slices beside them, most even children, smaller values.
[[nodiscard]] std::vector<DomainId> sorted_by_evenness(const Tree& tree, const State& state,
                                                       std::span<const DomainId> domains);

/// Gives each of the fewest domains `threshold` slices, and what is left over to the roomiest; state is what was given.
/// Empty where that cannot be done, and then state is of no use.
[[nodiscard]] std::vector<DomainId> share_evenly(const Tree& tree, State& state, std::span<const DomainId> domains,
                                                 const Load& load, Pods threshold, bool affinity);

/// Empties what has room for less than `threshold` slices, among `domains` and their children; a leader goes only where
/// that many still fit beside it.
void prune_below(const Tree& tree, State& state, DomainRange domains, Pods threshold, const SliceShape& slices,
                 bool with_leader);

/// Prepares the state for a balanced placement at `level`: siblings there that can take the load with the highest least
/// share per domain. The rest of the state is left as it is.
struct BalancedChoice {
  DomainRange siblings;
  Pods threshold = 0;  ///< slices that every domain chosen gets at least
};
/// Nothing where the load fits under no parent.
[[nodiscard]] std::optional<BalancedChoice> choose_siblings(const Tree& tree, State& state, int level, const Load& load,
                                                            const SliceShape& slices, bool affinity);

}  // namespace qm::topology
