#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::config {

/// Annotation of a Job that may run with fewer pods: its full parallelism.
inline constexpr std::string_view kParallelism = "quartermaster.dev/parallelism";

/// Annotation of a Job: "true" = it may scale up while it runs, as in Kueue.
inline constexpr std::string_view kElasticJob = "kueue.x-k8s.io/elastic-job";
/// Whether a Job may scale up while it runs. A Job that may start with fewer pods may not, as in Kueue.
[[nodiscard]] bool is_elastic_job(const Json& job);
/// Pods of a Job that are ready or have succeeded.
[[nodiscard]] std::int64_t ready_pods(const Json& job);

/// The location of a pod template in an object, and the number of pods that run at once from it.
struct TemplatePlace {
  std::string pod_set;
  std::vector<std::string> path;  ///< from the object to the parent of `metadata` and `spec`; for a list, the index
  std::int64_t count = 1;
  std::int64_t least = 0;  ///< minimum number of pods; 0 = all
};

/// A kind that becomes a workload, and the fields that suspend and start it.
struct WorkloadKind {
  std::string_view group;
  std::vector<std::string_view> versions;  ///< the newest first
  std::string_view kind, plural;
  /// The field that suspends it, "spec.suspend". Empty: there is none, so its pods get our scheduling gate and each
  /// pod is a workload of its own.
  std::string_view suspend;
  std::string_view complete, failed;  ///< the conditions that end it; empty = it never ends
  std::vector<TemplatePlace> (*places)(const Json& object) = nullptr;
  /// The pods that still exist, by its controller's status. Some kinds count other objects; 0 is always exact.
  std::int64_t (*active)(const Json& object) = nullptr;

  [[nodiscard]] bool suspends() const { return !suspend.empty(); }
};

/// All kinds, batch/v1 Job first.
[[nodiscard]] const std::vector<WorkloadKind>& workload_kinds();
/// Finds a kind by apiVersion, of which the version is ignored, and kind; null for others.
[[nodiscard]] const WorkloadKind* workload_kind(std::string_view api_version, std::string_view kind);
/// Finds a kind by kind alone, as stored in a workload's row; null for others.
[[nodiscard]] const WorkloadKind* workload_kind(std::string_view kind);

/// The error for a Job, Pod or other workload in a manifest to apply, with the command that creates it: `apply` of
/// the service and of qmctl accepts configuration only. None for other kinds.
[[nodiscard]] std::optional<Diagnostic> refuse_applied_workload(const Document& document);

/// The template at its place in the object; null if there is none.
[[nodiscard]] const Json* find_template(const Json& object, const TemplatePlace& place);
[[nodiscard]] Json* find_template(Json& object, const TemplatePlace& place);

/// Whether an object has this condition with status True.
[[nodiscard]] bool has_condition(const Json& object, std::string_view type);
[[nodiscard]] bool is_complete(const Json& object, const WorkloadKind& kind);
[[nodiscard]] bool is_failed(const Json& object, const WorkloadKind& kind);

/// Whether all requested pods are ready or succeeded, by its controller's status; for a Pod, by its kubelet's
/// status.
[[nodiscard]] bool are_pods_ready(const Json& object, const WorkloadKind& kind);

/// Converts an object of any of these kinds to a workload: a pod set for each replica type, with counts, requests,
/// priority class and queue. The queue is a label or annotation of the object, else of the first of its templates
/// that has one. The same applies to the priority class, if neither a label of the object nor its scheduling policy
/// has it.
///
/// Order    launchers, masters and heads come before workers, then as written.
/// Fails    kUnimplemented: another kind; kInvalid names the field.
[[nodiscard]] Result<WorkloadSpec> workload_from_object(const Json& object);

/// The run that a pod belongs to as a step, by the labels and owners of Argo Workflows, Tekton and Kubeflow
/// Pipelines; empty for other pods. Equal for all pods of one run, including retries.
[[nodiscard]] std::string run_of_pod(const Json& pod);
/// Whether the pod was created by a serving framework (KServe, Seldon Core) or is a step of a run.
[[nodiscard]] bool is_made_by_framework(const Json& pod);

}  // namespace qm::config
