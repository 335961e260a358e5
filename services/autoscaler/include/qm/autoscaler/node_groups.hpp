#pragma once
#include "qm/autoscaler/shell.hpp"
#include "qm/kube/events.hpp"
#include "qm/node_groups/priorities.hpp"
#include "qm/settings/table.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The settings that Cluster Autoscaler has as flags of the same names.
struct NodeGroupSettings {
  std::vector<std::string> expanders;  ///< empty: the NodePools in the order of their weights
  node_groups::PriorityOrder priority_order = node_groups::PriorityOrder::kHighestWins;
  std::string priorities = "kube-system/cluster-autoscaler-priority-expander";  ///< the ConfigMap
  bool balance_similar = false;
  Duration delay_after_add{0};
  Duration unready{0};  ///< 0 = as an empty node that is ready
  bool skip_system_pods = true;
  ScaleDownRules scale_down;
  Duration most_grace = std::chrono::minutes(10);  ///< of pods that are evicted because their node is scaled down
  bool scale_in_protection = false;
  std::string discovery;  ///< "asg:tag=KEY[=VALUE],..."; empty = only groups that NodePools name
  Reliability reliability = Reliability::kByPrice;

  [[nodiscard]] SystemPods system_pods() const {
    return skip_system_pods ? SystemPods::kKeepNodes : SystemPods::kEvicted;
  }
  [[nodiscard]] bool by_priority() const { return std::ranges::find(expanders, "priority") != expanders.end(); }
};
[[nodiscard]] const settings::Table<NodeGroupSettings>& node_group_settings();
/// The tags of the setting; none without it.
[[nodiscard]] std::vector<std::map<std::string, std::string>> discovery_of(const NodeGroupSettings& settings);
/// Sets the options of the engine.
void apply(const NodeGroupSettings& settings, Options& options);

/// Watches the ConfigMap of the priority expander. Each change takes effect with the next list of pools.
///
/// Fails    a document that cannot be read gets an Event `NotAccepted`, and the previous one remains in effect. What may
///          be misread in it is logged.
/// Threads  start and stop by one; the rest any.
class PriorityWatch {
 public:
  PriorityWatch(kube::Client& client, const NodeGroupSettings& settings);
  void start() { informer_.start(); }
  void stop() { informer_.stop(); }
  [[nodiscard]] bool synced() const { return informer_.synced(); }
  /// Sets the priority of each pool by the name of its Auto Scaling group, or by its own: the higher is preferred.
  void rank(std::vector<Pool>& pools) const;
  /// Applies the ConfigMap as it is now; called by the watch.
  void take(const Json& object, bool deleted);

 private:
  const node_groups::PriorityOrder order_;
  kube::EventRecorder events_;
  mutable std::mutex mutex_;
  node_groups::Priorities priorities_;
  kube::Informer informer_;
};

}  // namespace qm::autoscaler
