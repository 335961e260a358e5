// qm-cost: who pays. Wiring only.
#include "qm/bus/bus.hpp"
#include "qm/cost/api.hpp"
#include "qm/cost/shell.hpp"
#include "qm/rpc/process.hpp"

namespace {

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  QM_ASSIGN(const auto plan, cost::plan_from_manifests(settings.manifests));
  QM_ASSIGN(auto store, store::open_postgres({settings.postgres, "cost", settings.shard, cost::migrations()}));
  QM_ASSIGN(auto bus, bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));

  auto options = cost::host_options(settings.shard);
  options.snapshot = rpc::snapshot_over_grpc(settings.peers);
  service::Host host(options, std::make_unique<cost::Shell>(std::make_unique<cost::Engine>(), cost::Codec{}),
                     std::move(store), std::move(bus), *clock, nullptr);
  QM_TRY(host.open([] { return !rpc::signal_pending(); }));
  host.start();
  QM_TRY(host.submit(cost::prices_input(plan)));

  metrics::Registry registry;
  rpc::export_host(registry, host, "cost");
  cost::export_metrics(registry, host, *clock);
  rpc::AdminServer admin(
      settings.http, registry, [&] { return host.alive(); }, [&] { return host.ready(); },
      [&] { return host.debug_state(); });
  QM_TRY(admin.start());

  const auto api = cost::make_api(host, *clock);
  rpc::ServerOptions server_options;
  server_options.address = settings.grpc;
  rpc::Server server(server_options, {api.get()});
  QM_TRY(server.start());
  server.set_serving(true);
  log::info("cost is up", {{"grpc", server.port()}, {"http", admin.port()}, {"prices", plan.name}});

  rpc::wait_for_signal();
  server.stop();
  admin.stop();
  host.stop();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  qm::rpc::block_signals();
  const auto settings = qm::rpc::parse_settings(argc, argv, "cost", "Turns what ran where into a balanced ledger.");
  if (const auto done = run(settings); !done) {
    qm::log::error("cost ends", {{"error", done.error().to_string()}});
    return 1;
  }
  return 0;
}
