#pragma once
#include "qm/base/time.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qm::autoscaler {

/// The annotation that keeps a node, or the node of a pod, from voluntary disruption.
inline constexpr std::string_view kDoNotDisrupt = "karpenter.sh/do-not-disrupt";

/// A pod that may keep its node from voluntary disruption: it has the annotation, or PodDisruptionBudgets select it.
/// Pods of DaemonSets and mirror pods count too.
struct HoldingPod {
  std::string name;                        ///< "namespace/name"
  std::optional<Duration> do_not_disrupt;  ///< of the annotation, since `started`; max = "true", for ever
  Instant started{};                       ///< status.startTime
  std::string blocked_by;                  ///< PodDisruptionBudget that allows no eviction of it now; empty = none
  friend auto operator<=>(const HoldingPod&, const HoldingPod&) = default;
};

/// Why a node may not be disrupted voluntarily.
struct Hold {
  std::string why;               ///< the pod and the rule, for a message
  std::optional<Instant> until;  ///< when it ends by itself; none = it does not
  friend auto operator<=>(const Hold&, const Hold&) = default;
};

/// Of the holds of the pods' annotations the one that ends last; one without an end is last. none = no annotation holds,
/// or its time is over.
[[nodiscard]] std::optional<Hold> annotation_hold(std::span<const HoldingPod> pods, Instant now);

/// The same of annotations and PodDisruptionBudgets. none = no pod holds its node.
///
/// Source   pkg/utils/pod and pkg/utils/pdb of Karpenter 1.14.
[[nodiscard]] std::optional<Hold> hold_of(std::span<const HoldingPod> pods, Instant now);

}  // namespace qm::autoscaler
