// qm-placement: chooses the nodes of gangs. This file only wires the parts together.
#include "qm/bus/bus.hpp"
#include "qm/kube/connect.hpp"
#include "qm/placement/api.hpp"
#include "qm/placement/gap.hpp"
#include "qm/placement/settings.hpp"
#include "qm/placement/shell.hpp"
#include "qm/replica/replica.hpp"
#include "qm/rpc/process.hpp"
#include "qm/wire/last_state.hpp"

#include <grpcpp/impl/service_type.h>

namespace {

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_ASSIGN(const auto chosen, placement::settings_table().read(settings.extra));
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  QM_ASSIGN(const auto replica, replica::Replica::begin(settings, "placement"));
  QM_ASSIGN(auto bus, bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));
  QM_ASSIGN(auto kube_options, kube::find_server(settings.kube));
  kube::Client client(std::move(kube_options));
  placement::KubeExecutor executor(client, clock.get());
  metrics::Registry registry;

  auto host_options = placement::host_options(settings.shard);
  host_options.snapshot = rpc::snapshot_over_grpc(settings.peers, rpc::client_security(settings));
  host_options.last_state = wire::last_state;
  replica->guard(host_options);
  service::Host host(
      host_options,
      std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(chosen.engine),
                                         placement::Codec(std::make_shared<placement::Meters>(registry))),
      replica->take_store(), std::move(bus), *clock, &executor);
  QM_TRY(host.open([] { return !rpc::signal_pending(); }));
  QM_TRY(host.submit(placement::watch_started()));
  host.start();
  kube::Ownership quota(client, {"quota", chosen.quota, kube::other_controllers_of("quota")});
  kube::Ownership binding(client, {"binding", chosen.binding, kube::other_controllers_of("binding")});
  placement::Watcher watcher(client, host, {&quota, &binding});
  quota.start();
  binding.start();
  watcher.start();

  rpc::export_host(registry, host, "placement");
  placement::export_metrics(registry, host);
  placement::GapMeter gap(host, *clock);
  gap.export_metrics(registry);
  gap.start();
  const auto api = placement::make_api(host, &gap);
  QM_ASSIGN(const auto server_options, rpc::server_options(settings, "placement", &registry, &host));
  rpc::Server server(server_options, {api.get()});
  replica->end_standby();
  QM_TRY(server.start());
  rpc::AdminServer admin(
      settings.http, registry, server_options.access,
      {[&] { return host.alive(); },
       [&] { return host.readiness().unless(watcher.synced(), "the first list of the cluster is not complete"); },
       [&] { return host.debug_state(); }});
  QM_TRY(admin.start());
  replica->serving_at(server.port());
  log::info("placement is up", {{"grpc", server.port()}, {"http", admin.port()}, {"kube", settings.kube}});

  replica->wait_for_end();
  server.stop();
  admin.stop();
  quota.stop();
  binding.stop();
  watcher.stop();
  gap.stop();
  host.stop();
  return replica->end();
}

}  // namespace

int main(int argc, char** argv) {
  return qm::replica::main(
      argc, argv, {"placement", "Places gangs on nodes and devices.", qm::placement::settings_table().settings()}, run);
}
