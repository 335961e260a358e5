#pragma once
#include "qm/kube/config_feed.hpp"
#include "qm/model/resources.hpp"

#include <map>
#include <mutex>
#include <string>

namespace qm::admission {

/// The CheckpointPolicies of the API server: how ranks save checkpoints where their pods do not declare it. A workload
/// that a policy selects counts as able to save. Its pods get the annotation quartermaster.dev/checkpoint when they
/// are ungated. The annotation of a pod overrides each policy; of several matching policies the first by name
/// applies. A policy applies to workloads that are observed and started after it.
///
/// Fails    a policy that cannot be parsed gets an Event `NotAccepted`; its last valid version stays in force.
/// Threads  any.
class CheckpointPolicies {
 public:
  explicit CheckpointPolicies(kube::Client& client);
  void start() { feed_.start(); }
  void stop() { feed_.stop(); }
  [[nodiscard]] bool synced() const { return feed_.synced(); }
  /// The URL template for a Job or pod with these labels; empty if no policy selects it.
  [[nodiscard]] std::string url_for(const Json& object) const;
  /// Writes the URL to the pod template of a Job, or to a pod, that does not declare it.
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
