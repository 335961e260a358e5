// qm-telemetry: how well. Wiring only.
#include "qm/bus/bus.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/server.hpp"
#include "qm/telemetry/api.hpp"

namespace {

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  QM_ASSIGN(auto store, store::open_postgres({settings.postgres, "telemetry", settings.shard, {}}));
  QM_ASSIGN(auto bus, bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));
  auto options = telemetry::host_options(settings.shard);
  options.snapshot = rpc::snapshot_over_grpc(settings.peers);
  telemetry::AgentHub hub;
  telemetry::Samples samples(std::chrono::minutes(15), *clock);
  telemetry::Codec codec([&](const NodeName& node) { samples.forget(node.value()); });
  service::Host host(options,
                     std::make_unique<telemetry::Shell>(std::make_unique<telemetry::Engine>(), std::move(codec)),
                     std::move(store), bus, *clock, &hub);
  QM_TRY(host.open([] { return !rpc::signal_pending(); }));
  host.start();
  // A closed interval that finds the mailbox full is lost with its samples: they are not money, and the gap shows.
  samples.on_closed([&](const telemetry::pb::UsageInterval& u) { (void)host.submit(telemetry::usage_input(u)); });
  telemetry::RedisMirror redis(settings.redis, samples);
  telemetry::Observer observer(bus, redis, settings.shard);
  redis.start();
  observer.start();

  metrics::Registry registry;
  rpc::export_host(registry, host, "telemetry");
  telemetry::export_metrics(registry, host, samples, hub, redis);
  rpc::AdminServer admin(
      settings.http, registry, [&] { return host.alive(); }, [&] { return host.ready(); },
      [&] { return host.debug_state(); });
  QM_TRY(admin.start());
  const auto api = telemetry::make_api({host, samples, hub, redis, observer, *clock});
  rpc::ServerOptions server_options;
  server_options.address = settings.grpc;
  server_options.drain = std::chrono::seconds(1);  // agents' streams never end by themselves
  rpc::Server server(server_options, {api.get()});
  QM_TRY(server.start());
  server.set_serving(true);
  log::info("telemetry is up", {{"grpc", server.port()}, {"http", admin.port()}, {"redis", settings.redis}});

  rpc::wait_for_signal();
  server.stop();
  observer.stop();
  redis.stop();
  admin.stop();
  host.stop();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  qm::rpc::block_signals();
  const auto settings =
      qm::rpc::parse_settings(argc, argv, "telemetry", "Takes what agents see and judges which GPUs may work.");
  if (const auto done = run(settings); !done) {
    qm::log::error("telemetry ends", {{"error", done.error().to_string()}});
    return 1;
  }
  return 0;
}
