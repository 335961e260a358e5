#pragma once
#include "qm/autoscaler/expanders/expanders.hpp"
#include "qm/autoscaler/policy/capacity_policy.hpp"
#include "qm/autoscaler/tables.hpp"

#include <cstdint>
#include <vector>

namespace qm::autoscaler {

/// The durations, limits and rules of the engine. The settings of the service (settings.hpp) set some of them; the others
/// keep their defaults.
struct Options {
  Duration boot = std::chrono::minutes(4);           ///< expected from launch to ready; promises are dated by it
  Duration registration = std::chrono::minutes(15);  ///< a node that takes longer is given up
  MemoryOptions memory;                              ///< how long a refused offering is not requested
  Duration refused_hold = std::chrono::minutes(3);   ///< of an offering that cannot be launched for other reasons
  Duration launch_retry = std::chrono::minutes(1);   ///< after an unknown refusal; doubles each time, at most 8 times
  Duration roll_back_retry = std::chrono::seconds(20);  ///< a termination of a failed launch is requested again
  Duration spot_margin = std::chrono::seconds(10);      ///< orders end this long before the capacity is reclaimed
  Duration settle = std::chrono::minutes(2);            ///< time for the scheduler to use ready instances
  Duration taken = std::chrono::seconds(10);            ///< the same, where pods of others run on such an instance
  Duration extension = std::chrono::minutes(1);         ///< of a promise whose instances are late
  Duration pause = std::chrono::minutes(10);            ///< after unused instances; doubles each time
  Duration failed_memory = std::chrono::minutes(10);    ///< a failed claim remains visible for this time
  Duration gone_memory = std::chrono::hours(1);         ///< and a stopped one
  Duration missing = std::chrono::minutes(10);          ///< missing in the description for this time = gone
  Duration notice_lead = std::chrono::minutes(10);  ///< gangs save this long before a maintenance that is dated later
  Duration notice_memory = std::chrono::hours(1);   ///< of a notice for an instance that no claim has
  Duration save_time = std::chrono::minutes(1);     ///< of a checkpoint whose duration is neither declared nor observed
  Duration drain_save_time =
      std::chrono::minutes(10);  ///< to save before an expired, faulty or drifted node is emptied
  Duration checkpoint_interval = std::chrono::minutes(10);  ///< of gangs on spot capacity that declare none; 0 = never
  double rebalance_probability = 0.5;  ///< assumed: of an interruption before the next save, after a recommendation
  Duration drift_pause = std::chrono::minutes(1);  ///< of a NodePool after a failed replacement; doubles to an hour
  Duration fault_memory = std::chrono::hours(1);   ///< of a type and image whose instances did not become ready
  bool node_details = false;  ///< a claim is ready only once the details of its node show that it is initialized
  Duration group_drain = std::chrono::minutes(30);  ///< at most, of a node whose group terminates its instance
  Duration warm_boot = std::chrono::minutes(1);     ///< expected instead of `boot` for instances of a warm pool
  bool strict_min_values = true;  ///< a launch without the minValues of its NodePool: refused, or allowed and reported
  Money node_price{};             ///< per hour, added to the price of each instance where launches are compared
  std::vector<Expander> expanders;     ///< choose among the NodePools that fit; empty: the order of weights
  bool balance_similar_pools = false;  ///< of similar NodePools the one with the fewest instances is used
  bool provider = true;                ///< false: no cloud, so that nothing can be launched
  Reliability reliability = Reliability::kByPrice;  ///< decides which capacity types a workload may use
  Duration scale_down_delay{0};                     ///< after a launch no empty node is terminated for this time
  ScaleDownRules scale_down;         ///< of node groups; utilization_milli 0: empty nodes only, by their NodePool
  bool scale_in_protection = false;  ///< instances of groups with work that may not be lost are protected
  std::size_t alternatives = 0;      ///< further offerings that one request names, of which the cloud chooses; 0 = none
  std::int32_t max_launches = 200;   ///< nodes launched in one step, so also for one gang; also the maximum of replicas
  ReplicaOptions replicas;
  bool consolidation = true;  ///< of nodes in use, where their NodePool has the policy for it; needs node_details
  double consolidation_saving = 0.15;                        ///< share of the price that a replacement saves at least
  Duration consolidation_horizon = std::chrono::hours(1);    ///< the saving counts for this time against lost work
  Duration consolidation_restart = std::chrono::minutes(3);  ///< until a moved pod works again
  Duration consolidation_period = std::chrono::seconds(10);  ///< between two searches
  Duration consolidation_validation = std::chrono::seconds(15);  ///< from a plan to its execution
  Duration consolidation_pause = std::chrono::minutes(10);       ///< of a node after a consolidation was given up
  Duration consolidation_memory = std::chrono::hours(24);        ///< a replacement is not replaced again for this time

  /// Whether any part uses the pods of nodes (NodePodsUpdated).
  [[nodiscard]] bool needs_node_pods() const {
    return consolidation || scale_down.utilization_milli > 0 || scale_in_protection;
  }
};

}  // namespace qm::autoscaler
