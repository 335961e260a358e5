#pragma once
#include "qm/topology/request.hpp"
#include "qm/topology/search.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::topology {

/// The placement of a pod set of a workload that already runs.
struct Existing {
  std::string pod_set;
  Assignment assignment;
};

/// Replaces a failed node of a running workload: its pods, and only these, get a new place that satisfies the
/// request.
struct Replacement {
  std::string failed_node;  ///< the name in assignments: its hostname
  std::vector<Existing> existing;
  /// A workload that consists of exactly one pod cannot move: it keeps its assignment.
  bool keep = false;
};

struct AssignOptions {
  AssumedUsage assumed;  ///< usage of the workload's pod sets in other flavors on the same hosts
  bool simulate_empty = false;
  const Replacement* replacement = nullptr;
};

struct PodSetResult {
  std::string pod_set;
  std::optional<Assignment> assignment;
  std::string reason;  ///< why there is none
};

/// Assigns leaves to the pod sets of one workload that are of one flavor, in their order. Each pod set is placed
/// after the usage of the previous ones. Pod sets of a group are placed together. After the first failure the
/// remaining pod sets are skipped: they are not in the result.
///
/// Order    as Search; a leaf occurs once in an assignment, by level values unless a previous assignment is kept.
/// Threads  as Search.
/// Fails    in the result, by pod set, with Kueue's messages.
/// Source   Kueue ff69552e, FindTopologyAssignmentsForFlavor, tas_elastic_workloads.go.
[[nodiscard]] std::vector<PodSetResult> assign(Search& search, std::span<const PodSetRequest> pod_sets,
                                               AssignOptions options);

/// Previously assigned pods of one leaf.
struct LeafLoad {
  DomainId leaf = kNoDomain;  ///< kNoDomain never fits
  Pods pods = 0;
  Requests per_pod;
};

}  // namespace qm::topology
