#pragma once
#include "qm/topology/request.hpp"
#include "qm/topology/search.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::topology {

/// What a workload that already runs has of a pod set.
struct Existing {
  std::string pod_set;
  Assignment assignment;
};

/// A node of a running workload has failed: its pods, and only these, get a new place that keeps to what was asked for.
struct Replacement {
  std::string failed_node;  ///< as assignments name it: its hostname
  std::vector<Existing> existing;
  /// A workload that is one pod and nothing more cannot move: it keeps what it has.
  bool keep = false;
};

struct AssignOptions {
  AssumedUsage assumed;  ///< what pod sets of the workload already took of other flavors on the same hosts
  bool simulate_empty = false;
  const Replacement* replacement = nullptr;
};

struct PodSetResult {
  std::string pod_set;
  std::optional<Assignment> assignment;
  std::string reason;  ///< why there is none
};

/// Assigns leaves to the pod sets of one workload that are of one flavor, in their order, each seeing what those before
/// took. Pod sets of a group are placed together. After the first that fails nothing more is tried: what follows is not
/// in the result.
///
/// Order    as Search; a leaf comes once in an assignment, by level values unless a previous assignment is kept.
/// Threads  as Search.
/// Fails    in the result, by pod set, with Kueue's words.
/// Source   Kueue ff69552e, FindTopologyAssignmentsForFlavor, tas_elastic_workloads.go.
[[nodiscard]] std::vector<PodSetResult> assign(Search& search, std::span<const PodSetRequest> pod_sets,
                                               AssignOptions options);

/// Whether the leaves have room for pods that were given them some time ago, as the topology now stands.
struct LeafLoad {
  DomainId leaf = kNoDomain;  ///< kNoDomain never fits
  Pods pods = 0;
  Requests per_pod;
};
[[nodiscard]] bool still_fits(const Topology& topology, std::span<const LeafLoad> loads);

}  // namespace qm::topology
