#pragma once
#include "qm/admission/topology.hpp"
#include "qm/admission/watch.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace qm::admission {

/// A pod of a workload with a topology assignment, reduced to what decides its domain.
struct TopologyPod {
  std::string ns, name, uid, version;
  WorkloadUid workload;
  std::string pod_set;
  std::int32_t attempt = 0;
  std::optional<std::int64_t> rank;  ///< its completion or replica index
  Labels node_selector;
  std::vector<std::string> gates;
  [[nodiscard]] bool gated() const;
};

/// The domain of each gated pod of one pod set, as the node labels that it selects. By rank if all pods have one and
/// no two the same: the first domain has the first ranks. Otherwise a domain gets pods until it has its number.
/// A pod without a free place stays gated and is not in the result.
///
/// Source   Kueue, pkg/controller/tas/topology_ungater.go.
[[nodiscard]] std::vector<std::pair<const TopologyPod*, Labels>> domains_of(
    const topology::Assignment& assignment, const std::vector<const TopologyPod*>& pods);

struct UngaterOptions {
  std::chrono::milliseconds period{500};  ///< steady time between rounds
  int most = 200;                         ///< writes per round; the rest is left for the next
};

/// Makes the pods of admitted workloads follow their topology assignment: one patch adds the labels of the domain to
/// the node selector and removes the scheduling gate kTopologyGate. Another scheduler then binds the pod there.
///
/// Writes   carry the version that was read, so a pod gets one domain. Only while this process is the leader.
/// Threads  start and stop by one; reads on the thread of an informer, writes on its own.
class TopologyUngater {
 public:
  TopologyUngater(kube::Client& client, service::Host& host, UngaterOptions options = {});
  ~TopologyUngater();
  void start();
  void stop();
  /// One round of the loop of start(). Returns the number of pods that were ungated.
  int write();

 private:
  void changed(const Json& pod, bool deleted);
  bool ungate(const TopologyPod& pod, const Labels& domain);
  void run();

  kube::Client& client_;
  service::Host& host_;
  UngaterOptions options_;
  std::mutex mutex_;
  std::map<std::string, TopologyPod> pods_;  ///< by uid
  std::string complained_;
  std::mutex sleep_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
  kube::Informer informer_;
};

}  // namespace qm::admission
