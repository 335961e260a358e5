#pragma once
#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::admission::webhook {

/// A pod that an object would make.
struct PodTemplate {
  std::string part;  ///< of the object, where it makes several: "Worker", "train"; empty = the only one
  Labels labels;
  Json spec;
  std::int64_t count = 1;  ///< of such pods at once, where the object says it; the least, where it says a range
  Labels annotations = {};
  [[nodiscard]] std::int64_t gpus() const;         ///< that one of them asks for, parts of GPUs counted as one each
  [[nodiscard]] std::string gpu_resource() const;  ///< the first by name; empty where it asks for none
};

/// The pods that an object would make: a pod itself, everything with a pod template (Job, Deployment, StatefulSet,
/// CronJob, JobSet, Kubeflow's jobs, RayJob, RayCluster, LeaderWorkerSet), an Argo Workflow, a KServe InferenceService, a
/// SeldonDeployment, a Tekton Pipeline or Task. Empty for other kinds. Where some write a container in a way of their own, it is put as a pod would have it.
[[nodiscard]] std::vector<PodTemplate> pod_templates(const Json& object);

}  // namespace qm::admission::webhook
