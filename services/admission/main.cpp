// qm-admission: wiring only.
#include "qm/admission/api.hpp"
#include "qm/admission/cluster.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/executor.hpp"
#include "qm/admission/metrics.hpp"
#include "qm/admission/report.hpp"
#include "qm/admission/settings.hpp"
#include "qm/admission/webhook/service.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/connect.hpp"
#include "qm/replica/replica.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/server.hpp"
#include "qm/wire/last_state.hpp"

#include <memory>

namespace {

/// Client of the API server for calls of Submit.
qm::Result<std::shared_ptr<qm::kube::Client>> submit_client(const qm::rpc::Settings& settings) {
  QM_ASSIGN(auto options, qm::kube::find_server(settings.kube));
  options.timeout_ms = 5000;
  return std::make_shared<qm::kube::Client>(std::move(options));
}

/// Access reviews, where Kubernetes authenticates the callers; null elsewhere.
std::shared_ptr<qm::kube::AccessReviews> access_reviews(const qm::rpc::Settings& settings,
                                                        const std::shared_ptr<qm::kube::Client>& client) {
  if (settings.auth != "tokenreview") return nullptr;
  return std::make_shared<qm::kube::AccessReviews>([client](const qm::Json& review) {
    return client->create({"authorization.k8s.io", "v1", "subjectaccessreviews", false}, {}, review);
  });
}

qm::Status run(const qm::rpc::Settings& settings) {
  if (settings.kube.empty()) {
    return qm::fail({qm::Code::kInvalid, "no Kubernetes API is named", "--kube", "give its URL, or set QM_KUBE"});
  }
  QM_ASSIGN(const auto chosen, qm::admission::read_settings(settings.extra));
  const bool places = chosen.cluster.engine.places;
  QM_ASSIGN(const auto clock, qm::make_clock(settings.clock));
  QM_ASSIGN(auto kube_options, qm::kube::find_server(settings.kube));
  qm::kube::Client kube(std::move(kube_options));
  qm::metrics::Registry registry;
  // A standby replica also serves the webhook.
  const auto webhook =
      qm::admission::webhook::open_webhook(chosen.webhook, chosen.cluster, settings.manifests, kube, registry);
  // The Service of the webhook sends requests to each pod that is ready.
  const auto webhook_gap = [&webhook] { return webhook ? webhook->gap() : std::string(); };
  QM_ASSIGN(const auto replica,
            qm::replica::Replica::begin(settings, "admission", qm::admission::migrations(), webhook_gap));
  QM_ASSIGN(auto bus, qm::bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));
  qm::admission::CheckpointPolicies checkpoints(kube);
  qm::admission::JobExecutor executor(kube, clock.get());
  qm::admission::ObservedJobs observed;
  executor.start_from(observed);
  executor.save_by([&checkpoints](const auto& object) { return checkpoints.url_for(object); });

  qm::service::HostOptions options;
  options.service = "admission";
  options.shard = settings.shard;
  options.consumes = {"qm.placement", "qm.capacity", "qm.cost"};
  options.produces = {qm::admission::kTopic};
  options.urgency_of = &qm::admission::urgency_of;
  options.executor_threads = 8;  // a busy API server may take half a second to respond
  executor.limit_calls(options.executor_threads);
  options.snapshot = qm::rpc::snapshot_over_grpc(settings.peers, qm::rpc::client_security(settings));
  options.last_state = qm::wire::last_state;
  replica->guard(options);
  auto shell = std::make_unique<qm::admission::AdmissionShell>(
      std::make_unique<qm::admission::Engine>(chosen.cluster.engine), qm::admission::Codec{!places});
  qm::service::Host host(options, std::move(shell), replica->take_store(), std::move(bus), *clock, &executor);
  executor.authorize_first([&host](const auto& ns, const auto& name, const auto& intent) {
    return qm::admission::awaits(host, ns, name, intent);
  });
  QM_TRY(host.open([] { return !qm::rpc::signal_pending(); }));

  qm::rpc::export_host(registry, host, "admission");
  qm::admission::Metrics metrics(registry, host, *clock);
  host.start();
  for (const auto& path : settings.manifests) QM_TRY(qm::admission::apply_file(host, path));

  qm::admission::Cluster cluster(kube, host, *clock, chosen.cluster, checkpoints, &observed);
  QM_ASSIGN(const auto submits, submit_client(settings));
  const auto security = qm::rpc::client_security(settings);
  qm::admission::ApiOptions api_options;
  api_options.reviews = access_reviews(settings, submits);
  api_options.jobs = submits;
  api_options.rules = qm::admission::webhook::submit_rules(chosen.webhook, webhook.get(), host);
  api_options.autoscaled = settings.peers.contains("autoscaler");
  if (places) api_options.nodes = qm::admission::request_placement(settings.peers, security);
  if (api_options.autoscaled) api_options.plan = qm::admission::request_capacity(settings.peers, security);
  const auto api = qm::admission::make_service(host, *clock, api_options);
  QM_ASSIGN(const auto server_options, qm::rpc::server_options(settings, "admission", &registry, &host));
  qm::rpc::Server server(server_options, {api.get()});
  qm::rpc::AdminServer admin(settings.http, registry, server_options.access,
                             {[&] { return host.alive(); },
                              [&] {
                                const auto gap = webhook_gap();
                                return host.readiness()
                                    .unless(cluster.synced(), "the first list of the cluster is not complete")
                                    .unless(gap.empty(), gap);
                              },
                              [&] { return host.debug_state(); }});
  admin.route("GET", "/debug/explain", [&](const qm::http::Request& request, const auto&) -> qm::http::Answer {
    const auto answer = qm::admission::explain_json(host, *clock, request.query()["uid"], api_options,
                                                    std::string(request.headers.get("authorization")));
    if (!answer) return qm::http::text(404, answer.error().to_string() + "\n");
    return qm::http::json(200, answer->pretty());
  });
  replica->end_standby();
  // Readiness is served over HTTP, so the admin server starts last, except for the watches.
  QM_TRY(server.start());
  QM_TRY(admin.start());
  cluster.start();
  if (webhook) webhook->lead(host);
  replica->serving_at(server.port());
  qm::log::info("admission serves", {{"grpc", server.port()}, {"http", admin.port()}});
  replica->wait_for_end();
  // Drain the webhook first: everything else serves meanwhile, so the next leader takes over without a longer wait.
  if (webhook) webhook->drain();
  server.stop();
  if (webhook) webhook->stop();
  cluster.stop();
  admin.stop();
  host.stop();
  return replica->end();
}

}  // namespace

int main(int argc, char** argv) {
  return qm::replica::main(argc, argv,
                           {"qm-admission", "Decides which workloads may run: queues, quota and preemption.",
                            qm::admission::settings_table().settings()},
                           run, qm::admission::migrations());
}
