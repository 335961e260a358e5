#pragma once
#include "qm/base/json.hpp"
#include "qm/kube/ownership.hpp"
#include "qm/model/resources.hpp"
#include "qm/service/host.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace qm::placement {

/// The field that the watcher adds to a pod before it enters the mailbox: it records the owner, so
/// that a replay knows it, too.
///   {"ours": bool, "owner": uid, "attempt": 1, "index": 0, "set": "main"}
inline constexpr const char* kHint = "quartermaster";

/// Returns true if Quartermaster binds the pod: the pod names this scheduler and its namespace does
/// not assign binding to another scheduler, or the namespace (or the setting) assigns binding of
/// all pods to Quartermaster. A gated pod is not bound by any scheduler yet.
[[nodiscard]] bool ours_to_bind(const Json& pod, const kube::Ownership* binding);

/// Creates workloads for pods without admission. Where another controller owns quota, a pod that names
/// this scheduler is placed as soon as it is created; a gang is placed as a whole once its members exist.
///
/// A gang is named by the label scheduling.x-k8s.io/pod-group or kueue.x-k8s.io/pod-group-name, or
/// by the annotation scheduling.k8s.io/group-name; its size is the minMember of the PodGroup of
/// that name (scheduling.x-k8s.io or scheduling.volcano.sh) or the annotation
/// kueue.x-k8s.io/pod-group-total-count. Pods that join a gang later are placed one by one. A
/// workload finishes when its last pod has finished.
///
/// Threads  any; one lock.
class Solo {
 public:
  using Send = std::function<void(const std::string& name, std::string bytes, service::Urgency urgency)>;
  Solo(service::Host& host, const kube::Ownership* quota, const kube::Ownership* binding, Send send);
  /// Reads existing placements, so that a restart changes nothing. Must be called before the first pod.
  void restore();
  /// Handles a pod as the API server has it: passes it to the engine with everything that follows from it.
  void see(Json pod, bool deleted);
  void see_group(const Json& group, bool deleted);
  /// Handles a change of ownership: pending pods are checked again.
  void owners_changed();

 private:
  struct Place {
    std::string owner, set;
    int index = 0;
  };
  struct Gang {
    std::map<std::string, Json> waiting;  ///< by pod uid
  };
  void offer(Json pod);
  void start(const std::string& uid, const std::string& name, const std::string& kind, std::vector<Json> pods);
  void leave(const std::string& pod_uid);
  void pass_on(Json pod, const Place* place);
  [[nodiscard]] std::int64_t size_of(const Json& pod, const std::string& group) const;

  service::Host& host_;
  const kube::Ownership *quota_, *binding_;
  Send send_;
  std::mutex mutex_;
  std::map<std::string, Place> places_;                 ///< of pods without admission that Quartermaster places
  std::map<std::string, std::set<std::string>> alive_;  ///< workload -> its pods that have not finished
  std::map<std::string, Gang> gangs_;                   ///< "namespace/group", incomplete so far
  std::map<std::string, Json> unbound_;                 ///< pods without a node that another scheduler binds now
  std::map<std::string, std::int64_t> sizes_;           ///< minMember of "namespace/group"
};

/// Decodes the workload of a "solo" input, for the codec.
[[nodiscard]] Result<WorkloadSpec> solo_workload(const Json& input);

}  // namespace qm::placement
