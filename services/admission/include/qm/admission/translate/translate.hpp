#pragma once
#include "qm/admission/engine.hpp"
#include "qm/base/json.hpp"
#include "qm/config/manifest.hpp"
#include "qm/config/workload_kinds.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/events.pb.h"

#include <string>

namespace qm::admission {

/// Converts values between the engine and the messages, and from manifests and jobs to the engine.

/// The message of qm.workload. While quota is held, the node selector and tolerations of the pods include what their
/// flavors add, so placement needs no knowledge of flavors.
[[nodiscard]] quartermaster::v1::WorkloadEvent to_event(const Workload& w, const Engine& engine);

/// What the flavors and the Ready admission checks of a workload add to the pods of a pod set.
struct PodEffect {
  Labels node_selector, labels, annotations;
  std::vector<Toleration> tolerations;
};
[[nodiscard]] PodEffect pod_effect(const Workload& w, const std::string& pod_set, const Engine& engine);

/// How Jobs, Pods and other workloads in a manifest are handled: an error, or omitted without a warning.
enum class WorkloadObjects : std::uint8_t { kRefused, kLeftOut };
/// The objects of an Apply. kInvalid has every error with file, line, field and remedy; then no object is applied.
[[nodiscard]] Result<ApplyObjects> objects_from_manifest(const std::string& text, const std::string& source,
                                                         WorkloadObjects workloads = WorkloadObjects::kRefused);
/// Adds one manifest to `into`, as an object of the engine. Kinds that the engine does not read give a warning.
[[nodiscard]] Status add_object(const config::Object& object, ApplyObjects& into);

/// The kind of an object that is suspended and unsuspended as a whole: Job, which lists omit, JobSet, PyTorchJob and
/// others. Null for other objects. "Job" is used for all of them where a name is not more specific.
[[nodiscard]] const config::WorkloadKind* suspending_kind(const Json& object);

/// Whether Quartermaster manages a job: it or one of its templates names a queue or the Quartermaster scheduler. A
/// job that is part of a suspendable object is not managed on its own.
[[nodiscard]] bool is_managed(const Json& job);
[[nodiscard]] Result<JobUpdated> parse_job(const Json& job);
/// Label of jobs and pods: maximum run time in seconds. As in Kueue, only a whole number above zero is valid; other
/// values are ignored.
inline constexpr std::string_view kMaxExecution = "kueue.x-k8s.io/max-exec-time-seconds";
[[nodiscard]] Duration max_execution_of(const WorkloadSpec& spec);
/// Annotation of an object: what was added to its pod templates, by pod set, so that it can be removed.
inline constexpr const char* kAdded = "quartermaster.dev/added-to-pods";
/// Key in that annotation: the added node selectors are listed too; earlier releases did not list them. No pod set has
/// this name.
inline constexpr const char* kSelectorsAdded = "nodeSelectors";
/// Removes what an earlier attempt added to a pod template, unless it was changed since.
void take_back(Json& pods, const Json& added);
/// An object with the pod templates of its author: without the additions in kAdded.
[[nodiscard]] Json as_submitted(const Json& job, const config::WorkloadKind& kind);
/// Equal for objects that were submitted with the same spec: changes made by attempts do not count. Never 0.
[[nodiscard]] std::uint32_t spec_print(const Json& job, const config::WorkloadKind& kind);
/// A workload for an object that cannot be used: metadata, queue and priority class, without pod sets, and `why`
/// with the remedy. kInvalid: the object has no uid, so it is not from the API server.
[[nodiscard]] Result<JobUpdated> rejected_job(const Json& object, const Error& why);
/// The attempt of the first template that has one; 0 = none.
[[nodiscard]] std::int32_t attempt_of(const Json& job, const config::WorkloadKind& kind);
/// Merges kRuntimeClasses into the templates of the object, as the API server will into their pods. Fails with
/// field and remedy if the two conflict.
[[nodiscard]] Status with_runtime_classes(Json& object, const config::WorkloadKind& kind);
/// For a running Job: how many of the pods that run at once have no work left (Kueue's reclaimable pods).
[[nodiscard]] std::int32_t ended_pods(const Json& job, const config::WorkloadKind& kind);
/// The job to create for a Submit: suspended, and with the Quartermaster scheduler regardless of the manifest, unless
/// another scheduler binds its pods (`external_scheduler`). A W3C traceparent of the call is stored in kTraceAnnotation.
/// kInvalid: also for metadata that only Quartermaster writes (qm/model/owned_metadata.hpp).
[[nodiscard]] Result<Submit> submit_from(const quartermaster::v1::SubmitRequest& request,
                                         const std::string& trace_parent = {}, bool external_scheduler = false);

/// Controller of admission checks that are answered over gRPC.
inline constexpr std::string_view kCheckController = "quartermaster.dev/answers";
/// On a ClusterQueue or a priority class: its workloads are not preempted before they ran this long.
inline constexpr std::string_view kMinimumRun = "quartermaster.dev/minimum-run-time";
/// In what a watch sends for a job or for pods: set if another scheduler binds the pods.
inline constexpr const char* kExternalScheduler = "othersPlace";
/// In the same input: why its pods would be refused.
inline constexpr const char* kRefused = "refused";
/// In the same input: `scheduling` of the RuntimeClasses that its templates name, by name.
inline constexpr const char* kRuntimeClasses = "runtimeClasses";
/// In the same input: spec_print() of the object in the API server, before defaults of LimitRanges.
inline constexpr const char* kSpecPrint = "specPrint";

/// Annotation of a job with the W3C traceparent for its events on the bus. The API server, which propagates no
/// trace, is between the call and the first event of the job. A user may set it too.
inline constexpr const char* kTraceAnnotation = "quartermaster.dev/traceparent";
/// Empty if there is none, or none that is valid to propagate.
[[nodiscard]] std::string trace_of(const Json& job);

}  // namespace qm::admission
