// Settings with the names and the meaning of Cluster Autoscaler's flags.
#include "qm/autoscaler/node_groups.hpp"
#include "qm/node_groups/flags.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr Duration kEvictionTime = std::chrono::minutes(2);  // in which evictions of a drain are retried

bool is_chain(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ",") + name;
  return node_groups::expanders_of(text).has_value();
}

settings::Kind<std::int64_t> share() {
  const auto write = [](std::int64_t milli) { return node_groups::share_text(milli); };
  return {{.type = settings::Type::kText,
           .allowed = "a number of 0 to 1, such as 0.5",
           .pattern = R"(^(0|1|[01]?\.[0-9]+)$)"},
          [](const std::string& text) { return node_groups::share_of(text); },
          write};
}

/// Whole seconds, without a unit in the text.
settings::Kind<Duration> whole_seconds() {
  const auto number = settings::integer(0, 86'400, "s");
  const auto read = [number](const std::string& text) -> std::optional<Duration> {
    const auto value = number.read(text);
    return value ? std::optional<Duration>(std::chrono::seconds(*value)) : std::nullopt;
  };
  const auto write = [](Duration value) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(value).count());
  };
  return {number.form, read, write};
}

}  // namespace

const settings::Table<NodeGroupSettings>& node_group_settings() {
  using namespace settings;
  using Wins = node_groups::PriorityOrder;
  constexpr auto down = &NodeGroupSettings::scale_down;
  static const settings::Table<NodeGroupSettings> table{
      {"expander",
       list("weight, or a chain of priority, price, least-waste, most-pods, least-nodes and random", "weight",
            is_chain),
       at(&NodeGroupSettings::expanders),
       "Choice among NodePools that fit a gang; weight is the order of spec.weight."},
      {"expander-priorities",
       text("NAMESPACE/NAME of a ConfigMap", {}, [](const auto& value) { return split(value, '/').size() == 2; }),
       at(&NodeGroupSettings::priorities),
       "ConfigMap with the priorities of the expander priority; edits take effect."},
      {"expander-priority-order",
       choice<Wins>({{"highest-wins", Wins::kHighestWins}, {"lowest-wins", Wins::kLowestWins}}),
       at(&NodeGroupSettings::priority_order),
       "Which number of the ConfigMap is preferred; in Cluster Autoscaler the highest wins."},
      {"balance-similar-node-groups", boolean(), at(&NodeGroupSettings::balance_similar),
       "Of NodePools with the same nodes, the one with the fewest instances is scaled up."},
      {"scale-down-delay-after-add", duration(Duration::zero(), std::chrono::hours(1)),
       at(&NodeGroupSettings::delay_after_add), "Time after a launch in which no empty node is terminated."},
      {"scale-down-unready-time", duration(Duration::zero()), at(&NodeGroupSettings::unready),
       "Time until an empty node that is not ready is terminated; 0s is the consolidateAfter of its NodePool."},
      {"skip-nodes-with-system-pods", boolean(), at(&NodeGroupSettings::skip_system_pods),
       "Nodes with pods of kube-system, other than those of DaemonSets, stay; false evicts these pods (observe=cluster)."},
      {"node-group-auto-discovery",
       text("asg:tag=KEY[=VALUE], and further tags after commas", {},
            [](const auto& value) { return node_groups::discovery_flag(value).has_value(); }),
       at(&NodeGroupSettings::discovery),
       "Auto Scaling groups with all of these tags are NodePools by their tags, unless a NodePool names them."},
      {"reliability",
       choice<Reliability>({{"by-price", Reliability::kByPrice},
                            {"on-demand", Reliability::kOnDemand},
                            {"spot-first", Reliability::kSpotFirst}}),
       at(&NodeGroupSettings::reliability),
       "Capacity types by workload type; on-demand or spot-first is that of inference, and by-price applies no policy."},
      {"scale-down-utilization-threshold", share(), at(down, &ScaleDownRules::utilization_milli),
       "Nodes of Auto Scaling groups with a smaller share of requested CPU and memory are removed if their pods fit others; 0: off."},
      {"scale-down-gpu-utilization-threshold", share(), at(down, &ScaleDownRules::gpu_utilization_milli),
       "The same of nodes with GPUs, where only the GPUs count."},
      {"scale-down-delay-after-delete", duration(Duration::zero(), std::chrono::hours(24)),
       at(down, &ScaleDownRules::delay_after_delete),
       "Time after a removal in which no other node of a group is removed."},
      {"scale-down-delay-after-failure", duration(Duration::zero(), std::chrono::hours(24)),
       at(down, &ScaleDownRules::delay_after_failure), "The same after a drain that was given up."},
      {"skip-nodes-with-local-storage", boolean(), at(down, &ScaleDownRules::skip_local_storage),
       "Nodes with pods on emptyDir or hostPath stay, unless the annotation safe-to-evict-local-volumes names the volumes."},
      {"skip-nodes-with-custom-controller-pods", boolean(), at(down, &ScaleDownRules::skip_custom_controllers),
       "Nodes with pods of other controllers than ReplicaSets, StatefulSets and Jobs stay."},
      {"ignore-daemonsets-utilization", boolean(), at(down, &ScaleDownRules::ignore_daemon_sets),
       "Requests of DaemonSets are neither utilization nor a part of the node."},
      {"max-empty-bulk-delete", integer(0, 1000, "nodes"), at(down, &ScaleDownRules::max_empty),
       "Empty nodes of groups that are removed at once."},
      {"max-drain-parallelism", integer(0, 1000, "nodes"), at(down, &ScaleDownRules::max_drains),
       "Nodes of groups with pods that are drained at once."},
      {"max-graceful-termination-sec", whole_seconds(), at(&NodeGroupSettings::most_grace),
       "Longest grace period of a pod that leaves a node which is scaled down; a drain is given up 2 minutes later."},
      {"scale-in-protection", boolean(), at(&NodeGroupSettings::scale_in_protection),
       "Instances with a gang, or with a pod that may not be evicted, are protected from their Auto Scaling group."}};
  return table;
}

std::vector<std::map<std::string, std::string>> discovery_of(const NodeGroupSettings& settings) {
  const auto tags = node_groups::discovery_flag(settings.discovery);
  if (!tags) return {};
  return {*tags};
}

void apply(const NodeGroupSettings& settings, Options& options) {
  for (const auto& name : settings.expanders) options.expanders.push_back(*expander_of(name));
  options.balance_similar_pools = settings.balance_similar;
  options.reliability = settings.reliability;
  options.scale_down_delay = settings.delay_after_add;
  options.scale_down = settings.scale_down;
  options.scale_down.skip_system_pods = settings.skip_system_pods;
  options.scale_down.max_drain = settings.most_grace + kEvictionTime;
  options.scale_in_protection = settings.scale_in_protection;
}

}  // namespace qm::autoscaler
