#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/kube/client.hpp"
#include "qm/service/host.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace qm::admission::webhook {

/// The view of the cluster that the webhook uses. It is refreshed in the background, so reading it never blocks.
///
/// Namespaces and resource quotas are from the API server. Local queues are from the engine while this process is the
/// leader. A standby has no engine and uses those of the API server and of the manifests that it was started with.
///
/// Threads  current: any. The rest: one. The client must outlive it; the host must live from lead to stand_by.
class ReadView {
 public:
  using Queues = std::map<std::string, std::set<std::string>>;  ///< names of local queues by namespace
  struct Options {
    std::function<bool(const std::string&ns)> manages_quota, manages_binding;
    Queues queues;  ///< of manifests
    std::chrono::milliseconds period{200};
  };
  ReadView(kube::Client& client, Options options);
  ~ReadView();
  void start();
  void stop();
  void lead(service::Host& host);
  void stand_by();
  [[nodiscard]] bool synced() const;  ///< namespaces, and local queues if the kind is served, were listed once
  [[nodiscard]] std::shared_ptr<const admission_policy::View> current() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace qm::admission::webhook
