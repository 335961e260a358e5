#pragma once
#include "claims.hpp"
#include "qm/base/json.hpp"
#include "qm/base/time.hpp"

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace qm::agent {

/// A pod that may be asked to save its work, and that its kubelet asks devices for.
struct Rank {
  std::string uid, ns, name, ip, node;
  std::string owner;         ///< uid of the Job, or of the controller where that is no Job
  std::int32_t attempt = 0;  ///< 0 = the pod carries none
  std::string checkpoint;    ///< URL template; empty = it keeps no checkpoints
  bool uses_gpus = false, running = false;
  std::string created;                                    ///< RFC 3339
  std::vector<std::int32_t> gpus;                         ///< assigned by placement, by index
  std::map<std::string, std::vector<std::int32_t>> asks;  ///< by resource: how many devices each container asks for
};
/// What the agent needs of a Pod object.
[[nodiscard]] Rank rank_of(const Json& pod);

/// What Kubernetes knows of the pods of a node, by "namespace/name".
struct KnownPods {
  std::set<std::string> ended;                 ///< succeeded or failed, and not deleted yet
  std::map<std::string, std::string> created;  ///< of the others: RFC 3339
};

/// The bound pods that have not ended, by node; of those that have, the names alone. Any thread.
class Pods {
 public:
  void apply(const Json& pod, bool deleted);
  void synced();
  /// Waits until the first complete list is here; false after the timeout or once closed.
  bool wait_synced(SteadyDuration timeout) const;
  /// Ends all waits.
  void close();
  [[nodiscard]] std::vector<Rank> ranks(const std::string& node, const std::string& owner, std::int32_t attempt) const;
  [[nodiscard]] bool gpu_pods(const std::string& node) const;
  [[nodiscard]] KnownPods known(const std::string& node) const;
  /// The pods of the node that do not run yet and ask for the resource.
  [[nodiscard]] std::vector<Claim> claims(const std::string& node, const std::string& resource) const;
  /// How often pods have changed; for wait_past().
  [[nodiscard]] std::uint64_t changes() const;
  /// Waits until pods have changed more often than that; false at `until`, or once closed.
  bool wait_past(std::uint64_t changes, SteadyInstant until) const;
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_;
  std::map<std::string, std::map<std::string, Rank>> by_node_;  // node -> uid
  std::map<std::string, std::string> node_of_;
  std::map<std::string, std::pair<std::string, std::string>> ended_;  // uid -> node and "namespace/name"
  std::uint64_t changes_ = 0;
  bool synced_ = false, closed_ = false;
};

}  // namespace qm::agent
