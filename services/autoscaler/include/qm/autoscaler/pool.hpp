#pragma once
#include "qm/autoscaler/budgets/budgets.hpp"
#include "qm/autoscaler/headroom/history.hpp"
#include "qm/autoscaler/nodes/node_details.hpp"
#include "qm/autoscaler/requirements/requirement.hpp"
#include "qm/autoscaler/scale_down/rows.hpp"
#include "qm/model/money.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

enum class Market { kOnDemand, kSpot };
[[nodiscard]] constexpr std::string_view name_of(Market m) { return m == Market::kSpot ? "spot" : "on-demand"; }

/// A Karpenter NodePool in the engine's form: what may be launched, the limits, and when it is terminated.
struct Pool {
  std::string name;
  std::int32_t weight = 0;                  ///< higher is tried first
  std::vector<std::string> instance_types;  ///< allowed, sorted; from the requirements, known types only
  std::vector<Market> markets;              ///< allowed
  std::vector<std::string> zones;           ///< allowed; empty = any
  std::vector<std::string> not_zones;       ///< excluded zones, used if `zones` is empty; sorted
  Labels labels;
  std::vector<Taint> taints;
  std::int64_t limit_gpus = -1;  ///< of all its nodes together; -1 = no limit
  std::int64_t limit_cpu_milli = -1;
  std::int64_t limit_memory_bytes = -1;
  bool consolidate_empty = true;
  bool consolidate_underutilized = false;  ///< nodes in use are consolidated too
  Duration consolidate_after{0};           ///< an empty node is terminated after this time
  std::string group;               ///< the Auto Scaling group that launches its instances; empty = the autoscaler does
  std::string node_class;          ///< the EC2NodeClass of its NodeClaims
  std::vector<Requirement> rules;  ///< on the user's own labels, by key
  std::int64_t limit_nodes = -1;   ///< -1 = no limit
  std::int64_t replicas = -1;      ///< static: number of instances, independent of demand; -1 = by demand
  std::map<std::string, std::int64_t> other_limits;    ///< of further resources, in their own units
  std::map<std::string, std::int32_t> min_values;      ///< by label: values that the types of one launch must have
  std::vector<Budget> budgets;                         ///< of voluntary disruptions
  std::optional<std::int64_t> expander_priority;       ///< of its group; nullopt: no expression matches its name
  std::map<std::string, std::int64_t> node_resources;  ///< of each node, in addition to those of its type
  std::optional<Duration> unready_after;  ///< an empty node that is not ready is terminated after this time
  bool manual = false;  ///< an operator sets the size of its group: nothing is launched from it, and nothing terminated
  std::string not_ready;  ///< why nothing is launched from it, with field and key; empty = it is ready
  PoolLifecycle lifecycle;
  GroupScaleDown scale_down;            ///< by the tags of its group
  bool reserved = false;                ///< capacity reservations that its class selects may be used
  std::optional<HeadroomSlo> headroom;  ///< free nodes are kept for it
  [[nodiscard]] bool is_static() const { return replicas >= 0; }
  friend auto operator<=>(const Pool&, const Pool&) = default;
};

/// One row of the catalog: the capacity of an instance of this type for pods, and its on-demand price.
struct InstanceType {
  std::string name;
  std::int64_t gpus = 0;
  std::string gpu_product;                       ///< the value of nvidia.com/gpu.product on its node
  std::int64_t cpu_milli = 0, memory_bytes = 0;  ///< allocatable, without the kubelet's reservation
  HourlyRate on_demand;
  std::int64_t pods = 110;                                         ///< allocatable
  std::map<std::string, std::int64_t> extended{};                  ///< other resources, in their own units
  std::int64_t reserved_cpu_milli = 0, reserved_memory_bytes = 0;  ///< capacity beyond the allocatable
  Requirements labels{};                                           ///< of its node, by its type alone
  /// Whether an instance of this type has at least the amounts of the other, and the same model of GPU.
  [[nodiscard]] bool covers(const InstanceType& other) const;
  friend auto operator<=>(const InstanceType&, const InstanceType&) = default;
};

}  // namespace qm::autoscaler
