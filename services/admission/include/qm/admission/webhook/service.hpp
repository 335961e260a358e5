#pragma once
#include "qm/admission/api.hpp"
#include "qm/admission/cluster.hpp"
#include "qm/admission/webhook/read_view.hpp"
#include "qm/admission/webhook/settings.hpp"
#include "qm/kube/ownership.hpp"
#include "qm/metrics/metrics.hpp"

#include <memory>
#include <string>
#include <vector>

namespace qm::admission::webhook {

/// The webhook of one process: view, server and certificate. Each replica serves, leader or standby, because the API
/// server calls any of them.
///
/// Threads  one. The arguments must outlive it; the host must live from lead to stop.
class Webhook {
 public:
  /// `manifests`: paths of YAML files, of which the local queues are used.
  Webhook(const WebhookSettings& settings, const ClusterSettings& cluster, const std::vector<std::string>& manifests,
          kube::Client& client, metrics::Registry& registry);
  /// Serves from here on, as soon as it has a certificate and has listed the namespaces.
  void start();
  /// This process became the leader: its engine knows the queues and the holders of quota.
  void lead(service::Host& host) { view_.lead(host); }
  /// Why the API server cannot call it yet; empty = it can. Once it serves, it serves until stop.
  [[nodiscard]] std::string gap() const;
  void drain();  ///< as Server::drain
  void stop();
  [[nodiscard]] std::shared_ptr<const admission_policy::View> view() const { return view_.current(); }

 private:
  kube::Ownership quota_, binding_;
  ReadView view_;
  Server server_;
  CertificateKeeper keeper_;
};

/// The fleet rules as Submit applies them (check_job), so that it refuses what the webhook and `qmctl admit` refuse.
///
/// With a webhook its view decides, for each Job, because the API server would refuse it later. Without one (`webhook`
/// null) a Job of a manifest is checked by the labels that its namespace has in the engine. A Job that the service
/// builds from a spec is not checked: the service chooses its fields.
/// Threads  any but that of the engine. The arguments must outlive the result.
SubmitRules submit_rules(const WebhookSettings& settings, const Webhook* webhook, service::Host& host);

/// Null if no webhook is configured; otherwise one that serves already.
std::unique_ptr<Webhook> open_webhook(const WebhookSettings& settings, const ClusterSettings& cluster,
                                      const std::vector<std::string>& manifests, kube::Client& client,
                                      metrics::Registry& registry);

}  // namespace qm::admission::webhook
