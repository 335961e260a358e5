#pragma once
#include "qm/admission/cluster_settings.hpp"
#include "qm/admission/status.hpp"
#include "qm/admission/watch.hpp"
#include "qm/admission/watch/node_watch.hpp"
#include "qm/admission/watch/topology_ungater.hpp"
#include "qm/admission/workload_mirror.hpp"
#include "qm/clock/clock.hpp"

#include <memory>
#include <string>
#include <vector>

namespace qm::admission {

/// The connections of admission to the API server: ownership of namespaces, jobs, gated pods, queues and other
/// configuration, and status updates.
class Cluster {
 public:
  Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, ClusterSettings settings,
          CheckpointPolicies& checkpoints, ObservedJobs* observed = nullptr);
  ~Cluster();
  void start();
  void stop();
  /// Everything was listed once, or is not served.
  [[nodiscard]] bool synced() const;
  /// Whether Quartermaster owns the quota of a namespace, and the binding of its pods. Any thread.
  [[nodiscard]] bool manages_quota(const std::string& ns) const { return quota_.of(ns).ours; }
  [[nodiscard]] bool manages_binding(const std::string& ns) const { return binding_.of(ns).ours; }
  /// For /debug/state.
  [[nodiscard]] Json debug_state() const;

 private:
  CheckpointPolicies& checkpoints_;
  PodDefaults pod_defaults_;
  kube::Ownership quota_, binding_;
  std::vector<std::unique_ptr<JobWatch>> jobs_;  ///< one for each suspendable kind
  PodWatch pods_;
  WorkloadMirror workloads_;
  ConfigWatch config_;
  StatusWriter status_;
  /// Without a placement service: the nodes for topologies, and the pods that follow the assignments. Else null.
  std::unique_ptr<NodeWatch> nodes_;
  std::unique_ptr<TopologyUngater> ungater_;
};

}  // namespace qm::admission
