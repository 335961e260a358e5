#pragma once
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// A pod on a node, as far as it decides whether the node is removed: by consolidation, or by the scale-down of its group.
struct NodePod {
  enum class Kind : std::uint8_t {
    kMoves,   ///< it runs elsewhere after its eviction
    kDaemon,  ///< of a DaemonSet: it ends with its node
    kMirror,  ///< of the node itself
  };
  std::string name;  ///< "namespace/name"
  Kind kind = Kind::kMoves;
  std::string rules;       ///< its constraints and requests: kube_rules::text_of; empty = they cannot be read
  GpuShape gpu;            ///< its GPUs, also those that annotations request
  std::string controller;  ///< kind of the owner that creates it again; empty = none
  Instant started{};
  bool stays = false;                 ///< a drain leaves it: it does not move, or it tolerates karpenter.sh/disrupted
  std::string local_volume;           ///< a volume on the node's own storage that must be kept; empty = none
  bool system = false;                ///< of the namespace kube-system
  std::string budget;                 ///< the first PodDisruptionBudget that selects it; empty = none
  std::int64_t budget_allows = 0;     ///< evictions that the budget allows now
  std::string blocked_by;             ///< the PodDisruptionBudget that allows no eviction of it now; empty = none
  std::optional<bool> safe_to_evict;  ///< its annotation
  bool terminating = false;           ///< it has a deletion timestamp
  friend auto operator<=>(const NodePod&, const NodePod&) = default;
};

/// Whether pods of such a controller serve requests: another one replaces them at once, and no work is lost with them.
[[nodiscard]] inline bool is_service(std::string_view controller) {
  return controller == "ReplicaSet" || controller == "StatefulSet" || controller == "ReplicationController";
}

/// What the API server shows of a node and its pods.
struct NodePods {
  Labels labels;
  std::vector<Taint> taints;
  std::map<std::string, std::int64_t> allocatable;  ///< CPU in milli-cores, other resources in their own units
  bool scale_down_disabled = false;                 ///< the annotation of Cluster Autoscaler
  std::vector<NodePod> pods;                        ///< bound and not ended, by name
  Instant changed{};  ///< a pod that does not stay was added or removed; set by the engine
  friend auto operator<=>(const NodePods&, const NodePods&) = default;
};

/// An input of the engine: the pods of a node.
struct NodePodsUpdated {
  NodeName node;
  bool gone = false;
  NodePods pods;
};

}  // namespace qm::autoscaler
