#pragma once
#include "qm/kube/config_feed.hpp"
#include "qm/model/resources.hpp"

#include <map>
#include <mutex>
#include <string>

namespace qm::admission {

/// How ranks save whose pods do not say so themselves: the CheckpointPolicies of the API server. A workload that one of
/// them selects is taken as one that can save, and its pods get the annotation quartermaster.dev/checkpoint when they are
/// let go. The annotation of a pod counts before any policy; of several policies that match, the first by name. A policy
/// holds for what is taken and let go after it.
///
/// Fails    a policy that cannot be read gets an Event `NotTaken`; what was read of it before stays in force.
/// Threads  any.
class CheckpointPolicies {
 public:
  explicit CheckpointPolicies(kube::Client& client);
  void start() { feed_.start(); }
  void stop() { feed_.stop(); }
  [[nodiscard]] bool synced() const { return feed_.synced(); }
  /// The URL template for a Job or pod with such labels; empty where no policy selects it.
  [[nodiscard]] std::string url_for(const Json& object) const;
  /// Writes it on a Job's pod template, or on a pod, that does not say it itself.
  void mark_job(Json& job) const;
  void mark_pod(Json& pod) const;

 private:
  struct Policy {
    LabelSelector selector;
    int port = 0;
  };
  Status take(const Json& object);
  mutable std::mutex mutex_;
  std::map<std::string, Policy> policies_;
  kube::ConfigFeed feed_;
};

}  // namespace qm::admission
