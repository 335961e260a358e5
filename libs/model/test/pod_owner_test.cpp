#include "qm/model/pod_owner.hpp"

#include <gtest/gtest.h>

namespace qm::pod_owner_test {
namespace {

struct Case {
  const char* what;
  PodOwner pod;
  const char* kind;
  PodOwnership expected;
};

// The workload is "w" in the namespace "a".
TEST(PodOwner, TheTableOfClaims) {
  using enum PodOwnership;
  const Case cases[] = {
      {"controlled by the Job", {"a", "p", "", "w", "Job"}, "Job", kOwned},
      {"an annotation that names its own Job", {"a", "p", "w", "w", "Job"}, "Job", kOwned},
      {"an annotation does not take it from its Job", {"a", "p", "other", "w", "Job"}, "Job", kOwned},
      {"another namespace, by owner reference", {"b", "p", "", "w", "Job"}, "Job", kOtherNamespace},
      {"another namespace, by annotation", {"b", "p", "w", "", ""}, "Job", kOtherNamespace},
      {"another namespace, of a group", {"b", "p", "w", "", ""}, "PodGroup", kOtherNamespace},
      {"an annotation alone does not make a pod of a Job", {"a", "p", "w", "", ""}, "Job", kOtherController},
      {"controlled by another Job", {"a", "p", "w", "v", "Job"}, "Job", kOtherController},
      {"controlled by a ReplicaSet", {"a", "p", "w", "v", "ReplicaSet"}, "PyTorchJob", kOtherController},
      {"a replica of a PyTorchJob", {"a", "p", "w", "w", "PyTorchJob"}, "PyTorchJob", kOwned},
      {"a pod of a Job of a JobSet", {"a", "p", "w", "v", "Job"}, "JobSet", kOwned},
      {"no JobSet makes pods without a Job", {"a", "p", "w", "", ""}, "JobSet", kOtherController},
      {"no JobSet makes a ReplicaSet", {"a", "p", "w", "v", "ReplicaSet"}, "JobSet", kOtherController},
      {"the launcher of an MPIJob", {"a", "p", "w", "v", "Job"}, "MPIJob", kOwned},
      {"a worker of an MPIJob", {"a", "p", "w", "w", "MPIJob"}, "MPIJob", kOwned},
      {"a worker of a RayJob", {"a", "p", "w", "v", "RayCluster"}, "RayJob", kOwned},
      {"the submitter of a RayJob", {"a", "p", "w", "v", "Job"}, "RayJob", kOwned},
      {"a member of a group", {"a", "p", "w", "v", "ReplicaSet"}, "PodGroup", kOwned},
      {"a member of a group without a controller", {"a", "p", "w", "", ""}, "PodGroup", kOwned},
      {"a pod that is the workload", {"a", "w", "w", "", ""}, "Pod", kOwned},
      {"a pod that is the workload, of a ReplicaSet", {"a", "w", "w", "v", "ReplicaSet"}, "Pod", kOwned},
      {"another pod", {"a", "p", "w", "", ""}, "Pod", kOtherController},
      {"nothing names it", {"a", "p", "", "v", "Job"}, "Job", kUnrelated},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ownership_of(c.pod, {"w", "a", c.kind}), c.expected) << c.what;
  }
  // A pod without controller and annotation belongs to no workload, also not to one without a uid.
  EXPECT_EQ(ownership_of({"a", "p", "", "", ""}, {"", "a", "Job"}), PodOwnership::kUnrelated);
}

}  // namespace
}  // namespace qm::pod_owner_test
