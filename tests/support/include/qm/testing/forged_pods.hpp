#pragma once
#include "qm/base/json.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::testing {

/// The workload that forged pods name: a Job of one tenant, and the data that another tenant can learn about it.
struct ForgeryTarget {
  std::string ns, job, uid;  ///< of the Job
  std::string attempt = "1", index = "0", reservation;
  std::string node;           ///< the node of its pods
  std::string devices = "0";  ///< that placement assigned to them
};

/// One pod that a tenant creates to impersonate a pod of the target.
struct ForgedPod {
  std::string what;  ///< "annotation, other namespace"
  Json manifest;     ///< without uid and status: as it is sent to the API server
};

/// Pods of `attacker_ns` and of the target's namespace that name the target but do not belong to it: by annotations,
/// by owner references, by labels, bound and unbound. None of them may be bound to its reservation, be adopted,
/// complete a rank, be deleted with it, answer its checkpoint order, or choose devices. A webhook may refuse them
/// before that; both are correct.
///
/// Names    unique within the list; each requests one GPU.
[[nodiscard]] std::vector<ForgedPod> forged_pods(const ForgeryTarget& target, const std::string& attacker_ns);

/// Values of the annotation quartermaster.dev/checkpoint that point to other hosts than the pod. An agent calls none
/// of them.
[[nodiscard]] std::vector<std::string> forged_checkpoint_urls();

}  // namespace qm::testing
