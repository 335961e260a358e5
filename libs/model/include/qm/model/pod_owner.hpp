#pragma once
#include <string_view>

namespace qm {
namespace words {
/// Annotations that admission writes on a pod when it releases the pod's scheduling gate, or on the templates of a
/// workload.
inline constexpr std::string_view kWorkload = "quartermaster.dev/workload";  ///< uid of the workload
inline constexpr std::string_view kIndex = "quartermaster.dev/index";        ///< rank in the pod set
}  // namespace words

/// The metadata of a pod about its owner. All of it is input that a user may have written. The views are
/// valid as long as their source.
struct PodOwner {
  std::string_view ns;               ///< namespace of the pod
  std::string_view uid;              ///< of the pod
  std::string_view workload;         ///< uid in the annotation quartermaster.dev/workload; empty = it has none
  std::string_view controller;       ///< uid of the owner reference with controller: true; empty = it has none
  std::string_view controller_kind;  ///< kind in that owner reference
};

/// The fields of a workload that identify its pods.
struct WorkloadIdentity {
  std::string_view uid;
  std::string_view ns;
  std::string_view kind;  ///< of the Kubernetes object: "Job", "JobSet", "PodGroup", "Pod", ...
};

enum class PodOwnership {
  kOwned,            ///< it is a pod of the workload
  kUnrelated,        ///< it does not reference the workload
  kOtherNamespace,   ///< it references the workload of another namespace
  kOtherController,  ///< it references the workload, but its controller does not create the workload's pods
};

/// Decides whether a pod is a pod of a workload. Agents and services use only this function.
///
/// Rules    The namespaces are equal. The controller is the object of the workload; or the annotation has the
///          workload's uid, and in the kind another object creates the pods: a JobSet and an MPIJob a Job, a RayJob a
///          RayCluster or a Job, a PodGroup any object.
///          A workload of kind Pod is the pod with its uid.
/// Threads  any; pure.
[[nodiscard]] PodOwnership ownership_of(const PodOwner& pod, const WorkloadIdentity& workload);

/// "OtherNamespace", for messages and metrics.
[[nodiscard]] std::string_view name_of(PodOwnership ownership);

}  // namespace qm
