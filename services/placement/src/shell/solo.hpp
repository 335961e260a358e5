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

/// What the watcher writes on a pod before it goes into the mailbox: whose it is, so that a replay knows it too.
///   {"ours": bool, "owner": uid, "attempt": 1, "index": 0, "set": "main"}
inline constexpr const char* kHint = "quartermaster";

/// Whether a pod is ours to bind: it names our scheduler and its namespace does not say that another binds, or the
/// namespace (or the setting) says that we bind whatever is in it. A gated pod is nobody's yet.
[[nodiscard]] bool ours_to_bind(const Json& pod, const kube::Ownership* binding);

/// Makes workloads of pods that nobody admits: where quota is not Quartermaster's, a pod that names our scheduler is
/// placed as it comes; a gang as a whole once its members are there.
///
/// A gang is named by the label scheduling.x-k8s.io/pod-group or kueue.x-k8s.io/pod-group-name, or by the annotation
/// scheduling.k8s.io/group-name; its size is the minMember of the PodGroup of that name (scheduling.x-k8s.io or
/// scheduling.volcano.sh) or the annotation kueue.x-k8s.io/pod-group-total-count. What comes to a gang later is placed
/// pod by pod. A workload ends when the last of its pods has.
///
/// Threads  any; one lock.
class Solo {
 public:
  using Send = std::function<void(const std::string& name, std::string bytes)>;
  Solo(service::Host& host, const kube::Ownership* quota, const kube::Ownership* binding, Send send);
  /// Reads what is placed already, so that a restart changes nothing. Before the first pod.
  void restore();
  /// A pod as the API server has it: tells the engine, and whatever follows of it.
  void see(Json pod, bool deleted);
  void see_group(const Json& group, bool deleted);
  /// Who owns what has changed: pods that wait are looked at again.
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
  std::map<std::string, Place> places_;                 ///< of pods that are placed by us alone
  std::map<std::string, std::set<std::string>> alive_;  ///< workload -> its pods that have not ended
  std::map<std::string, Gang> gangs_;                   ///< "namespace/group", not whole yet
  std::map<std::string, Json> unbound_;                 ///< pods without a node that are not ours now
  std::map<std::string, std::int64_t> sizes_;           ///< minMember of "namespace/group"
};

/// The workload of a "solo" input, for the codec.
[[nodiscard]] Result<WorkloadSpec> solo_workload(const Json& input);

}  // namespace qm::placement
