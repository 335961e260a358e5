#pragma once
#include "qm/model/quantity.hpp"
#include "qm/model/resources.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::admission::webhook {

/// What an operator tells the rules about the cluster, by a policy file (policy_file.hpp). What is not told is not held
/// against anybody.

/// What one node has to give.
struct NodeShape {
  std::int64_t gpus = 0;
  Quantity cpu, memory;
  friend bool operator==(const NodeShape&, const NodeShape&) = default;
};

/// How pods share one GPU of a node, where they do.
enum class Sharing : std::uint8_t { kNone, kTimeSlicing, kMps };

/// Nodes of one kind, which a pod chooses by their labels.
struct Pool {
  std::string name;
  Labels selector;                ///< a pod that asks for all of them chooses this pool
  std::string taint;              ///< key of a taint of its own; empty = none
  std::optional<NodeShape> node;  ///< absent = by the instance type that the pod names, if it does
  std::set<std::string> serves;   ///< workload types; empty = any
  Sharing sharing = Sharing::kNone;
  std::int64_t replicas = 1;         ///< pods for each GPU where it is shared
  bool one_each = false;             ///< the device plugin fails requests for more than one share
  std::set<std::string> namespaces;  ///< whose it is; empty = everybody's
  friend bool operator==(const Pool&, const Pool&) = default;
};

/// Who may use a priority class.
struct PriorityUse {
  std::string name;
  std::set<std::string> namespaces, workload_types;  ///< empty = any
  friend bool operator==(const PriorityUse&, const PriorityUse&) = default;
};

/// What pods of a gang over several nodes are given.
struct GangDefaults {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string topology_map;  ///< ConfigMap with the key nccl-topo.xml; empty = none is mounted
  std::string topology;      ///< the level that a gang prefers; empty = it need not say any
  friend bool operator==(const GangDefaults&, const GangDefaults&) = default;
};

/// NCCL's and UCX's variables of gangs on InfiniBand; what GangDefaults has where a policy names none of its own.
[[nodiscard]] const std::vector<std::pair<std::string, std::string>>& gang_environment();

/// What the rules know of the cluster beyond a pod and its namespace.
struct Facts {
  std::vector<Pool> pools;
  std::vector<PriorityUse> priorities;
  std::map<std::string, std::string> default_priority;  ///< class by workload type, which a pod is given
  std::set<std::string> refused_namespaces;             ///< where no GPU pod belongs
  Labels namespace_labels;                              ///< that a namespace with GPU pods bears; an empty value = any
  std::optional<GangDefaults> gangs;                    ///< absent = gangs are given nothing
  std::string compliance_label = "compliance";          ///< of a namespace: whole GPUs and MIG only
  std::set<std::string> no_spot{"pci", "pci-dss"};      ///< values of it that rule out spot capacity
  std::set<std::string> slo_labels{"latency-slo-ms", "slo"};  ///< of a pod that promises a latency
  friend bool operator==(const Facts&, const Facts&) = default;
};

/// Labels of pods by which the rules tell what they are for.
inline constexpr std::string_view kWorkloadType = "workload-type";
inline constexpr std::string_view kEnvironment = "environment";
inline constexpr std::string_view kTopologyPath = "/etc/nccl-topo.xml";
inline constexpr std::string_view kTopologyKey = "nccl-topo.xml";
/// What the operator of a training job writes itself: never written here.
inline constexpr std::array<std::string_view, 5> kOperatorsOwn{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                                                               "LOCAL_RANK"};

}  // namespace qm::admission::webhook
