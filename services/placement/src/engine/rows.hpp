#pragma once
#include "engine/allocator/pod_book.hpp"
#include "engine/gangs/attempts.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

#include <span>

namespace qm::placement {

/// The only writer of rows that have derived state. Each change updates the indexes, the free capacity and the
/// marks of the running step in the same call.
class Rows {
 public:
  Rows(State& state, const Attempts& attempts, const Capacities& capacities, PodBook& book)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        attempts_(attempts),
        capacities_(capacities),
        book_(book) {}

  void index_assignment(const AttemptId& id, const Assignment* row, bool add);
  void index_pod(const Pod& pod, bool add);
  void index_workload(const WorkloadUid& uid);
  void index_proposal(const WorkloadUid& uid, const Proposal& row, bool add);
  void index_repartition(const NodeName& name, const Repartition& row, bool add);
  void index_kept(const NodeName& name, const Node& row, bool add);
  /// Computes the free capacity of the node again.
  void refresh_capacity(const NodeName& name);
  /// Stores a free capacity, for example a hypothetical one.
  void set_capacity(const NodeName& name, NodeCapacity capacity);
  /// Updates the free capacity after these members were placed.
  void reserve_places(const AttemptId& id, std::span<const Member> members);
  /// Stores the assignment and marks its nodes for evaluation.
  void store(const AttemptId& id, Assignment next);
  /// Deletes an assignment without devices.
  void forget(const AttemptId& id);
  /// Stores or, if empty, deletes the repartition row of the node.
  void store_repartition(const NodeName& name, Repartition next);
  /// Stores the row and updates the free capacity of its nodes: released capacity is available to all.
  void put_proposal(const WorkloadUid& uid, Proposal next);
  /// Stores the row and updates the free capacity of its nodes: released capacity is available to all.
  void put_defrag(DefragRun next);
  /// Puts the workload on the demand list, or removes it.
  void set_short(const WorkloadUid& uid, bool is_short);
  /// Requests the eviction of the attempt in `next`, unless one as strong is requested already.
  void request_eviction(const AttemptId& id, Assignment& next, EvictionRequest ask);
  /// Updates the scored mix from its row, which follows the known mix with a lag.
  void refresh_scores();
  /// Rebuilds the index from the tables.
  void rebuild();
  /// Adds all rows to empty lookups.
  void index_rows();

 private:
  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Attempts& attempts_;
  const Capacities& capacities_;
  PodBook& book_;
};

}  // namespace qm::placement
