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
  [[nodiscard]] std::shared_ptr<const View> view() const { return view_.current(); }

 private:
  kube::Ownership quota_, binding_;
  ReadView view_;
  Server server_;
  CertificateKeeper keeper_;
};

/// The fleet rules as Submit applies them (check_job), so that it refuses what the webhook and `qmctl admit` refuse.
///
/// With a webhook its view decides, on each Job: the API server would refuse it later. Without one (`webhook` null) a Job of a manifest is
/// judged by the labels that its namespace has in the engine, and a Job that the service builds from a spec is not: the service chooses its
/// fields.
/// Threads  any but the engine's. The arguments must outlive the result.
Result<SubmitRules> submit_rules(const std::map<std::string, std::string>& extra, const Webhook* webhook,
                                 service::Host& host);

/// None where no webhook is asked for; else one that answers already.
Result<std::unique_ptr<Webhook>> open_webhook(const std::map<std::string, std::string>& extra,
                                              const ClusterSettings& cluster, const std::vector<std::string>& manifests,
                                              kube::Client& client, metrics::Registry& registry);

}  // namespace qm::admission::webhook
