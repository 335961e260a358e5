#pragma once
#include "qm/admission/webhook/policy.hpp"
#include "qm/kube/client.hpp"
#include "qm/service/host.hpp"

#include <chrono>
#include <functional>
#include <memory>

namespace qm::admission::webhook {

/// The picture that the webhook decides from: local queues and workloads that hold quota, of the engine, and namespaces,
/// of the API server. It is renewed beside the decisions, so asking for it waits for nothing.
///
/// Threads  current: any. The rest: one. The host and the client must outlive it.
class ReadView {
 public:
  using Ours = std::function<bool(const std::string& ns)>;
  ReadView(service::Host& host, kube::Client& client, Ours quota, Ours binding,
           std::chrono::milliseconds period = std::chrono::milliseconds(200));
  ~ReadView();
  void start();
  void stop();
  [[nodiscard]] bool synced() const;  ///< namespaces and local queues were read once
  [[nodiscard]] std::shared_ptr<const View> current() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace qm::admission::webhook
