// qm-cost: chargeback. Wiring only.
#include "qm/bus/bus.hpp"
#include "qm/cost/api.hpp"
#include "qm/cost/observer.hpp"
#include "qm/cost/plan_watch.hpp"
#include "qm/cost/settings.hpp"
#include "qm/cost/shell.hpp"
#include "qm/kube/connect.hpp"
#include "qm/replica/replica.hpp"
#include "qm/rpc/process.hpp"
#include "qm/wire/last_state.hpp"

namespace {

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_ASSIGN(const auto chosen, cost::settings_table().read(settings.extra));
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  QM_ASSIGN(const auto plans, cost::plans_from_manifests(settings.manifests));
  QM_ASSIGN(const auto budgets, cost::budgets_from_manifests(settings.manifests));
  QM_ASSIGN(const auto replica, replica::Replica::begin(settings, "cost", cost::migrations()));
  QM_ASSIGN(auto bus, bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));

  auto options = cost::host_options(settings.shard);
  if (chosen.alone) options.consumes.clear();  // both sources together would be counted twice
  options.snapshot = rpc::snapshot_over_grpc(settings.peers, rpc::client_security(settings));
  options.last_state = wire::last_state;
  replica->guard(options);
  service::Host host(options,
                     std::make_unique<cost::Shell>(std::make_unique<cost::Engine>(chosen.engine), cost::Codec{}),
                     replica->take_store(), std::move(bus), *clock, nullptr);
  QM_TRY(host.open([] { return !rpc::signal_pending(); }));
  host.start();
  std::unique_ptr<kube::Client> kube;
  std::unique_ptr<cost::Observer> observer;
  std::unique_ptr<cost::PlanWatch> plan_watch;
  if (chosen.alone || !settings.kube.empty()) {
    QM_ASSIGN(auto kube_options, kube::find_server(settings.kube));
    kube = std::make_unique<kube::Client>(std::move(kube_options));
    plan_watch = std::make_unique<cost::PlanWatch>(*kube, host, cost::PlanWatch::Options{plans, budgets});
    plan_watch->start();
  } else {
    QM_TRY(host.submit(cost::prices_input(cost::joined(plans))));
    QM_TRY(host.submit(cost::budgets_input(budgets)));
  }
  if (chosen.alone) {
    observer = std::make_unique<cost::Observer>(*kube, host, *clock);
    observer->start();
  }

  metrics::Registry registry;
  rpc::export_host(registry, host, "cost");
  cost::export_metrics(registry, host, *clock);
  replica->end_standby();

  const auto api = cost::make_api(host, *clock);
  QM_ASSIGN(const auto server_options, rpc::server_options(settings, "cost", &registry, &host));
  rpc::AdminServer admin(settings.http, registry, server_options.access,
                         {[&] { return host.alive(); },
                          [&] {
                            return host.readiness().unless(!observer || observer->synced(),
                                                           "the first list of the cluster is not complete");
                          },
                          [&] { return host.debug_state(); }});
  rpc::Server server(server_options, {api.get()});
  QM_TRY(server.start());
  QM_TRY(admin.start());  // ready once calls are served
  replica->serving_at(server.port());
  log::info("cost is up", {{"grpc", server.port()}, {"http", admin.port()}, {"plans", plans.size()}});

  replica->wait_for_end();
  server.stop();
  admin.stop();
  if (observer) observer->stop();
  if (plan_watch) plan_watch->stop();
  host.stop();
  return replica->end();
}

}  // namespace

int main(int argc, char** argv) {
  return qm::replica::main(argc, argv,
                           {"cost", "Keeps the double-entry ledger of GPU-seconds: prices, chargeback and budgets.",
                            qm::cost::settings_table().settings()},
                           run, qm::cost::migrations());
}
