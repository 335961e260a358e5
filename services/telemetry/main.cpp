// qm-telemetry: node telemetry. Wiring only.
#include "qm/bus/bus.hpp"
#include "qm/replica/replica.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/server.hpp"
#include "qm/settings/setting.hpp"
#include "qm/telemetry/api.hpp"
#include "qm/wire/last_state.hpp"

namespace {

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_TRY(settings::check_names(settings.extra, {}));  // there are none
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  QM_ASSIGN(const auto replica, replica::Replica::begin(settings, "telemetry"));
  QM_ASSIGN(auto bus, bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));
  auto options = telemetry::host_options(settings.shard);
  options.snapshot = rpc::snapshot_over_grpc(settings.peers, rpc::client_security(settings));
  options.last_state = wire::last_state;
  replica->guard(options);
  telemetry::AgentHub hub;
  telemetry::Samples samples(std::chrono::minutes(15), *clock);
  telemetry::Codec codec([&](const NodeName& node) { samples.forget(node.value()); });
  service::Host host(options,
                     std::make_unique<telemetry::Shell>(std::make_unique<telemetry::Engine>(), std::move(codec)),
                     replica->take_store(), bus, *clock, &hub);
  QM_TRY(host.open([] { return !rpc::signal_pending(); }));
  host.start();
  // A closed interval is lost with its samples if the mailbox is full: they are not billed, and the gap is visible.
  samples.on_closed([&](const telemetry::pb::UsageInterval& u) { (void)host.submit(telemetry::usage_input(u)); });
  telemetry::RedisMirror redis(settings.redis, samples);
  telemetry::Observer observer(bus, redis, settings.shard);
  redis.start();
  observer.start();

  metrics::Registry registry;
  rpc::export_host(registry, host, "telemetry");
  telemetry::export_metrics(registry, host, samples, hub, redis);
  replica->end_standby();
  const auto api = telemetry::make_api({host, samples, hub, redis, observer, *clock});
  QM_ASSIGN(auto server_options, rpc::server_options(settings, "telemetry", &registry, &host));
  server_options.drain = std::chrono::seconds(1);  // agents' streams never end by themselves
  rpc::AdminServer admin(
      settings.http, registry, server_options.access,
      {[&] { return host.alive(); }, [&] { return host.readiness(); }, [&] { return host.debug_state(); }});
  rpc::Server server(server_options, {api.get()});
  QM_TRY(server.start());
  QM_TRY(admin.start());  // ready once calls are served
  replica->serving_at(server.port());
  log::info("telemetry is up", {{"grpc", server.port()}, {"http", admin.port()}, {"redis", settings.redis}});

  replica->wait_for_end();
  server.stop();
  observer.stop();
  redis.stop();
  admin.stop();
  host.stop();
  return replica->end();
}

}  // namespace

int main(int argc, char** argv) {
  return qm::replica::main(
      argc, argv,
      {"telemetry", "Collects GPU samples and faults from agents and derives the health verdicts of nodes."}, run);
}
