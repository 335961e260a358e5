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

namespace qm::admission_policy {

/// Facts about the cluster that an operator gives the rules in a policy file (policy_file.hpp). Rules ignore what
/// is not given.

/// Capacity of one node.
struct NodeShape {
  std::int64_t gpus = 0;
  Quantity cpu, memory;
  friend bool operator==(const NodeShape&, const NodeShape&) = default;
};

/// How pods share one GPU of a node, if they do.
enum class Sharing : std::uint8_t { kNone, kTimeSlicing, kMps };

/// Nodes of one kind, which pods select by labels.
struct Pool {
  std::string name;
  Labels selector;                ///< a pod that selects all of these selects this pool
  std::string taint;              ///< key of a taint of the pool; empty = none
  std::optional<NodeShape> node;  ///< absent = from the instance type that the pod names, if any
  std::set<std::string> serves;   ///< workload types; empty = any
  Sharing sharing = Sharing::kNone;
  std::int64_t replicas = 1;         ///< pods per shared GPU
  bool one_each = false;             ///< the device plugin refuses requests for more than one share
  std::set<std::string> namespaces;  ///< owners of the pool; empty = all namespaces
  friend bool operator==(const Pool&, const Pool&) = default;
};

/// Namespaces and workload types that may use a priority class.
struct PriorityUse {
  std::string name;
  std::set<std::string> namespaces, workload_types;  ///< empty = any
  friend bool operator==(const PriorityUse&, const PriorityUse&) = default;
};

/// What the webhook adds to the pods of a gang over several nodes.
struct GangDefaults {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string topology_map;  ///< ConfigMap with the key nccl-topo.xml; empty = none is mounted
  std::string topology;      ///< the level that a gang prefers; empty = it may omit one
  friend bool operator==(const GangDefaults&, const GangDefaults&) = default;
};

/// NCCL and UCX variables for gangs on InfiniBand; the value of GangDefaults if a policy names none.
[[nodiscard]] const std::vector<std::pair<std::string, std::string>>& gang_environment();

/// Facts about the cluster beyond a pod and its namespace.
struct Facts {
  std::vector<Pool> pools;
  std::vector<PriorityUse> priorities;
  std::map<std::string, std::string> default_priority;  ///< class by workload type, set on pods
  std::set<std::string> refused_namespaces;             ///< where GPU pods are refused
  Labels namespace_labels;                              ///< required of a namespace with GPU pods; an empty value = any
  std::optional<GangDefaults> gangs;                    ///< absent = nothing is added to gangs
  std::string compliance_label = "compliance";          ///< of a namespace: whole GPUs and MIG only
  std::set<std::string> no_spot{"pci", "pci-dss"};      ///< values of that label that forbid spot capacity
  std::set<std::string> slo_labels{"latency-slo-ms", "slo"};  ///< of a pod with a latency objective
  friend bool operator==(const Facts&, const Facts&) = default;
};

/// Labels of pods that declare their purpose to the rules.
inline constexpr std::string_view kWorkloadType = "workload-type";
inline constexpr std::string_view kEnvironment = "environment";
inline constexpr std::string_view kTopologyPath = "/etc/nccl-topo.xml";
inline constexpr std::string_view kTopologyKey = "nccl-topo.xml";
/// Written by the operator of a training job; never set here.
inline constexpr std::array<std::string_view, 5> kOperatorsOwn{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                                                               "LOCAL_RANK"};

}  // namespace qm::admission_policy
