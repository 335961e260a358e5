// Settings with the names and the meaning of Cluster Autoscaler's flags.
#include "qm/autoscaler/node_groups.hpp"
#include "qm/node_groups/flags.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

bool is_chain(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ",") + name;
  return node_groups::expanders_of(text).has_value();
}

}  // namespace

const settings::Table<NodeGroupSettings>& node_group_settings() {
  using namespace settings;
  using Wins = node_groups::PriorityOrder;
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
       "Capacity types by workload type; on-demand or spot-first is that of inference, and by-price applies no policy."}};
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
}

}  // namespace qm::autoscaler
