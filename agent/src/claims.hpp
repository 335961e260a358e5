#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::agent {

/// A pod that is bound to this node and whose containers still wait for devices of one resource.
struct Claim {
  std::string uid, pod;            ///< pod: "namespace/name"
  std::string created;             ///< RFC 3339; the kubelet starts the oldest pod first
  std::string scheduler;           ///< spec.schedulerName
  std::vector<std::int32_t> gpus;  ///< assigned by placement, by index; empty = no assignment
  std::vector<std::int32_t> asks;  ///< devices that each container requests
  std::set<std::string> given;     ///< ids that the kubelet already allocated to it
  [[nodiscard]] std::int32_t need() const;
  /// True if a container requests `count` devices that are not allocated yet.
  [[nodiscard]] bool awaits(std::int32_t count) const;
};

using GpuOf = std::map<std::string, std::int32_t>;  ///< id -> index of its GPU

/// Drops assignments that placement cannot have written. The author of a pod can write the annotation too. An
/// assignment is accepted only if the pod names one of `schedulers`, if its GPUs exist on the node and are no more
/// than the pod requests, and if no other such pod names the same units. If two pods name the same unit, both
/// assignments are dropped, because the agent cannot know which one placement wrote. A unit that the kubelet
/// allocated belongs to its pod in any case.
///
/// Returns  by uid, why an assignment was dropped: "OtherScheduler", "Malformed", "Conflict". These claims have no
///          gpus then.
[[nodiscard]] std::map<std::string, std::string> drop_unusable(std::vector<Claim>& claims, const GpuOf& gpu_of,
                                                               const std::set<std::string>& schedulers);

/// Chooses the `available` ids that the kubelet should allocate.
///
/// Order    `must`, then the assignment of the oldest claim that waits for `size` devices and can receive all of it.
///          If no claim matches: units that are assigned to no claim, from the highest GPU down, as placement expects
///          of pods that it did not place; then the others.
/// Returns  `size` ids, or fewer if fewer are available.
[[nodiscard]] std::vector<std::string> prefer(const std::vector<Claim>& claims, const GpuOf& gpu_of,
                                              const std::vector<std::string>& available,
                                              const std::vector<std::string>& must, std::int32_t size);

struct Judgement {
  enum class Kind {
    kHonored,  ///< the ids are the assignment of `claim`, or of a container of it
    kFree,     ///< for a pod without an assignment, or an unknown pod
    kDiffers,  ///< `claim` waits for as many devices and was assigned others
  } kind = Kind::kFree;
  const Claim* claim = nullptr;  ///< element of `claims`; null if it is not known
};
/// Finds the claim that the kubelet allocates `ids` to, because the request does not name it. If several match, the
/// oldest.
[[nodiscard]] Judgement judge(const std::vector<Claim>& claims, const GpuOf& gpu_of,
                              const std::vector<std::string>& ids);

}  // namespace qm::agent
