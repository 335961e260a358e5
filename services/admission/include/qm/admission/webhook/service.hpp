#pragma once
#include "qm/admission/cluster.hpp"
#include "qm/admission/webhook/read_view.hpp"
#include "qm/admission/webhook/settings.hpp"
#include "qm/kube/ownership.hpp"
#include "qm/metrics/metrics.hpp"

#include <memory>
#include <string>
#include <vector>

namespace qm::admission::webhook {

/// The webhook of one process: view, server and certificate. Every replica answers, whether it leads or stands by, as the
/// API server asks any of them.
///
/// Threads  one. What it is given must outlive it; the host what lies between lead and stop.
class Webhook {
 public:
  /// `manifests`: paths of YAML, of which the local queues are taken.
  Webhook(const WebhookSettings& settings, const ClusterSettings& cluster, const std::vector<std::string>& manifests,
          kube::Client& client, metrics::Registry& registry);
  /// From here on it answers, as soon as it has a certificate and has seen the namespaces.
  void start();
  /// This process leads: its engine knows the queues, and who holds quota.
  void lead(service::Host& host) { view_.lead(host); }
  void drain();  ///< as the server's
  void stop();

 private:
  kube::Ownership quota_, binding_;
  ReadView view_;
  Server server_;
  CertificateKeeper keeper_;
};

/// None where no webhook is asked for; else one that answers already.
Result<std::unique_ptr<Webhook>> open_webhook(const std::map<std::string, std::string>& extra,
                                              const ClusterSettings& cluster, const std::vector<std::string>& manifests,
                                              kube::Client& client, metrics::Registry& registry);

}  // namespace qm::admission::webhook
