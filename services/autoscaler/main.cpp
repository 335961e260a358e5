// qm-autoscaler: cloud capacity. Wiring only.
#include "qm/autoscaler/api.hpp"
#include "qm/autoscaler/cluster.hpp"
#include "qm/autoscaler/settings.hpp"
#include "qm/bus/bus.hpp"
#include "qm/kube/connect.hpp"
#include "qm/replica/replica.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/server.hpp"
#include "qm/wire/last_state.hpp"

namespace {

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  QM_ASSIGN(const auto pools, autoscaler::pools_from_manifests(settings.manifests));
  QM_ASSIGN(const auto chosen, autoscaler::settings_table().read(settings.extra));
  const autoscaler::ClusterSettings& cluster_settings = chosen.cluster;
  const bool karpenter = cluster_settings.driver == autoscaler::Driver::kKarpenter;
  const auto keys = cloud::AwsOptions::from_environment();
  const bool launches = cluster_settings.driver == autoscaler::Driver::kEc2;
  if (!keys && launches) return fail(keys.error());  // Karpenter has credentials of its own
  auto aws_options = keys ? *keys : cloud::AwsOptions{};
  if (!chosen.aws.empty()) aws_options.endpoint = chosen.aws;
  cloud::Aws aws(aws_options);
  QM_ASSIGN(auto kube_options, kube::find_server(settings.kube));
  QM_ASSIGN(auto authority, autoscaler::certificate_authority(kube_options));
  kube::Client kube(std::move(kube_options));
  QM_ASSIGN(auto classes, autoscaler::node_classes_from_manifests(settings.manifests));
  autoscaler::NodeClassWatch class_watch(
      kube, aws, *clock,
      {std::move(classes),
       {chosen.cluster_name, chosen.cluster_endpoint, chosen.service_cidr, std::move(authority), {}},
       aws_options.region});
  autoscaler::Executor executor(
      kube, aws, cluster_settings.driver, settings.shard,
      [&](const auto& name, const auto& planned) { return class_watch.launch_parameters(name, planned); },
      chosen.groups.system_pods());

  QM_ASSIGN(const auto replica, replica::Replica::begin(settings, "autoscaler"));
  QM_ASSIGN(auto bus, bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));
  auto options = autoscaler::host_options(settings.shard);
  if (cluster_settings.alone) options.consumes.clear();  // two sources could contradict each other
  options.snapshot = rpc::snapshot_over_grpc(settings.peers, rpc::client_security(settings));
  options.last_state = wire::last_state;
  replica->guard(options);
  autoscaler::Options engine_options;
  engine_options.strict_min_values = cluster_settings.strict_min_values;
  autoscaler::apply(chosen.groups, engine_options);
  engine_options.provider = cluster_settings.driver != autoscaler::Driver::kNone;
  service::Host host(options,
                     std::make_unique<autoscaler::Shell>(
                         std::make_unique<autoscaler::Engine>(autoscaler::catalog_types(), engine_options),
                         autoscaler::Codec(cluster_settings.alone)),
                     replica->take_store(), std::move(bus), *clock, &executor);
  QM_TRY(host.open([] { return !rpc::signal_pending(); }));
  QM_TRY(autoscaler::Cluster::begin(host));
  host.start();
  autoscaler::CloudWatch* look = nullptr;
  autoscaler::PriorityWatch priorities(kube, chosen.groups);
  autoscaler::GroupWatch groups(aws, autoscaler::discovery_of(chosen.groups));
  autoscaler::Cluster cluster(kube, host, *clock,
                              {cluster_settings,
                               {pools, keys.has_value()},
                               settings.shard,
                               launches ? &class_watch : nullptr,
                               [&look] { look->poke(); },
                               chosen.groups,
                               chosen.groups.by_priority() ? &priorities : nullptr,
                               keys ? &groups : nullptr});
  autoscaler::CloudWatchOptions look_options;
  look_options.shard = settings.shard;
  look_options.ask = keys.has_value();
  if (keys) look_options.groups = &groups;
  look_options.groups_only = karpenter;
  if (karpenter) look_options.also = [&cluster] { return cluster.listed_instances(); };
  autoscaler::CloudWatch watch(host, aws, *clock, look_options);
  look = &watch;
  const std::shared_ptr<void> end_of_looks(nullptr, [&](void*) {
    cluster.stop();
    watch.stop();
    class_watch.stop();
    priorities.stop();
  });
  if (launches) class_watch.start();
  if (chosen.groups.by_priority()) priorities.start();
  cluster.start();
  watch.start();

  metrics::Registry registry;
  rpc::export_host(registry, host, "autoscaler");
  autoscaler::export_metrics(registry, host);
  replica->end_standby();
  const auto api = autoscaler::make_api(host, *clock);
  QM_ASSIGN(const auto server_options, rpc::server_options(settings, "autoscaler", &registry, &host));
  rpc::AdminServer admin(
      settings.http, registry, server_options.access,
      {[&] { return host.alive(); },
       [&] { return host.readiness().unless(cluster.synced(), "the first list of the cluster is not complete"); },
       [&] {
         Json state = host.debug_state();
         state.set("cloud_looks", static_cast<std::int64_t>(watch.looks()));
         return state;
       }});
  rpc::Server server(server_options, {api.get()});
  QM_TRY(server.start());
  QM_TRY(admin.start());  // ready once calls are served
  replica->serving_at(server.port());
  log::info("autoscaler is up", {{"grpc", server.port()}, {"http", admin.port()}, {"pools", pools.size()}});

  replica->wait_for_end();
  server.stop();
  cluster.stop();
  watch.stop();
  admin.stop();
  host.stop();
  return replica->end();
}

}  // namespace

int main(int argc, char** argv) {
  return qm::replica::main(
      argc, argv,
      {"autoscaler",
       "Launches instances for pending gangs, terminates empty ones, and orders checkpoints before spot capacity ends.",
       qm::autoscaler::settings_table().settings()},
      run);
}
