#pragma once
#include "qm/admission/webhook/read_view.hpp"
#include "qm/admission/webhook/settings.hpp"
#include "qm/metrics/metrics.hpp"

#include <functional>
#include <memory>

namespace qm::admission::webhook {

/// The webhook of one process: view, server and certificate, started and stopped together.
///
/// Threads  start and stop by one. What it is given must outlive it.
class Webhook {
 public:
  /// Whose the quota and the binding of a namespace are; either may be empty: ours.
  struct Owners {
    std::function<bool(const std::string&ns)> quota, binding;
  };
  Webhook(const WebhookSettings& settings, service::Host& host, kube::Client& client, metrics::Registry& registry,
          Owners owners);
  void start();
  void stop();

 private:
  ReadView view_;
  Server server_;
  CertificateKeeper keeper_;
};

}  // namespace qm::admission::webhook
