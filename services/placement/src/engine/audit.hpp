#pragma once
#include "engine/allocator/pod_book.hpp"
#include "engine/demand_list.hpp"
#include "engine/gangs/attempts.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

namespace qm::placement {

/// Checks the laws of the engine, for what a step changed or for everything. Aborts on a violation.
class Audit {
 public:
  Audit(const State& state, const Attempts& attempts, const Capacities& capacities, const PodBook& book,
        const DemandList& demand)
      : tables_(state.tables),
        index_(state.index),
        attempts_(attempts),
        capacities_(capacities),
        book_(book),
        demand_(demand) {}

  /// No device is planned above 1000 milli, and a node with live members exists.
  void check_node(const NodeName& name) const;
  /// A gang that holds devices is complete, and each member has the devices that it requests.
  void check_assignment(const AttemptId& id, const Assignment& row) const;
  /// All laws over the whole state, and the stored index against `rebuilt` and the rows.
  void run(const Lookups& rebuilt) const;

 private:
  const Tables& tables_;
  const Index& index_;
  const Attempts& attempts_;
  const Capacities& capacities_;
  const PodBook& book_;
  const DemandList& demand_;
};

}  // namespace qm::placement
