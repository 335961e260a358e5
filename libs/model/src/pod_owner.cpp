#include "qm/model/pod_owner.hpp"

#include <algorithm>
#include <array>

namespace qm {
namespace {

/// Kinds whose pods have another object as controller, and the kinds of these objects.
struct Makers {
  std::string_view kind;
  std::array<std::string_view, 2> made_by;
};
constexpr std::array<Makers, 3> kMakers{
    {{"JobSet", {"Job", "Job"}}, {"MPIJob", {"Job", "Job"}}, {"RayJob", {"RayCluster", "Job"}}}};

/// Whether the controller of a pod may be an object other than the workload's own.
bool may_control(std::string_view workload_kind, std::string_view controller_kind) {
  // Pods of a group have any controller, or none: the annotation was set when their scheduling gate was released.
  if (workload_kind == "PodGroup") return true;
  const auto* makers = std::ranges::find(kMakers, workload_kind, &Makers::kind);
  return makers != kMakers.end() && std::ranges::find(makers->made_by, controller_kind) != makers->made_by.end();
}

}  // namespace

PodOwnership ownership_of(const PodOwner& pod, const WorkloadIdentity& workload) {
  if (workload.uid.empty()) return PodOwnership::kUnrelated;
  const std::string_view uid = workload.uid;
  const bool named = pod.workload == uid, controlled = pod.controller == uid;
  const bool itself = workload.kind == "Pod" && pod.uid == uid;
  if (!named && !controlled && !itself) return PodOwnership::kUnrelated;
  if (pod.ns != workload.ns) return PodOwnership::kOtherNamespace;
  if (controlled || itself || may_control(workload.kind, pod.controller_kind)) return PodOwnership::kOwned;
  return PodOwnership::kOtherController;
}

std::string_view name_of(PodOwnership ownership) {
  switch (ownership) {
    case PodOwnership::kOwned:
      return "Owned";
    case PodOwnership::kUnrelated:
      return "Unrelated";
    case PodOwnership::kOtherNamespace:
      return "OtherNamespace";
    case PodOwnership::kOtherController:
      return "OtherController";
  }
  return "";
}

}  // namespace qm
