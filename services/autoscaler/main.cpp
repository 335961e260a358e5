// qm-autoscaler: cloud capacity. Wiring only.
#include "qm/autoscaler/api.hpp"
#include "qm/autoscaler/cluster.hpp"
#include "qm/autoscaler/interruption_queue.hpp"
#include "qm/autoscaler/metrics_api.hpp"
#include "qm/autoscaler/replica_watch.hpp"
#include "qm/autoscaler/settings.hpp"
#include "qm/bus/bus.hpp"
#include "qm/kube/connect.hpp"
#include "qm/replica/replica.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/server.hpp"
#include "qm/wire/last_state.hpp"

namespace {

/// The metrics APIs, on the address of the admin pages; null if they are not configured.
///
/// Fails    kInvalid: there is no certificate, or no Prometheus to read.
qm::Result<std::unique_ptr<qm::autoscaler::MetricsApi>> open_metrics_api(const qm::rpc::Settings& settings,
                                                                         const qm::autoscaler::ReplicaSettings& chosen,
                                                                         qm::kube::Client& kube,
                                                                         const qm::DomainClock& clock) {
  using namespace qm;
  std::unique_ptr<autoscaler::MetricsApi> out;
  if (chosen.metrics_api_port == 0) return out;
  if (settings.tls.certificate.empty() || chosen.prometheus.empty()) {
    return fail({Code::kInvalid, "the metrics APIs need a certificate and a Prometheus", "metrics-api-port",
                 "set --tls-cert, --tls-key and --set prometheus=URL, or remove the setting"});
  }
  autoscaler::MetricsApi::Options options;
  options.address = settings.http.substr(0, settings.http.rfind(':'));
  options.port = static_cast<std::uint16_t>(chosen.metrics_api_port);
  options.prometheus = chosen.prometheus;
  options.tls = http::TlsFiles{settings.tls.certificate, settings.tls.key, chosen.metrics_api_ca};
  out = std::make_unique<autoscaler::MetricsApi>(kube, clock, options);
  QM_TRY(out->start());
  return out;
}

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  QM_ASSIGN(const auto pools, autoscaler::pools_from_manifests(settings.manifests));
  QM_ASSIGN(const auto chosen, autoscaler::settings_table().read(settings.extra));
  const autoscaler::ClusterSettings& cluster_settings = chosen.cluster;
  const bool karpenter = cluster_settings.driver == autoscaler::Driver::kKarpenter;
  const bool launches = cluster_settings.driver == autoscaler::Driver::kEc2;
  // Karpenter has credentials of its own. Next to it ours are optional, and the role of the node is not meant for us.
  auto aws_options = cloud::AwsOptions::from_environment(launches);
  const auto keys = aws_options.credentials->keys();
  if (!keys && launches) return fail(keys.error());
  log::info("AWS credentials", {{"source", keys ? aws_options.credentials->source() : "none"}});
  if (!chosen.aws.empty()) {
    aws_options.endpoint = chosen.aws;
    aws_options.service_endpoints.clear();
  }
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

  // A standby serves them too: the API server calls any replica.
  QM_ASSIGN(const auto metrics_api, open_metrics_api(settings, chosen.replicas, kube, *clock));
  QM_ASSIGN(const auto replica, replica::Replica::begin(settings, "autoscaler"));
  QM_ASSIGN(auto bus, bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));
  auto options = autoscaler::host_options(settings.shard);
  if (cluster_settings.alone) options.consumes.clear();  // two sources could contradict each other
  options.snapshot = rpc::snapshot_over_grpc(settings.peers, rpc::client_security(settings));
  options.last_state = wire::last_state;
  replica->guard(options);
  service::Host host(
      options,
      std::make_unique<autoscaler::Shell>(
          std::make_unique<autoscaler::Engine>(autoscaler::catalog_types(), autoscaler::engine_options(chosen)),
          autoscaler::Codec(cluster_settings.alone, cluster_settings.driver)),
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
                               keys ? &groups : nullptr,
                               autoscaler::engine_options(chosen).needs_node_pods()});
  autoscaler::CloudWatchOptions look_options;
  look_options.shard = settings.shard;
  look_options.ask = keys.has_value();
  if (keys) look_options.groups = &groups;
  look_options.groups_only = karpenter;
  if (karpenter) look_options.also = [&cluster] { return cluster.listed_instances(); };
  autoscaler::CloudWatch watch(host, aws, *clock, look_options);
  look = &watch;
  autoscaler::InterruptionQueue queue(
      aws, [&](service::Input input, auto done) { return host.submit(std::move(input), std::move(done)); },
      [&] { watch.poke(); }, {.url = chosen.interruption_queue, .lifecycle_time = chosen.lifecycle_time});
  const std::shared_ptr<void> end_of_looks(nullptr, [&](void*) {
    queue.stop();
    cluster.stop();
    watch.stop();
    class_watch.stop();
    priorities.stop();
  });
  autoscaler::ReplicaWatch replicas(kube, host, *clock,
                                    {{chosen.replicas.prometheus, keys ? std::optional(aws_options) : std::nullopt}});
  const std::shared_ptr<void> end_of_samples(nullptr, [&](void*) { replicas.stop(); });
  if (launches) class_watch.start();
  if (chosen.groups.by_priority()) priorities.start();
  cluster.start();
  watch.start();
  if (!chosen.interruption_queue.empty()) queue.start();
  replicas.start();

  metrics::Registry registry;
  rpc::export_host(registry, host, "autoscaler");
  autoscaler::export_metrics(registry, host);
  cluster.export_metrics(registry);
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
         const auto counted = queue.counters();
         state.set("interruption_queue", Json::object({{"messages", std::int64_t(counted.messages)},
                                                       {"notices", std::int64_t(counted.notices)},
                                                       {"repeated", std::int64_t(counted.repeated)},
                                                       {"unreadable", std::int64_t(counted.unreadable)},
                                                       {"undeleted", std::int64_t(counted.undeleted)}}));
         return state;
       }});
  rpc::Server server(server_options, {api.get()});
  QM_TRY(server.start());
  QM_TRY(admin.start());  // ready once calls are served
  replica->serving_at(server.port());
  log::info("autoscaler is up", {{"grpc", server.port()}, {"http", admin.port()}, {"pools", pools.size()}});

  replica->wait_for_end();
  server.stop();
  queue.stop();
  replicas.stop();
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
