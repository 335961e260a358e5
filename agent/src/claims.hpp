#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::agent {

/// A pod that is bound to this node and waits for its devices of one resource.
struct Claim {
  std::string uid, pod;            ///< pod: "namespace/name"
  std::string created;             ///< RFC 3339; the kubelet takes the oldest first
  std::string scheduler;           ///< spec.schedulerName
  std::vector<std::int32_t> gpus;  ///< assigned, by index; empty = none is, or not by placement
  std::vector<std::int32_t> asks;  ///< devices of each container
  std::set<std::string> given;     ///< ids that it has already
  [[nodiscard]] std::int32_t need() const;
  /// A container of it asks for so many, and they are not given yet.
  [[nodiscard]] bool awaits(std::int32_t count) const;
};

using GpuOf = std::map<std::string, std::int32_t>;  ///< id -> index of its GPU

/// The claims without the assignments that cannot be placement's. A pod's annotation is input of its author too: an assignment counts
/// only where the pod names one of `schedulers`, where it names GPUs of the node and no more than the pod asks for, and where no other
/// such pod has the same units. Of two that name the same unit, neither counts: which one placement wrote is not known here.
/// A unit that the kubelet has given is its pod's, whatever others name.
///
/// Returns  by uid, why an assignment does not count: "OtherScheduler", "Malformed", "Conflict". These claims have no gpus any more.
[[nodiscard]] std::map<std::string, std::string> drop_unusable(std::vector<Claim>& claims, const GpuOf& gpu_of,
                                                               const std::set<std::string>& schedulers);

/// Which of the `available` ids the kubelet should take.
///
/// Order    `must`, then the assignment of the oldest claim that awaits so many and can have all of it. Where there is none:
///          what no claim is assigned, from the highest GPU down, as placement expects of pods that it did not place;
///          then the rest.
/// Returns  `size` ids, or fewer where there are not so many.
[[nodiscard]] std::vector<std::string> prefer(const std::vector<Claim>& claims, const GpuOf& gpu_of,
                                              const std::vector<std::string>& available,
                                              const std::vector<std::string>& must, std::int32_t size);

struct Judgement {
  enum class Kind {
    kHonoured,  ///< they are the assignment of `claim`, or of a container of it
    kFree,      ///< for a pod without an assignment, or one that is not known
    kDiffers,   ///< `claim` waits for so many and was assigned others
  } kind = Kind::kFree;
  const Claim* claim = nullptr;  ///< of `claims`; null where it is not known
};
/// Whose the ids are that a kubelet gives away: it does not say. Of several claims that fit, the oldest.
[[nodiscard]] Judgement judge(const std::vector<Claim>& claims, const GpuOf& gpu_of,
                              const std::vector<std::string>& ids);

}  // namespace qm::agent
