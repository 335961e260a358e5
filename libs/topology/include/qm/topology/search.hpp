#pragma once
#include "qm/base/result.hpp"
#include "qm/topology/counts.hpp"
#include "qm/topology/request.hpp"
#include "qm/topology/topology.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace qm::topology {

/// Why leaves fit no pod; the message has the count per reason.
struct Exclusions {
  std::int64_t total = 0;
  std::int64_t selector = 0;
  std::int64_t affinity = 0;
  std::int64_t elsewhere = 0;  ///< outside the required domain of a replacement
  std::map<std::string, std::int64_t> taints;
  std::map<ResourceId, std::int64_t> resources;  ///< not enough of it for a single pod
  /// ". Total nodes: 4; excluded: ..."; empty where there are none.
  [[nodiscard]] std::string text(const ResourceNames& names) const;
};

struct SearchOptions {
  const AssumedUsage* assumed = nullptr;
  bool simulate_empty = false;  ///< ignores the placed pods
  DomainId within = kNoDomain;  ///< only leaves in this domain
};

/// Workers, and their leader.
struct GangPlacement {
  Placement workers;
  Placement leader;
};

/// Finds leaves for one gang.
///
/// Steps    1 the number of pods and slices that fit each domain, leaves first; 2 the level and the domains there
///          that fit all: BestFit selects the tightest domain that fits, LeastFreeCapacity the one with least
///          capacity; if none fits, required fails, preferred goes a level up, and at the top uses the fewest
///          domains; 3 down again, level by level, with the fewest domains. Greedy and without backtracking, as in
///          Kueue.
/// Order    total: by capacity, then by level values.
/// Threads  one at a time, it keeps its arrays between calls; any number of them may read one Topology.
/// Fails    kExhausted: there is no capacity now; kInvalid: the requested levels or slices are impossible. Messages
///          are Kueue's.
/// Differs  from Kueue where a domain was counted with more capacity than its children have. Balanced placement does
///          this: it counts slices inside slices as if they were single pods. Kueue then admits a part of the gang.
///          Here the fallback of balanced placement is BestFit, and a gang that is still incomplete does not fit.
/// Cost     O(leaves · resources + domains) to count, O(n log n) over the sorted domains; topology_bench.cpp.
/// Source   Kueue ff69552e, pkg/cache/scheduler/tas_flavor_snapshot.go, tas_balanced_placement.go; KEP-2724.
class Search {
 public:
  Search(const Topology& topology, Gates gates) : topology_(topology), tree_(topology.tree()), gates_(gates) {}

  [[nodiscard]] Result<GangPlacement> place(const PodSetRequest& workers, const PodSetRequest* leader,
                                            const SearchOptions& options);

  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] const Gates& gates() const { return gates_; }

 private:
  struct Need;
  struct Chosen {
    int level = 0;
    std::vector<DomainId> domains;
    bool balanced = false;
  };
  [[nodiscard]] Result<Need> resolve(const PodSetRequest& workers, const PodSetRequest* leader) const;
  [[nodiscard]] static bool whole(const Need& need, const GangPlacement& placed);
  void count(const PodSetRequest& workers, const PodSetRequest* leader, const SearchOptions& options, const Need& need);
  void count_leaf(DomainId leaf, std::span<const std::int64_t> free_amounts, const Requests& worker,
                  const Requests* leader);
  [[nodiscard]] Result<Chosen> choose(const Need& need);
  [[nodiscard]] bool choose_balanced(const Need& need, Chosen& out);
  [[nodiscard]] Result<Chosen> choose_level(const Need& need, int level) const;
  [[nodiscard]] DomainId one_for_all(const Need& need, DomainRange range) const;
  [[nodiscard]] Result<Chosen> choose_several(const Need& need, int level, std::vector<DomainId> domains) const;
  [[nodiscard]] GangPlacement descend(const Need& need, Chosen chosen);
  [[nodiscard]] std::vector<DomainId> fewest(std::vector<DomainId> domains, Pods pods, Pods leaders, Pods per_unit,
                                             CapacityUnit unit, const Need& need);
  [[nodiscard]] DomainId tightest(std::span<const DomainId> domains, Pods needed, Pods leaders,
                                  CapacityUnit unit) const;
  [[nodiscard]] std::vector<DomainId> leader_first(std::vector<DomainId> domains, Pods needed, Pods leaders,
                                                   CapacityUnit unit) const;
  [[nodiscard]] tl::unexpected<Error> no_fit(const Need& need, int level, Pods fit) const;
  [[nodiscard]] Pods slices_in(DomainId domain, int level, Pods size) const;
  [[nodiscard]] Ordering ordering(const Need& need) const;
  [[nodiscard]] bool best_fit(const Need& need) const { return !ordering(need).least_free; }
  [[nodiscard]] const Counts& at(DomainId d) const { return state_[static_cast<std::size_t>(d)]; }
  [[nodiscard]] Counts& at(DomainId d) { return state_[static_cast<std::size_t>(d)]; }

  const Topology& topology_;
  const Tree& tree_;
  Gates gates_;
  State state_;
  Exclusions excluded_;
  std::vector<std::int64_t> free_;  ///< of one leaf
};

}  // namespace qm::topology
