// qm-admission: wiring only.
#include "qm/admission/api.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/executor.hpp"
#include "qm/admission/metrics.hpp"
#include "qm/admission/watch.hpp"
#include "qm/base/log.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/server.hpp"

#include <memory>

namespace {

qm::Status run(const qm::rpc::Settings& settings) {
  if (settings.postgres.empty()) {
    return qm::fail({qm::Code::kInvalid, "no database is named", "--postgres", "give a conninfo, or set QM_POSTGRES"});
  }
  if (settings.kube.empty()) {
    return qm::fail({qm::Code::kInvalid, "no Kubernetes API is named", "--kube", "give its URL, or set QM_KUBE"});
  }
  QM_ASSIGN(const auto clock, qm::make_clock(settings.clock));
  QM_ASSIGN(auto store, qm::store::open_postgres({settings.postgres, "admission", settings.shard, {}}));
  QM_ASSIGN(auto bus, qm::bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));
  qm::kube::ClientOptions kube_options;
  kube_options.server = settings.kube;
  qm::kube::Client kube(kube_options);
  qm::admission::JobExecutor executor(kube);

  qm::service::HostOptions options;
  options.service = "admission";
  options.shard = settings.shard;
  options.consumes = {"qm.placement", "qm.capacity"};
  options.produces = {qm::admission::kTopic};
  options.snapshot = qm::rpc::snapshot_over_grpc(settings.peers);
  auto shell = std::make_unique<qm::admission::AdmissionShell>(std::make_unique<qm::admission::Engine>(),
                                                               qm::admission::Codec{});
  qm::service::Host host(options, std::move(shell), std::move(store), std::move(bus), *clock, &executor);
  executor.ask_first([&host](const auto& ns, const auto& name, const auto& intent) {
    return qm::admission::awaits(host, ns, name, intent);
  });
  QM_TRY(host.open([] { return !qm::rpc::signal_pending(); }));

  qm::metrics::Registry registry;
  qm::rpc::export_host(registry, host, "admission");
  qm::admission::Metrics metrics(registry, host);
  host.start();
  for (const auto& path : settings.manifests) QM_TRY(qm::admission::apply_file(host, path));

  qm::admission::JobWatch watch(kube, host);
  const auto api = qm::admission::make_service(host, *clock);
  qm::rpc::Server server({settings.grpc}, {api.get()});
  qm::rpc::AdminServer admin(
      settings.http, registry, [&] { return host.alive(); }, [&] { return host.ready() && watch.synced(); },
      [&] { return host.debug_state(); });
  admin.route("GET", "/debug/explain", [&](const qm::http::Request& request, const auto&) -> qm::http::Answer {
    const auto answer = qm::admission::explain_json(host, *clock, request.query()["uid"]);
    if (!answer) return qm::http::text(404, answer.error().to_string() + "\n");
    return qm::http::json(200, answer->pretty());
  });
  // Readiness is asked over HTTP, so that opens last but for the watch.
  QM_TRY(server.start());
  QM_TRY(admin.start());
  watch.start();
  qm::log::info("admission serves", {{"grpc", server.port()}, {"http", admin.port()}});
  qm::rpc::wait_for_signal();
  server.stop();
  watch.stop();
  admin.stop();
  host.stop();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  qm::rpc::block_signals();
  const auto settings =
      qm::rpc::parse_settings(argc, argv, "qm-admission", "decides who may run: queues, quota, preemption");
  if (const auto done = run(settings); !done) {
    qm::log::error("admission stopped", {{"error", done.error().to_string()}});
    return 1;
  }
  return 0;
}
