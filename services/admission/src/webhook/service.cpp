#include "qm/admission/webhook/service.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission_policy/settings.hpp"
#include "qm/config/manifest.hpp"

#include <chrono>
#include <variant>

namespace qm::admission::webhook {
namespace {

// Wall-clock time, never a domain clock: the API server validates certificates by its own clock.
WallTime wall() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

/// A manifest that cannot be read adds no queue here; the leader reports the error.
ReadView::Queues queues_of(const std::vector<std::string>& manifests) {
  ReadView::Queues out;
  for (const auto& path : manifests) {
    for (const auto& object : config::load_path(path).objects) {
      const auto* queue = std::get_if<config::LocalQueue>(&object.typed);
      if (queue != nullptr) out[queue->ns.value()].insert(queue->name);
    }
  }
  return out;
}

}  // namespace

Webhook::Webhook(const WebhookSettings& settings, const ClusterSettings& cluster,
                 const std::vector<std::string>& manifests, kube::Client& client, metrics::Registry& registry)
    : quota_(client, {"quota", cluster.quota, kube::other_controllers_of("quota")}),
      binding_(client, {"binding", cluster.binding, kube::other_controllers_of("binding")}),
      view_(client,
            {[this](const std::string& ns) { return quota_.of(ns).ours; },
             [this, placed = cluster.engine.places](const std::string& ns) { return placed && binding_.of(ns).ours; },
             queues_of(manifests)}),
      server_(
          settings.server, settings.policy, [this] { return view_.current(); }, registry),
      keeper_(
          client, settings.keeper, wall,
          // Serves only after namespaces, queues and owners are known: until then the failure policy applies.
          [this](const http::Identity& identity) -> Status {
            if (!view_.synced() || !quota_.known() || !binding_.known()) {
              return fail(Code::kUnavailable, "the namespaces are not listed yet");
            }
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
  quota_.start();
  binding_.start();
  view_.start();
  keeper_.start();
}

std::string Webhook::gap() const {
  return server_.port() == 0 ? "the webhook does not serve yet; the log has the reason" : "";
}

void Webhook::drain() { server_.drain(); }

void Webhook::stop() {
  keeper_.stop();
  server_.stop();
  view_.stop();
  binding_.stop();
  quota_.stop();
}

SubmitRules submit_rules(const WebhookSettings& settings, const Webhook* webhook, service::Host& host) {
  const auto only = webhook == nullptr ? std::string() : settings.registration.only;
  return SubmitRules([policy = settings.policy, only, webhook, &host](const Json& job, const rpc::Caller& caller,
                                                                      bool from_manifest) -> Status {
    const auto ns = kube::namespace_of(job);
    if (webhook != nullptr) {
      const auto seen = webhook->view();
      const auto home = seen->namespaces.find(ns);
      const auto equals = only.find('=');
      const bool is_asked =
          only.empty() || (home != seen->namespaces.end() && home->second.labels.contains(only.substr(0, equals)) &&
                           home->second.labels.at(only.substr(0, equals)) == only.substr(equals + 1));
      return is_asked ? check_job(job, caller.name, policy, *seen) : Status{};
    }
    if (!from_manifest) return {};
    admission_policy::View view;
    host.read([&](const service::Shell& shell) {
      const auto& engine = static_cast<const AdmissionShell&>(shell).engine();
      if (const auto* known = engine.tables().namespaces.find(Namespace(ns)))
        view.namespaces[ns].labels = known->labels;
    });
    return check_job(job, caller.name, policy, view);
  });
}

std::unique_ptr<Webhook> open_webhook(const WebhookSettings& settings, const ClusterSettings& cluster,
                                      const std::vector<std::string>& manifests, kube::Client& client,
                                      metrics::Registry& registry) {
  if (!settings.serves) return nullptr;
  auto out = std::make_unique<Webhook>(settings, cluster, manifests, client, registry);
  out->start();
  return out;
}

}  // namespace qm::admission::webhook
