#pragma once
#include "qm/admission/topology.hpp"
#include "qm/admission/watch.hpp"
#include "qm/clock/clock.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace qm::admission {

struct NodeWatchOptions {
  std::chrono::milliseconds period{1'000};           ///< steady time between reports
  Duration failed_after = std::chrono::seconds(30);  ///< a node that is not ready for this long has failed, as in Kueue
};

/// Reports the nodes of the cluster to the engine, with what their pods use, while a flavor names a Topology. Pods
/// whose nodes admission chose are not counted: their workloads are.
///
/// Threads  start and stop by one; reads on the threads of two informers, which start with the first such flavor.
/// Cost     all nodes and pods in memory, reduced to these fields; a report only has the nodes that changed.
class NodeWatch {
 public:
  NodeWatch(kube::Client& client, service::Host& host, const DomainClock& clock, NodeWatchOptions options = {});
  ~NodeWatch();
  void start();
  void stop();
  /// One round of the loop of start(). Returns the number of nodes in the report.
  int report();

 private:
  struct Seen {
    NodeState state;  ///< without `used` and `failed`
    Instant since{};  ///< of its Ready condition
  };
  struct Pod {
    NodeName node;
    NodeAmounts amounts;
  };
  void node_changed(const Json& node, bool deleted);
  void pod_changed(const Json& pod, bool deleted);
  [[nodiscard]] std::map<NodeName, NodeState> present();
  void run();

  const DomainClock& clock_;
  NodeWatchOptions options_;
  Mailbox mailbox_;
  std::mutex mutex_;
  std::map<NodeName, Seen> nodes_;
  std::map<std::string, Pod> pods_;  ///< by uid
  std::map<NodeName, NodeAmounts> used_;
  std::optional<std::map<NodeName, NodeState>> reported_;  ///< empty before the first report
  bool watching_ = false;
  std::mutex sleep_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
  kube::Informer node_informer_, pod_informer_;
};

}  // namespace qm::admission
