#pragma once
#include "qm/autoscaler/cluster.hpp"
#include "qm/autoscaler/node_groups.hpp"
#include "qm/settings/table.hpp"

#include <string>

namespace qm::autoscaler {

/// Settings about replicas of workloads.
struct ReplicaSettings {
  std::string prometheus;             ///< URL; empty = the metrics APIs of the cluster
  bool exact_rules = true;            ///< replica-rules=exact
  std::int64_t metrics_api_port = 0;  ///< 0 = the metrics APIs are not served
  std::string metrics_api_ca;         ///< file
};

/// Settings about the consolidation of nodes in use.
struct ConsolidationSettings {
  bool on = true;
  std::int64_t least_percent = 15;           ///< of the price, that replacements save at least
  Duration horizon = std::chrono::hours(1);  ///< the saving counts for this time against lost work
};

/// Settings of the service.
struct Settings {
  ClusterSettings cluster;
  NodeGroupSettings groups;
  std::string aws;  ///< endpoint of EC2; empty = that of the region
  std::string cluster_name, cluster_endpoint;
  std::string service_cidr = "10.100.0.0/16";
  std::string interruption_queue;  ///< URL; empty = events of the cloud are not read
  Duration lifecycle_time = std::chrono::minutes(2);
  Duration checkpoint_interval = std::chrono::minutes(10);
  ReplicaSettings replicas;
  ConsolidationSettings consolidation;
};

/// The options of the engine: the same in the service and in a replay of its journal.
[[nodiscard]] Options engine_options(const Settings& settings);

/// The table of all settings.
[[nodiscard]] const settings::Table<Settings>& settings_table();

}  // namespace qm::autoscaler
