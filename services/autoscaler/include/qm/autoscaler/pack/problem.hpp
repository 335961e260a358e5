#pragma once
#include "qm/autoscaler/requirements/requirement.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler::pack {

/// The input of one packing: pending pods, and the instance types of one NodePool.
///
/// Units    CPU in milli-cores, memory in bytes, prices in currency units per hour.
/// Threads  any, as values.
/// Source   Karpenter's scheduling benchmark, and the fields of the same names in the Kubernetes API.

using Amounts = std::map<std::string, std::int64_t>;  ///< extended resources: "nvidia.com/gpu", ...

/// One condition on a node label, see holds(); without `min_values`.
using NodeRequirement = Expression;

/// All requirements must hold; a term without any matches no node.
using NodeTerm = std::vector<NodeRequirement>;

struct Offering {
  std::string zone, capacity_type;
  double price = 0;
  bool available = true;
};

struct InstanceType {
  std::string name;
  std::int64_t cpu_milli = 0, memory_bytes = 0, pods = 0;          ///< capacity
  std::int64_t overhead_cpu_milli = 0, overhead_memory_bytes = 0;  ///< not allocatable
  Amounts extended;                                                ///< allocatable
  std::vector<Offering> offerings;
  std::vector<NodeRequirement> requirements;  ///< the labels of its nodes; several values = any one of them at launch
};

/// Pods that a pod attracts or repels, within one value of a node label. Only pods of its own namespace count.
struct PodTerm {
  std::string topology_key;
  LabelSelector pods;
};

/// A topology spread constraint; only DoNotSchedule constrains.
struct Spread {
  std::string topology_key;
  std::int64_t max_skew = 1;
  LabelSelector pods;
  bool required = true;
};

struct PreferredNodes {
  std::int64_t weight = 1;
  NodeTerm term;
};

struct Pod {
  std::string uid, name_space;
  std::int64_t cpu_milli = 0, memory_bytes = 0;
  Amounts extended;
  Labels labels;
  Labels node_selector;
  std::vector<NodeTerm> required;  ///< any of them must match; empty = no constraint
  std::vector<PreferredNodes> preferred;
  std::vector<Toleration> tolerations;
  std::vector<Spread> spread;
  std::vector<PodTerm> affinity, anti_affinity;
};

struct NodePool {
  Labels labels;
  std::vector<NodeRequirement> requirements;
  std::vector<Taint> taints;
  std::optional<std::int64_t> cpu_limit_milli, memory_limit_bytes;  ///< of the capacity of all nodes
};

struct Problem {
  NodePool pool;
  std::vector<InstanceType> types;
  std::vector<Pod> pods;  ///< in creation order: zone spread is judged in this order
};

}  // namespace qm::autoscaler::pack
