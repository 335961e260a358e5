#pragma once
#include "claims.hpp"
#include "qm/base/json.hpp"
#include "qm/base/time.hpp"
#include "qm/model/pod_owner.hpp"

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace qm::agent {

/// Annotation that a pod writes on itself to answer a checkpoint order by signal; see read_rank_answer().
inline constexpr std::string_view kCheckpointAnswer = "quartermaster.dev/checkpoint-answer";

/// A pod that can receive checkpoint orders and that requests devices from its kubelet.
struct Rank {
  std::string uid, ns, name, node;
  std::vector<std::string> ips;                       ///< status.podIPs
  bool host_network = false;                          ///< its address is the node's
  std::string scheduler;                              ///< spec.schedulerName
  std::string workload, controller, controller_kind;  ///< see PodOwner
  std::int32_t attempt = 0;                           ///< 0 = the pod has no attempt
  std::string checkpoint;                             ///< contract; empty = no checkpoints
  std::string answer;                                 ///< to an order by signal
  bool uses_gpus = false, running = false;
  std::string created;                                    ///< RFC 3339
  std::vector<std::int32_t> gpus;                         ///< from its annotation, by index; see drop_unusable()
  std::map<std::string, std::vector<std::int32_t>> asks;  ///< by resource: devices that each container requests
};
/// Extracts the fields that the agent needs from a Pod object.
[[nodiscard]] Rank rank_of(const Json& pod);

/// The pods of a node in Kubernetes, by "namespace/name".
struct KnownPods {
  std::set<std::string> ended;                 ///< succeeded or failed, and not deleted yet
  std::map<std::string, std::string> created;  ///< creation time of the others: RFC 3339
};

/// The bound pods that have not finished, by node; of finished pods only the names. Any thread.
class Pods {
 public:
  void apply(const Json& pod, bool deleted);
  /// Marks the first list of the node's pods as complete; of all nodes if none is named.
  void synced(const std::string& node = {});
  /// Waits until the first list of the node's pods is complete; false after the timeout or once closed.
  bool wait_synced(const std::string& node, SteadyDuration timeout) const;
  /// Ends all waits, on shutdown.
  void close();
  struct Ranks {
    std::vector<Rank> own;
    std::vector<std::string> foreign;  ///< "namespace/name" of pods that name the workload but do not belong to it
  };
  [[nodiscard]] Ranks ranks(const std::string& node, const WorkloadIdentity& workload, std::int32_t attempt) const;
  /// The newest answer of a rank to an order by signal; empty if it has none.
  [[nodiscard]] std::string checkpoint_answer(const std::string& node, const std::string& uid) const;
  [[nodiscard]] bool gpu_pods(const std::string& node) const;
  [[nodiscard]] KnownPods known(const std::string& node) const;
  /// The pods of the node that request the resource and do not run yet.
  [[nodiscard]] std::vector<Claim> claims(const std::string& node, const std::string& resource) const;
  /// The number of changes of pods so far; for wait_past().
  [[nodiscard]] std::uint64_t changes() const;
  /// Waits until there are more changes than `changes`; false at `until`, or once closed.
  bool wait_past(std::uint64_t changes, SteadyInstant until) const;
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_;
  std::map<std::string, std::map<std::string, Rank>> by_node_;  // node -> uid
  std::map<std::string, std::string> node_of_;
  std::map<std::string, std::pair<std::string, std::string>> ended_;  // uid -> node and "namespace/name"
  std::uint64_t changes_ = 0;
  std::set<std::string> synced_;  // nodes; "" = all
  bool closed_ = false;
};

}  // namespace qm::agent
