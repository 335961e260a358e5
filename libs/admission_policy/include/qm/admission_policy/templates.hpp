#pragma once
#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::admission_policy {

/// A pod that an object would create.
struct PodTemplate {
  std::string part;  ///< part of the object, if it has several: "Worker", "train"; empty = the only one
  Labels labels;
  Json spec;
  std::int64_t count = 1;  ///< of such pods at once, if the object defines it; the minimum of a range
  Labels annotations = {};
  [[nodiscard]] std::int64_t gpus() const;  ///< that one of them requests; a fraction of a GPU counts as one
};

/// The pods that an object of one of these kinds would create:
///   - a pod itself;
///   - each kind with a pod template (Job, Deployment, StatefulSet, CronJob, JobSet, Kubeflow's jobs, RayJob,
///     RayCluster, LeaderWorkerSet);
///   - an Argo Workflow, a KServe InferenceService, a SeldonDeployment, a Tekton Pipeline or Task.
///
/// Empty for other kinds. Containers in a format of their own are converted to that of a pod.
[[nodiscard]] std::vector<PodTemplate> pod_templates(const Json& object);

}  // namespace qm::admission_policy
