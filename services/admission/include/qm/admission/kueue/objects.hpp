#pragma once
#include "qm/admission/kueue/forest.hpp"
#include "qm/admission/kueue/names.hpp"
#include "qm/admission/kueue/transformations.hpp"
#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::kueue {

/// A quantity as a canonical integer: cpu in thousandths, everything else in units, rounded up. Overflow is kUnlimited.
[[nodiscard]] std::int64_t canonical(std::string_view resource, const Json& quantity);

/// Requests of one pod of this spec: containers together or the largest init container, sidecars with both, and the
/// overhead; limits replace missing requests. Source: Kubernetes, sidecar containers.
[[nodiscard]] std::map<std::string, std::int64_t> pod_requests(const Json& pod_spec);

/// An amount for display: cpu from thousandths, memory in binary units.
[[nodiscard]] std::string amount_text(std::string_view resource, std::int64_t amount);

/// Kueue's objects (v1beta1 and v1beta2) as the scheduling rules model them, with numbers instead of names.
/// Quantities that cannot be parsed count as zero; the manifest parser refuses them earlier.
class Objects {
 public:
  Names flavors, resources;
  Forest forest;

  /// Topologies, if there are any. plant() assigns nodes to flavors, so add these objects before it; pods after it.
  std::shared_ptr<Topologies> topologies;
  void add_topology(const Json& object);
  void add_node(const Json& object);
  void add_check(const Json& object);
  void add_pod(const Json& object);
  /// The trees, each with the topologies and with queue rules that account for them.
  [[nodiscard]] Forest::Planted plant();

  void add_flavor(const Json& object);
  void add_cohort(const Json& object);
  void add_queue(const Json& object);

  /// Pod sets, priority, order; `queue` and `id` are set by the caller. Pods that have ended request nothing.
  [[nodiscard]] Work work(const Json& workload);
  /// The nodes used by the pod sets of an admitted workload.
  [[nodiscard]] LeafUses on_nodes(const Json& workload) const;
  /// The pod sets to place for a workload that holds quota. With `failed`, pod sets with pods on a failed node;
  /// otherwise those whose nodes did not exist yet. Empty if nodes are chosen in another cluster.
  [[nodiscard]] std::vector<NodeRequest> node_requests(const Json& workload, bool failed);
  [[nodiscard]] std::string to_string(const Why& why) const;
  /// The annotation kueue.x-k8s.io/priority-boost applies (gate PriorityBoost).
  bool priority_boost = false;
  /// A workload evicted because its pods were not ready is ordered by the time of the eviction
  /// (requeuingStrategy.timestamp: Eviction).
  bool requeued_by_eviction = true;
  /// A victim of a borrowing queue is ordered by the time of the preemption; only if priority does not order (gate
  /// PrioritySortingWithinCohort off).
  bool requeued_by_reclaim = false;
  /// Workloads may be variants of another, each for the flavors in the annotation
  /// kueue.x-k8s.io/workload-allowed-resource-flavors (gate ConcurrentAdmission).
  bool variants = false;
  /// spec.preemptionGates apply (gates ConcurrentAdmission, MultiKueueOrchestratedPreemption).
  bool preemption_gates = false;
  /// Pods that have ended request nothing (gate ReclaimablePods).
  bool counts_ended = true;
  /// Workloads scale by slices (gate ElasticJobsViaWorkloadSlices).
  bool elastic = true;
  /// Equal workloads share a shape (gate SchedulingEquivalenceHashing).
  bool shapes = true;
  /// Pods may be requested in nested slices (gate TASMultiLayerTopology).
  bool layers = true;
  Transformations transformations;
  /// Usage of an admitted workload, in the cells of its tree.
  [[nodiscard]] Amounts usage(const Json& workload, const std::map<std::pair<Flavor, Resource>, Cell>& cells) const;

 private:
  struct FlavorSpec {
    Labels labels;
    std::vector<Taint> taints;
    std::vector<Toleration> tolerations;
    std::string topology;
  };
  void take(const Json& groups, std::vector<Forest::Offer>& offers, std::vector<QueueRules::Group>* rules);
  [[nodiscard]] bool inactive(const std::string& name, const QueueRules& rules) const;
  [[nodiscard]] bool uses_multikueue(const std::string& queue) const;
  [[nodiscard]] bool provisions(const std::string& queue, const std::string& flavor) const;
  [[nodiscard]] std::optional<Refusal> refuses(Flavor flavor, const Json& pod_spec) const;
  [[nodiscard]] std::shared_ptr<const Ties> ties_of(const Json& workload);

  [[nodiscard]] std::optional<Refusal> lacks_topology(Flavor flavor, const PodSet& set) const;
  [[nodiscard]] topology::PodSetRequest nodes_of(const Json& pod_set, const std::map<std::string, std::int64_t>& each);

  std::map<Flavor, FlavorSpec> specs_;
  std::map<std::string, std::vector<std::string>> levels_;  ///< by topology
  std::vector<topology::Node> nodes_;
  struct KnownCheck {
    std::string controller;
    bool active = false;
  };
  std::map<std::string, KnownCheck> known_checks_;
  std::set<std::string> concurrent_;                            ///< queues with a concurrentAdmissionPolicy
  using Checks = std::map<std::string, std::set<std::string>>;  ///< the flavors of each; empty: all
  std::map<std::string, Checks> checks_;                        ///< by queue
  Names shapes_;
};

}  // namespace qm::admission::kueue
