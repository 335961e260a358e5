#pragma once
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/resources.hpp"

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace qm::autoscaler {

/// The pods with which a pod is spread by default: those of its Services and of its controller.
///
/// Threads  any.
class PodSelectors {
 public:
  explicit PodSelectors(kube::Client& client);
  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  /// Of a pod with these labels, whose controller has the kind and name. Without requirements: it has neither Service nor
  /// a known controller.
  [[nodiscard]] LabelSelector of(const std::string& ns, const Labels& labels, const std::string& kind,
                                 const std::string& name) const;
  /// Applies an object of the kind; called by the watches.
  void take(const std::string& kind, const Json& object, bool deleted);

 private:
  [[nodiscard]] kube::Informer::Callbacks taking(const char* kind);
  using Selectors = std::map<std::pair<std::string, std::string>, LabelSelector>;  ///< by namespace and name
  mutable std::mutex mutex_;
  std::map<std::string, Selectors> by_kind_;
  kube::Informer services_, replica_sets_, stateful_sets_, replication_controllers_;
};

}  // namespace qm::autoscaler
