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

/// Annotation of a Job that runs with fewer pods: how many it asks for.
inline constexpr std::string_view kParallelism = "quartermaster.dev/parallelism";

/// Annotation of a Job: "true" = it may grow while it runs, as in Kueue.
inline constexpr std::string_view kElasticJob = "kueue.x-k8s.io/elastic-job";
/// Whether a Job may grow while it runs. One that may start with fewer pods may not, as in Kueue.
[[nodiscard]] bool is_elastic_job(const Json& job);
/// Pods of a Job that are ready or have succeeded.
[[nodiscard]] std::int64_t ready_pods(const Json& job);

/// Where an object keeps one of its pod templates, and how many pods come of it at once.
struct TemplatePlace {
  std::string pod_set;
  std::vector<std::string> path;  ///< from the object down to what has `metadata` and `spec`; of a list, the position
  std::int64_t count = 1;
  std::int64_t least = 0;  ///< with so many it can do; 0 = all
};

/// A kind that becomes a workload, and how it is held back and let go.
struct WorkloadKind {
  std::string_view group;
  std::vector<std::string_view> versions;  ///< the newest first
  std::string_view kind, plural;
  /// The field that holds it back, "spec.suspend". Empty: nothing does, so its pods carry our scheduling gate and each is a
  /// workload of its own.
  std::string_view suspend;
  std::string_view complete, failed;  ///< the conditions that end it; empty = it has no end
  std::vector<TemplatePlace> (*places)(const Json& object) = nullptr;
  /// Pods of it that are still about, as its controller counts them; some count other things, and 0 is exact.
  std::int64_t (*active)(const Json& object) = nullptr;

  [[nodiscard]] bool suspends() const { return !suspend.empty(); }
};

/// All kinds, batch/v1 Job first.
[[nodiscard]] const std::vector<WorkloadKind>& workload_kinds();
/// By apiVersion, of which the version does not matter, and kind; null for others.
[[nodiscard]] const WorkloadKind* workload_kind(std::string_view api_version, std::string_view kind);
/// By kind alone, as a workload's row has it; null for others.
[[nodiscard]] const WorkloadKind* workload_kind(std::string_view kind);

/// A Job, Pod or other workload in a manifest that is applied: an error with the command that creates it, as `apply` of the service and of
/// qmctl takes configuration only. None for other kinds.
[[nodiscard]] std::optional<Diagnostic> refuse_applied_workload(const Document& document);

/// A template in its object; null where it is not.
[[nodiscard]] const Json* find_template(const Json& object, const TemplatePlace& place);
[[nodiscard]] Json* find_template(Json& object, const TemplatePlace& place);

/// Whether the conditions of an object have this one, as True.
[[nodiscard]] bool has_condition(const Json& object, std::string_view type);
[[nodiscard]] bool is_complete(const Json& object, const WorkloadKind& kind);
[[nodiscard]] bool is_failed(const Json& object, const WorkloadKind& kind);

/// Whether all pods that it wants are ready, or have ended well, as its controller says; of a Pod, as its kubelet says.
[[nodiscard]] bool are_pods_ready(const Json& object, const WorkloadKind& kind);

/// An object of any of these kinds as a workload: a pod set for each replica type, with counts, requests, priority class and
/// queue. The queue is a label or annotation of the object, else of its templates, of which the first that has one counts;
/// so for the priority class, where a label of the object or its scheduling policy does not say it.
///
/// Order    launchers, masters and heads come before workers, then as written.
/// Fails    kUnimplemented: another kind; kInvalid names the field.
[[nodiscard]] Result<WorkloadSpec> workload_from_object(const Json& object);

/// The run that a pod is a step of, by the labels and owners of Argo Workflows, Tekton and Kubeflow Pipelines; empty for other
/// pods. Equal for all pods of one run, tries anew included.
[[nodiscard]] std::string run_of_pod(const Json& pod);
/// Whether the pod is made by a serving framework (KServe, Seldon Core) or is a step of a run.
[[nodiscard]] bool is_made_by_framework(const Json& pod);

}  // namespace qm::config
