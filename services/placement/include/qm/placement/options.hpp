#pragma once
#include "qm/placement/mig_repartition.hpp"
#include "qm/placement/policy.hpp"
#include "qm/placement/proposals.hpp"
#include "qm/placement/relayout.hpp"
#include "qm/placement/topology_placement.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::placement {

/// Settings of the engine; they do not change while it runs.
struct Options {
  Duration hold = std::chrono::minutes(5);  ///< time for the pods of a reservation to be created
  /// A member without a running pod is lost after its node has not been ready for this time.
  Duration node_timeout = std::chrono::seconds(60);
  Duration keep_ended = std::chrono::minutes(10);     ///< an ended assignment stays readable for this time
  Duration health_grace = std::chrono::seconds(120);  ///< eviction deadline for a faulty device
  /// Pause before capacity that the first pending workloads did not use is offered to the next ones.
  Duration requeue_pause = std::chrono::milliseconds(250);
  /// A new node is kept for the pods that it was launched for, until they are placed. The longest time after it is
  /// initialized; 0 = never.
  Duration launch_hold = std::chrono::minutes(2);
  Duration returning{};                  ///< a gang that lost a node keeps its other nodes for this time; 0 = never
  std::string policy = "quartermaster";  ///< node scoring: one of pack::policy_names()
  TopologyLevels topology{std::string(words::kZone), "cloud.provider.com/topology-block",
                          "cloud.provider.com/topology-rack"};  ///< node labels, the widest level first
  std::vector<relayout::Weekly> layout_windows;  ///< when pods may be evicted for a MIG layout; none = only idle GPUs
  relayout::Limits layout_limits;
  PreemptionOptions preemption;
  DefragOptions defrag;
  MigRepartitionOptions mig_repartition;
  /// Workload types (label workload-type) that do not share nodes with one another: up to 32.
  std::vector<std::string> apart{"training", "inference"};
  std::map<std::string, GpuPool> pools{{"training", GpuPool::kWhole},
                                       {"inference", GpuPool::kSlices}};  ///< by workload type
};

}  // namespace qm::placement
