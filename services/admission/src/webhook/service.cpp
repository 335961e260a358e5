#include "qm/admission/webhook/service.hpp"

#include <chrono>

namespace qm::admission::webhook {
namespace {

// The wall's, never a domain clock's: the API server judges certificates by its own.
WallTime wall() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

}  // namespace

Webhook::Webhook(const WebhookSettings& settings, service::Host& host, kube::Client& client,
                 metrics::Registry& registry, Owners owners)
    : view_(host, client, std::move(owners.quota), std::move(owners.binding)),
      server_(
          settings.server, settings.policy, [this] { return view_.current(); }, registry),
      keeper_(
          client, settings.keeper, wall,
          // Nothing is answered before namespaces and queues are known: until then the failure policy speaks for us.
          [this](const http::Identity& identity) -> Status {
            if (!view_.synced()) return fail(Code::kUnavailable, "the namespaces are not listed yet");
            return server_.serve(identity);
          },
          [&client, registration = settings.registration](const std::string& bundle) {
            return enrol(client, registration, bundle);
          }) {
  auto until = registry.gauge("qm_webhook_certificate_expiry_seconds", "End of the serving certificate, Unix time");
  registry.on_scrape(
      [this, until]() mutable { until.set(static_cast<double>(keeper_.serving_until().time_since_epoch().count())); });
}

void Webhook::start() {
  view_.start();
  keeper_.start();
}

void Webhook::stop() {
  keeper_.stop();
  server_.stop();
  view_.stop();
}

}  // namespace qm::admission::webhook
