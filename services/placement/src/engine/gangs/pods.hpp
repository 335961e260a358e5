#pragma once
#include "engine/state.hpp"

#include <vector>

namespace qm::placement {

/// Pods by workload, attempt and node. Annotations and owner references are input of the pod's author: a pod counts
/// for a workload only if ownership_of() confirms it.
class Pods {
 public:
  explicit Pods(const State& state) : tables_(state.tables), index_(state.index) {}

  /// Whether the pod belongs to the workload.
  [[nodiscard]] bool is_pod_of(const PodFacts& pod, const WorkloadUid& uid) const;
  [[nodiscard]] std::vector<const Pod*> pods_of(const WorkloadUid& uid) const;
  [[nodiscard]] std::vector<const Pod*> pods_of(const AttemptId& id) const;
  /// Attempts with an assignment, in order.
  [[nodiscard]] std::vector<AttemptId> attempts_of(const WorkloadUid& uid) const;
  /// Pods on the node that are not members of an attempt with devices.
  [[nodiscard]] std::vector<const Pod*> non_member_pods(const NodeName& name) const;

 private:
  const Tables& tables_;
  const Index& index_;
};

}  // namespace qm::placement
