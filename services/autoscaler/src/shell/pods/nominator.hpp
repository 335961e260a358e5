#pragma once
#include "qm/autoscaler/tables.hpp"
#include "qm/base/json.hpp"
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Writes `status.nominatedNodeName` of pending pods, in a cluster without placement: kube-scheduler tries this node
/// first, and keeps its room from other pods of the same or a lower priority.
///
/// Pods     that a scheduler other than placement found unschedulable, without a nomination. A nomination by the
///          scheduler stays: it is for a preemptor, or for a pod that is being bound.
/// Tries    kMostTries for each pod and node. The scheduler removes a nomination when an attempt for the pod fails, which
///          also a change elsewhere in the cluster can cause while the node has a taint. Then it decides alone.
/// Races    the patch has the version of the pod that was read: a pod that was bound, deleted or nominated meanwhile is
///          not changed.
/// Errors   of one pod: it is tried again when it has changed. Of the server or of permissions: logged once for each
///          text, and repeated after five seconds.
/// Threads  put_pod() and drop_pod() any; nominate() one.
/// Cost     nominate: at most kMostWrites calls, some at a time.
class Nominator {
 public:
  static constexpr std::size_t kMostWrites = 100;
  static constexpr int kMostTries = 10;
  explicit Nominator(kube::Client& client) : client_(client) {}

  /// A pod as the watch has it. `group`: "namespace/name" of the demand of its gang; empty = it has none.
  void put_pod(const Json& pod, const std::string& group);
  void drop_pod(const std::string& uid);
  struct Outcome {
    std::set<NodeName> written;  ///< nodes for which pods were nominated
    std::set<NodeName> open;     ///< nodes with pods that are still to be nominated
  };
  /// Nominates pods for the nodes of these plans, in their order.
  Outcome nominate(const std::vector<Nomination>& planned);

 private:
  struct Pod {
    std::string ns, name, version, group;
    std::string node, nominated;
    std::string refused;  ///< the version of the pod that could not be nominated
    bool pending = false;
    std::map<NodeName, int> written;  ///< how often
    [[nodiscard]] bool uses(const NodeName& at) const;
  };
  struct Write {
    std::string uid, ns, name, version;
    NodeName node;
  };
  void leave_gang(const std::string& uid, const std::string& group);
  [[nodiscard]] std::vector<Write> due(const std::vector<Nomination>& planned) const;
  [[nodiscard]] bool ended(const Write& write, const Error* error);

  kube::Client& client_;
  mutable std::mutex mutex_;
  std::map<std::string, Pod> pods_;                     ///< by uid
  std::map<std::string, std::set<std::string>> gangs_;  ///< uids by group
  SteadyInstant not_before_{};
  std::string logged_;
};

}  // namespace qm::autoscaler
