#pragma once
#include "qm/admission/engine.hpp"
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::admission {

/// Pods that are workloads themselves: a single pod that carries the scheduling gate of Quartermaster, or several
/// pods that name a group.
///
/// The gate keeps a pod from every scheduler and is removed from the whole group at once when it is admitted. A pod
/// cannot be suspended: an evicted pod is deleted, and the pod that its owner creates in its place is a new
/// workload.
inline constexpr std::string_view kGate = "quartermaster.dev/admission";
inline constexpr std::string_view kGroupLabel = "kueue.x-k8s.io/pod-group-name";
inline constexpr std::string_view kGroupCount = "kueue.x-k8s.io/pod-group-total-count";  ///< annotation
/// Annotation: the Volcano PodGroup. Its minMember is the number of pods that make it complete.
inline constexpr std::string_view kVolcanoGroup = "scheduling.k8s.io/group-name";
inline constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";
/// Label of pods whose nodes admission chose, as Kueue names it: others are counted on the node where they run.
inline constexpr std::string_view kTopologyLabel = "kueue.x-k8s.io/tas";
/// Scheduling gate of such pods, until they select their nodes.
inline constexpr std::string_view kTopologyGate = "kueue.x-k8s.io/topology";
/// Annotations on an ungated pod: the workload that it belongs to, and its index in the pod set.
inline constexpr std::string_view kWorkloadAnnotation = "quartermaster.dev/workload";
inline constexpr std::string_view kIndexAnnotation = "quartermaster.dev/index";

/// Members of the JSON that the watch sends for pods: since when they are pending where that is not their own age,
/// and the Volcano PodGroup if there is one.
inline constexpr const char* kWaitsSince = "waitsSince";
inline constexpr const char* kPodGroup = "podGroup";

[[nodiscard]] bool gated(const Json& pod);
/// The group that a pod names, in the form of Kueue or of Volcano; empty for a pod without a group.
[[nodiscard]] std::string group_of(const Json& pod);
/// Whether the pod has the gate of Quartermaster or had it and was ungated.
[[nodiscard]] bool is_our_pod(const Json& pod);
[[nodiscard]] bool ended(const Json& pod);
/// The number of pods that make the group complete; 1 for a pod without a group, 0 where the group does
/// not specify it.
[[nodiscard]] std::int64_t total_count(const Json& pod);
/// The pod set of a pod: pods of one group and one shape are one set. "main" without a group.
[[nodiscard]] Result<std::string> pod_set_of(const Json& pod);

/// The minimum resources of a Volcano PodGroup, as the requests of one pod. Entries that Volcano's controllers
/// add for ResourceQuotas (`pods`, `count/pods`, `requests.cpu`, `limits.cpu`, ...) are left out. Null where
/// it specifies none.
[[nodiscard]] Json needs_of(const Json& pod_group);

/// Reads whether pods are gated, how many ungated pods have not ended, and the attempt.
void read_pods_state(const Json& pods, JobUpdated& seen);

/// Reads the pods of a workload from one object: {"kind", "metadata": {namespace, name, uid}, "pods": [...]}, the
/// oldest pod first. kWaitsSince, where present, replaces the age of the pods; kPodGroup supplies what the pods do
/// not specify. Without pods it is a pending group with the resources that its kPodGroup needs. A field of kPodGroup
/// that is not supported rejects the workload.
[[nodiscard]] Result<JobUpdated> parse_pods(const Json& group);

}  // namespace qm::admission
