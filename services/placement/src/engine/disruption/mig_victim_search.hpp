#pragma once
#include "engine/disruption/victims.hpp"
#include "engine/mig/mig_layout_catalog.hpp"
#include "engine/mig/mig_layouts.hpp"
#include "engine/mig/repartition_search.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::placement {

/// A search for one pending workload.
///
/// An option for a node is that holders of instances leave, or that all users of its GPUs leave and the node is
/// repartitioned to an allowed layout. The node then fits more pods, at the cost of lost work and of destroyed and
/// created instances. The options with the best gain per cost are chosen, one by one, until the engine's own placement
/// succeeds. Victims and repartitions that are not needed are then dropped.
///
/// Bounds   256 nodes, those with the least lost work first; 64 options and 64 victims of a plan.
/// Cost     one evaluation of each of these nodes with each allowed layout, and again after an option changed
///          one; as many placements as victims, several times.
class MigVictimSearch {
 public:
  struct Loss {
    std::int64_t gpu_ms = 0, micro_usd = 0;
  };
  struct Found {
    std::set<AttemptId> victims;
    NodeLayouts repartitions;
    std::vector<Member> members;                  ///< of the workload, afterwards
    std::int64_t lost = 0, repartition_cost = 0;  ///< micro-dollars
    [[nodiscard]] std::int64_t cost() const { return lost + repartition_cost; }
  };

  /// `terminating`: victims of other proposals, which are not considered.
  MigVictimSearch(const State& state, const Victims& victims, const RepartitionSearch& search,
                  const Capacities& capacities, const MigLayouts& layouts, WorkloadUid uid,
                  const std::set<AttemptId>& terminating);

  /// Work that an eviction of the attempt loses now, and its restart.
  [[nodiscard]] static Loss loss_of(const State& state, const AttemptId& id);
  [[nodiscard]] bool has_no_candidates() const { return losses_.empty(); }
  [[nodiscard]] const Loss& loss(const AttemptId& id) const { return losses_.at(id); }

  /// By released instances, by repartitioned nodes, and by both.
  [[nodiscard]] std::optional<Found> cheapest(bool may_repartition);

 private:
  using Fits = std::vector<std::int64_t>;  ///< pods that fit a node, by pod set
  struct Alternative {
    NodeName node;
    std::set<AttemptId> victims;  ///< additional victims
    std::string layout;           ///< empty: the layout does not change
    std::int64_t cost = 0;
    Fits fits;  ///< afterwards
  };
  struct Hypothesis {
    std::set<AttemptId> victims;
    NodeLayouts repartitions;
  };

  [[nodiscard]] Fits fits_in(const NodeCapacity& capacity) const;
  [[nodiscard]] HypotheticalState without(std::set<AttemptId> victims) const;
  [[nodiscard]] std::int64_t lost(const std::set<AttemptId>& victims) const;
  [[nodiscard]] NodeCapacity capacity(const NodeName& name, const Hypothesis& hypothesis);
  /// Number of pods of all sets that do not fit, counted per set.
  [[nodiscard]] std::int64_t missing(const Fits& sum) const;

  /// The options for a node.
  [[nodiscard]] std::vector<Alternative> options_of(const NodeName& name, const Hypothesis& hypothesis,
                                                    bool may_repartition);

  /// The cheapest victims after which the node fits one more pod of the set.
  [[nodiscard]] std::optional<Alternative> release(const NodeName& name, std::size_t set,
                                                   const std::set<AttemptId>& users, const Hypothesis& hypothesis);

  /// All users of its GPUs leave the node, if any, and it is repartitioned.
  void repartition(const NodeName& name, const std::set<AttemptId>& users, const Hypothesis& hypothesis,
                   std::vector<Alternative>& out);

  /// The option with the most gain per cost; ties go to the first node, and to options without a repartition.
  [[nodiscard]] const Alternative* best_of(const std::map<NodeName, std::vector<Alternative>>& alternatives,
                                           const std::map<NodeName, Fits>& fits, const Fits& sum, bool with_evictions,
                                           bool with_repartitions) const;

  /// A plan with only the allowed kinds of options.
  [[nodiscard]] std::optional<Found> run(bool with_evictions, bool with_repartitions);

  /// Drops repartitions that are not needed, and victims that are not needed, the most expensive first.
  [[nodiscard]] std::optional<Found> fewest(Hypothesis hypothesis, std::vector<Member> members) const;

  const State& state_;
  const Victims& victims_;
  const RepartitionSearch& search_;
  const Capacities& capacities_;
  const MigLayouts& layouts_;
  WorkloadUid uid_;
  const std::vector<PodSet>& sets_;
  MigLayoutCatalog offers_;
  std::map<AttemptId, Loss> losses_;               ///< of possible victims
  std::map<NodeName, std::set<AttemptId>> users_;  ///< possible victims with GPUs on the node
  std::map<NodeName, Fits> fits_;                  ///< in the present state
  std::map<NodeName, std::vector<Alternative>> alternatives_;
};

}  // namespace qm::placement
