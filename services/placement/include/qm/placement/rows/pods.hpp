#pragma once
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::placement {

/// How long a pod with unknown tolerations stays on a NotReady node: the default that the API server adds.
inline constexpr std::int64_t kDefaultTolerationSeconds = 300;

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed };

/// A pod as the API server reports it, scheduled by us or not.
struct PodFacts {
  std::string uid;
  std::string ns, name;
  WorkloadUid owner;            ///< workload that the pod names: by annotation, else its controller; see ownership.hpp
  WorkloadUid controller;       ///< uid of its controller owner reference; empty = it has none
  std::string controller_kind;  ///< kind in that owner reference
  std::int32_t attempt = 0;     ///< by annotation; 0 = none
  std::string pod_set;          ///< empty = the first set
  std::int32_t index = -1;
  NodeName node;  ///< empty = not bound
  PodPhase phase = PodPhase::kPending;
  bool deleting = false;
  bool ours = false;    ///< its schedulerName is ours
  bool daemon = false;  ///< owned by a DaemonSet, or a static pod
  PodShape shape;
  std::string rules;          ///< rules::text_of its template without requests; empty = unknown
  std::string workload_type;  ///< by label
  /// Seconds that the pod stays on a node with the NoExecute taint node.kubernetes.io/not-ready or
  /// /unreachable; -1 = without limit.
  std::int64_t not_ready_s = kDefaultTolerationSeconds, unreachable_s = kDefaultTolerationSeconds;
  [[nodiscard]] bool terminal() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
  [[nodiscard]] std::string key() const { return ns + "/" + name; }
  friend auto operator<=>(const PodFacts&, const PodFacts&) = default;
};
/// What placement wrote in the pod's bind. The annotation on the pod is not read back, since its author may
/// change it.
struct PlannedBind {
  NodeName node;                   ///< empty = no bind ordered for this row
  std::vector<std::int32_t> gpus;  ///< by index
  friend auto operator<=>(const PlannedBind&, const PlannedBind&) = default;
};
struct Pod {
  PodFacts facts;
  bool delete_sent = false;
  PlannedBind plan{};
  bool foreign = false;  ///< reported: the pod names a workload that does not own it
  /// GPUs that placement planned for the pod on its current node.
  [[nodiscard]] std::vector<std::int32_t> planned_gpus() const {
    return plan.node == facts.node ? plan.gpus : std::vector<std::int32_t>();
  }
  friend auto operator<=>(const Pod&, const Pod&) = default;
};

}  // namespace qm::placement
