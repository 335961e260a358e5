#pragma once
#include "qm/admission/scheduler/rules.hpp"
#include "qm/admission/status.hpp"
#include "qm/admission/watch.hpp"
#include "qm/admission/watch/node_watch.hpp"
#include "qm/admission/watch/topology_ungater.hpp"
#include "qm/admission/workload_mirror.hpp"
#include "qm/clock/clock.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace qm::admission {

/// All kinds that are suspended and unsuspended as a whole.
[[nodiscard]] std::set<std::string> suspending_kinds();

/// Settings of admission next to other controllers of the cluster, from --set.
struct ClusterSettings {
  std::string quota = "auto";    ///< owner of quota in unlabeled namespaces: auto, quartermaster, kueue, none, ...
  std::string binding = "auto";  ///< owner of binding: which scheduler binds admitted pods
  bool placement = true;         ///< --set placement=none: no placement service, quota alone admits
  std::set<std::string> kinds = suspending_kinds();  ///< --set kinds=Job,PyTorchJob: the kinds to watch
  bool workload_objects = false;        ///< --set workload-objects=true: other kinds get a Workload of Kueue too
  std::optional<PodsReady> pods_ready;  ///< --set kueue-configuration=FILE, its waitForPodsReady
  /// --set rules=continuous|exact, fair-sharing=true|false, rest=10m, usage-half-life-time=168h,
  /// usage-sampling-interval=5m, resource-weights=nvidia.com/gpu:1,memory:0
  Rules rules;
  std::int64_t preemption_budget_per_hour =
      Options().preemption_budget_per_hour;  ///< --set preemption-budget-per-hour=100
  /// `of_others`: names that other readers of the same settings accept. kInvalid: a name that no reader accepts, or an
  /// invalid value.
  static Result<ClusterSettings> parse(const std::map<std::string, std::string>& extra,
                                       const std::vector<std::string_view>& of_others = {});
};

/// The connections of admission to the API server: ownership of namespaces, jobs, gated pods, queues and other
/// configuration, and status updates.
class Cluster {
 public:
  Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, ClusterSettings settings,
          CheckpointPolicies& checkpoints);
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
