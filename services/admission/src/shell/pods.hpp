#pragma once
#include "qm/admission/engine.hpp"
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::admission {

/// Pods that are workloads of their own: one that carries our scheduling gate, or several that name a group.
///
/// The gate holds a pod back from every scheduler, and is lifted for the whole group at once when it is admitted. A pod
/// cannot be suspended: an evicted one is deleted, and what its owner makes in its place is a new workload.
inline constexpr std::string_view kGate = "quartermaster.dev/admission";
inline constexpr std::string_view kGroupLabel = "kueue.x-k8s.io/pod-group-name";
inline constexpr std::string_view kGroupCount = "kueue.x-k8s.io/pod-group-total-count";  ///< annotation
/// Annotation: the PodGroup of Volcano, whose minMember says how many make it whole.
inline constexpr std::string_view kVolcanoGroup = "scheduling.k8s.io/group-name";
inline constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";
/// Annotations on a pod whose gate was lifted: which workload it belongs to, and which of its pods it is.
inline constexpr std::string_view kWorkloadAnnotation = "quartermaster.dev/workload";
inline constexpr std::string_view kIndexAnnotation = "quartermaster.dev/index";

/// In what the watch sends of pods: since when they wait, where that is not their own age; and Volcano's PodGroup, where it is one.
inline constexpr const char* kWaitsSince = "waitsSince";
inline constexpr const char* kPodGroup = "podGroup";

[[nodiscard]] bool gated(const Json& pod);
/// The group that a pod names, as Kueue or as Volcano does; empty = it is on its own.
[[nodiscard]] std::string group_of(const Json& pod);
/// Gated by us, or let go by us.
[[nodiscard]] bool is_our_pod(const Json& pod);
[[nodiscard]] bool ended(const Json& pod);
/// How many pods make the group whole; 1 for a pod without a group, 0 where the group does not say.
[[nodiscard]] std::int64_t total_count(const Json& pod);
/// The pod set of a pod: pods of one group and one shape are one set. "main" without a group.
[[nodiscard]] Result<std::string> pod_set_of(const Json& pod);

/// What a PodGroup of Volcano's needs at least, as requests of one pod. What Volcano's controllers count beside it for ResourceQuotas
/// (`pods`, `count/pods`, `requests.cpu`, `limits.cpu`, ...) is left out. Null where it says nothing.
[[nodiscard]] Json needs_of(const Json& pod_group);

/// Whether pods wait for us, how many that were let go have not ended, and in which attempt.
void read_pods_state(const Json& pods, JobSeen& seen);

/// Pods of a workload as one object: {"kind", "metadata": {namespace, name, uid}, "pods": [...]}, the oldest pod first. What it
/// has of kWaitsSince counts in the place of the pod's age; a kPodGroup says what the pods leave open. Without pods it is a group that
/// waits with what its kPodGroup says that it needs. A field of the kPodGroup that is not supported rejects it.
[[nodiscard]] Result<JobSeen> pods_seen(const Json& group);

}  // namespace qm::admission
