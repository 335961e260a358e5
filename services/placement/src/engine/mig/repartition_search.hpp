#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/mig/mig_layouts.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

#include <optional>
#include <string>

namespace qm::placement {

/// Repartitions for a workload, or why there are none.
struct MigRepartition {
  std::map<NodeName, std::string> layouts;  ///< new layouts by node
  std::vector<Member> members;              ///< its members after the repartition
  std::string why_not;                      ///< why there is none
  bool in_progress = false;                 ///< it fits a repartition in progress for others
};

/// Finds the nodes whose idle GPUs can be repartitioned for a workload that requests MIG instances.
class RepartitionSearch {
 public:
  RepartitionSearch(const State& state, const MigLayouts& layouts, const Capacities& capacities,
                    const Allocator& allocator)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        layouts_(layouts),
        capacities_(capacities),
        allocator_(allocator) {}

  /// Why the node cannot be repartitioned, as text after a number of nodes; empty if it can be after the
  /// hypothetical evictions.
  [[nodiscard]] std::string why_not(const NodeName& name, const HypotheticalState& hypothetical) const;
  /// The cheapest repartitions of idle nodes after which the workload fits, or why there are none.
  [[nodiscard]] MigRepartition plan(const WorkloadUid& uid, const Preference& preference) const;
  /// Earliest time of a repartition search for the workload; none if there is none.
  [[nodiscard]] std::optional<Instant> earliest(const WorkloadUid& uid) const;
  /// Number of orders that may still be given for the workload. Orders of proposals with victims that are
  /// already leaving are reserved.
  [[nodiscard]] std::size_t budget_left(const WorkloadUid& uid) const;
  [[nodiscard]] std::string status(const WorkloadUid& uid) const;

 private:
  [[nodiscard]] std::string mig_preemption_status(const WorkloadUid& uid) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const Index& index_;
  const MigLayouts& layouts_;
  const Capacities& capacities_;
  const Allocator& allocator_;
};

}  // namespace qm::placement
