#pragma once
#include "qm/admission/decisions.hpp"
#include "qm/admission/status.hpp"
#include "qm/admission/watch.hpp"
#include "qm/admission/workload_mirror.hpp"
#include "qm/clock/clock.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace qm::admission {

/// All kinds that are held back and let go as a whole.
[[nodiscard]] std::set<std::string> suspending_kinds();

/// How admission stands to the other controllers of a cluster, from --set.
struct ClusterSettings {
  std::string quota = "auto";    ///< owner of quota where a namespace is silent: auto, quartermaster, kueue, none, ...
  std::string binding = "auto";  ///< of binding: who binds pods that are admitted
  bool placement = true;         ///< --set placement=none: there is no placement service, quota alone admits
  std::set<std::string> kinds = suspending_kinds();  ///< --set kinds=Job,PyTorchJob: those that are watched
  bool workload_objects = false;        ///< --set workload-objects=true: other kinds have a Workload of Kueue's too
  std::optional<PodsReady> pods_ready;  ///< --set kueue-configuration=FILE, its waitForPodsReady
  /// --set rules=continuous|exact, fair-sharing=true|false, rest=10m, usage-half-life-time=168h, usage-sampling-interval=5m,
  /// resource-weights=nvidia.com/gpu:1,memory:0
  Rules rules;
  std::int64_t give_way_hourly = Options().give_way_hourly;  ///< --set give-way-hourly=100
  /// `of_others`: names that other readers of the same settings know. kInvalid: a name that none knows, or a value that is not valid.
  static Result<ClusterSettings> parse(const std::map<std::string, std::string>& extra,
                                       const std::vector<std::string_view>& of_others = {});
};

/// Everything that admission has open towards the API server: who owns what, jobs, pods with our gate, queues and the
/// like, and the statuses that go back.
class Cluster {
 public:
  Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, ClusterSettings settings,
          CheckpointPolicies& checkpoints);
  ~Cluster();
  void start();
  void stop();
  /// Everything was listed once, or is not served.
  [[nodiscard]] bool synced() const;
  /// Whose the quota of a namespace is, and the binding of its pods. Any thread.
  [[nodiscard]] bool quota_is_ours(const std::string& ns) const { return quota_.of(ns).ours; }
  [[nodiscard]] bool binding_is_ours(const std::string& ns) const { return binding_.of(ns).ours; }
  /// For /debug/state.
  [[nodiscard]] Json debug_state() const;

 private:
  CheckpointPolicies& checkpoints_;
  PodDefaults pod_defaults_;
  kube::Ownership quota_, binding_;
  std::vector<std::unique_ptr<JobWatch>> jobs_;  ///< one for each kind that is suspended as a whole
  PodWatch pods_;
  WorkloadMirror workloads_;
  ConfigWatch config_;
  StatusWriter status_;
};

}  // namespace qm::admission
