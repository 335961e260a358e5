#pragma once
#include "qm/admission/exact/forest.hpp"
#include "qm/admission/exact/names.hpp"
#include "qm/admission/exact/transformations.hpp"
#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::exact {

/// A quantity in canonical integers: cpu in thousandths, all else in units, rounded up. What does not fit is kUnlimited.
[[nodiscard]] std::int64_t canonical(std::string_view resource, const Json& quantity);

/// What one pod of this spec asks for: containers together or the largest init container, sidecars with both, and the
/// overhead; limits stand for requests that are not given. Source: Kubernetes, sidecar containers.
[[nodiscard]] std::map<std::string, std::int64_t> pod_requests(const Json& pod_spec);

/// An amount as people write it: cpu from thousandths, memory in binary units.
[[nodiscard]] std::string amount_text(std::string_view resource, std::int64_t amount);

/// Kueue's objects (v1beta1 and v1beta2) as the rules see them, numbered. Quantities that cannot be read count as zero;
/// the reader of manifests refuses them before.
class Objects {
 public:
  Names flavors, resources;
  Forest forest;

  /// Where there are topologies: flavors are given their nodes by plant(), so these come before it; pods after it.
  std::shared_ptr<Topologies> topologies;
  void add_topology(const Json& object);
  void add_node(const Json& object);
  void add_check(const Json& object);
  void add_pod(const Json& object);
  /// The trees, each with the topologies, and queues that know what these mean for them.
  [[nodiscard]] Forest::Planted plant();

  void add_flavor(const Json& object);
  void add_cohort(const Json& object);
  void add_queue(const Json& object);

  /// Pod sets, priority, order; `queue` and `id` are the caller's. Pods that have ended already ask for nothing.
  [[nodiscard]] Work work(const Json& workload);
  /// What the pod sets of an admitted workload have of the nodes.
  [[nodiscard]] LeafUses on_nodes(const Json& workload) const;
  /// What is to be placed of a workload that holds quota: with `failed`, pod sets with pods on a node that has failed, else
  /// those whose nodes were not there yet; nothing where nodes are chosen in another cluster.
  [[nodiscard]] std::vector<Wish> wishes(const Json& workload, bool failed);
  [[nodiscard]] std::string to_string(const Why& why) const;
  /// Annotation kueue.x-k8s.io/priority-boost counts (gate PriorityBoost).
  bool priority_boost = false;
  /// Who was evicted because its pods did not become ready queues from then on (requeuingStrategy.timestamp: Eviction).
  bool requeued_by_eviction = true;
  /// Who was displaced by a queue that borrowed queues from then on; only where priority does not order (gate
  /// PrioritySortingWithinCohort off).
  bool requeued_by_reclaim = false;
  /// Workloads may be variants of another, each of the flavors that annotation
  /// kueue.x-k8s.io/workload-allowed-resource-flavors names (gate ConcurrentAdmission).
  bool variants = false;
  /// spec.preemptionGates count (gates ConcurrentAdmission, MultiKueueOrchestratedPreemption).
  bool preemption_gates = false;
  /// Pods that have ended need nothing (gate ReclaimablePods).
  bool counts_ended = true;
  /// Workloads grow by slices (gate ElasticJobsViaWorkloadSlices).
  bool elastic = true;
  /// Workloads that are alike are known to be (gate SchedulingEquivalenceHashing).
  bool shapes = true;
  /// Pods may be asked for in runs within runs (gate TASMultiLayerTopology).
  bool layers = true;
  Transformations transformations;
  /// What an admitted workload uses, in the cells of its tree.
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
  using Checks = std::map<std::string, std::set<std::string>>;  ///< the flavors of each; none: all
  std::map<std::string, Checks> checks_;                        ///< by queue
  Names shapes_;
};

}  // namespace qm::admission::exact
