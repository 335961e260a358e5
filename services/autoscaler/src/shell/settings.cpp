#include "qm/autoscaler/settings.hpp"

namespace qm::autoscaler {
namespace {

settings::Kind<Money> usd_per_hour() {
  const auto read = [](const std::string& text) -> std::optional<Money> {
    const auto money = Money::parse_usd(text);
    return money && *money >= Money() ? std::optional(*money) : std::nullopt;
  };
  const auto write = [](const Money& money) { return money.to_usd(2); };
  return {{.type = settings::Type::kText,
           .allowed = "US dollars an hour, such as 0.05",
           .pattern = R"(^[0-9]+(\.[0-9]{1,9})?$)"},
          read,
          write};
}

settings::Kind<kube_objects::DefaultSpread> default_spread() {
  const auto read = [](const std::string& text) -> std::optional<kube_objects::DefaultSpread> {
    const auto spread = kube_objects::default_spread_of(text);
    return spread ? std::optional(*spread) : std::nullopt;
  };
  const auto write = [](const kube_objects::DefaultSpread& spread) { return kube_objects::text_of(spread); };
  return {{.type = settings::Type::kText,
           .allowed = "system, none, or KEY:MAXSKEW:DoNotSchedule and KEY:MAXSKEW:ScheduleAnyway after commas"},
          read,
          write};
}

/// `what`: whose URL, for the error.
settings::Kind<std::string> url(const std::string& what) {
  return settings::text(what + ", with http:// or https://", R"(^https?://[^/\s]+\S*$)", [](const std::string& value) {
    const auto scheme = value.find("://");
    const bool known = value.starts_with("http://") || value.starts_with("https://");
    return known && value.size() > scheme + 3 && value[scheme + 3] != '/' && value.find_first_of(" \t\n") == value.npos;
  });
}

}  // namespace

// Where Karpenter launches instances, it consolidates nodes too.
bool consolidates(const Settings& settings) {
  return settings.consolidation.on && settings.cluster.driver == Driver::kEc2;
}

Options engine_options(const Settings& settings) {
  Options out;
  out.node_details = true;  // NodeWatch publishes them
  out.strict_min_values = settings.cluster.strict_min_values;
  out.node_price = settings.cluster.node_price;
  apply(settings.groups, out);
  out.checkpoint_interval = settings.checkpoint_interval;
  out.replicas.exact_rules = settings.replicas.exact_rules;
  out.provider = settings.cluster.driver != Driver::kNone;
  constexpr std::size_t kAlternatives = 19;  // EC2 suggests at least ten types for a spot request
  if (settings.cluster.driver == Driver::kEc2) out.alternatives = kAlternatives;
  // kube-scheduler tries a pod again within its longest back-off of 10 s.
  if (settings.cluster.alone) out.settle = out.taken = std::chrono::seconds(30);
  out.consolidation = consolidates(settings);
  out.consolidation_saving = static_cast<double>(settings.consolidation.least_percent) / 100;
  out.consolidation_horizon = settings.consolidation.horizon;
  return out;
}

const settings::Table<Settings>& settings_table() {
  using namespace settings;
  constexpr auto cluster = &Settings::cluster;
  constexpr auto replicas = &Settings::replicas;
  constexpr auto consolidation = &Settings::consolidation;
  static const auto table =
      settings::Table<Settings>{
          {"driver",
           choice<Driver>({{"ec2", Driver::kEc2}, {"karpenter", Driver::kKarpenter}, {"none", Driver::kNone}},
                          "ec2, karpenter where Karpenter launches NodeClaims, or none in an on-premises cluster"),
           at(cluster, &ClusterSettings::driver), "Controller that launches instances."},
          {"aws", url("the URL of an endpoint"), at(&Settings::aws),
           "Endpoint of all AWS services but STS instead of those that the environment names."},
          {"cluster-name", text("the name of the cluster, as in EKS"), at(&Settings::cluster_name),
           "Cluster that launched nodes join: in their user data, and in the tags of instances."},
          {"cluster-endpoint", url("the URL of the API server, as nodes reach it"), at(&Settings::cluster_endpoint),
           "API server that launched nodes join."},
          {"service-cidr", text("the addresses of Services, such as 10.100.0.0/16"), at(&Settings::service_cidr),
           "Addresses of Services, for nodes of the family AL2023."},
          {"observe", choice<bool>({{"bus", false}, {"cluster", true}}, "bus, or cluster where no qm-placement runs"),
           at(cluster, &ClusterSettings::alone), "Source of nodes and pods."},
          {"min-values",
           choice<bool>({{"strict", true}, {"best-effort", false}}, "strict, or best-effort to launch without"),
           at(cluster, &ClusterSettings::strict_min_values),
           "Launches for which the instance types that fit have fewer values than minValues of the NodePool."},
          {"node-price", usd_per_hour(), at(cluster, &ClusterSettings::node_price),
           "Price that is added for each instance where launches are compared, for DaemonSets, addresses and launch calls."},
          {"scaling", text("auto, quartermaster, karpenter, none, or the name of another controller"),
           at(cluster, &ClusterSettings::scaling),
           "Owner of scaling in a namespace that names none; none only explains what would be launched."},
          {"interruption-queue", url("the URL of an SQS queue"), at(&Settings::interruption_queue),
           "Queue with events of EC2, Health and Auto Scaling, by rules of EventBridge."},
          {"lifecycle-time", duration(std::chrono::seconds(20)), at(&Settings::lifecycle_time),
           "Time from a lifecycle action of an Auto Scaling group to the end of its instance; at most the hook's heartbeat."},
          {"checkpoint-interval", duration(Duration{0}), at(&Settings::checkpoint_interval),
           "Time between two checkpoints of a gang on spot capacity that declares none; 0 = none is ordered."},
          {"default-spread", default_spread(), at(cluster, &ClusterSettings::default_spread),
           "Topology spread of kube-scheduler for pods of Services and controllers without constraints (observe=cluster)."},
          {"prometheus", url("the URL of a Prometheus"), at(replicas, &ReplicaSettings::prometheus),
           "Source of the Pods, Object and External metrics of HorizontalPodAutoscalers, instead of the metrics APIs."},
          {"replica-rules", choice<bool>({{"exact", true}, {"compatible", false}}, "exact, or compatible with KEDA"),
           at(replicas, &ReplicaSettings::exact_rules),
           "Workloads that Quartermaster scales: replicas of cron triggers exactly and a sync at each shorter pollingInterval, or as KEDA."},
          {"metrics-api-port", integer(0, 65535, "as port"), at(replicas, &ReplicaSettings::metrics_api_port),
           "Port on which custom and external metrics are served with the certificate of the process; 0: none."},
          {"metrics-api-ca", path(), at(replicas, &ReplicaSettings::metrics_api_ca),
           "Authority of the callers of metrics-api-port, as the API server presents itself; empty: any caller."},
          {"consolidation", choice<bool>({{"on", true}, {"off", false}}, "on, or off to disrupt empty nodes only"),
           at(consolidation, &ConsolidationSettings::on),
           "Consolidation of nodes in use, of NodePools whose consolidationPolicy is WhenEmptyOrUnderutilized."},
          {"consolidation-saving", integer(0, 90, "percent"), at(consolidation, &ConsolidationSettings::least_percent),
           "Part of the price of the removed nodes that replacements save at least."},
          {"consolidation-horizon", duration(std::chrono::minutes(1)),
           at(consolidation, &ConsolidationSettings::horizon),
           "Time for which a saving counts against lost work and restarts."}}
          .with(node_group_settings(), &Settings::groups);
  return table;
}

}  // namespace qm::autoscaler
