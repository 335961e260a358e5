#pragma once
#include "engine/allocator/recovery_places.hpp"
#include "engine/gangs/pods.hpp"
#include "engine/state.hpp"

#include <string>
#include <vector>

namespace qm::placement {

/// Constraints of a placement in addition to free capacity; null = none.
struct Where {
  const RecoveryPlaces* recovery = nullptr;  ///< gang recovery: the former nodes of the gang
  const TopologyPart* part = nullptr;        ///< only nodes of this part of the fleet
};

/// A request with the node constraints of its claims.
struct RequestWithVolumes {
  std::vector<PodSet> pod_sets;
  std::vector<std::optional<rules::PodTemplate>> likes;  ///< by pod set, or none
  std::string one_node;                                  ///< a claim that all pods of a set use on one node
  std::string blocked;                                   ///< why no node fits
};

/// The one placement of pods: constraints, nodes, devices, NUMA zones and fabric, for every caller.
///
/// Cost     with shortlists the nodes that changed since the last request for such pods, else all nodes.
class Allocator {
 public:
  Allocator(const State& state, const Pods& pods)
      : options_(state.options), tables_(state.tables), index_(state.index), pods_(pods) {}

  /// The placement request for these pods. For a known workload it includes its type, its GPU pool and the
  /// rules of its pods.
  [[nodiscard]] PlacementRequest request_of(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// The request for all pods of a known workload.
  [[nodiscard]] PlacementRequest request_for(const WorkloadUid& uid) const;
  /// Rules of the attempt's pods if they exist, else of their templates; empty if none has any.
  [[nodiscard]] std::vector<std::string> rules_of(const AttemptId& id, const std::vector<PodSet>& pod_sets) const;
  /// Claims of bound pods exist already, and do not constrain other pods.
  [[nodiscard]] std::vector<std::vector<PodClaim>> own_claims_of(const AttemptId& id,
                                                                 const std::vector<PodSet>& pod_sets) const;
  /// Labels alone exclude no node, unless an existing pod has anti-affinity to such labels. Without them, jobs
  /// that differ only in labels have equal requests and share one result. Node selectors and tolerations are in
  /// the shape.
  [[nodiscard]] std::vector<std::string> effective_rules(const std::vector<PodSet>& pod_sets,
                                                         std::vector<std::string> rules) const;
  /// The request with the node constraints of its claims.
  [[nodiscard]] RequestWithVolumes mounted(const PlacementRequest& request) const;
  /// Places the pods and takes their capacity from `free_capacity`.
  [[nodiscard]] PlacementResult place(const PlacementRequest& request, FreeCapacity& free_capacity,
                                      const Preference& preference, Shortlists* lists = nullptr,
                                      ResultDetail wanted = ResultDetail::kReason, const Where& where = {}) const;

 private:
  [[nodiscard]] GpuPool pool_of(const Labels& labels, const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] PlacementResult place_in(const PlacementRequest& request, FreeCapacity& free_capacity,
                                         const Preference& preference, Shortlists* lists, ResultDetail wanted,
                                         const Where& where) const;

  const Options& options_;
  const Tables& tables_;
  const Index& index_;
  const Pods& pods_;
};

}  // namespace qm::placement
