#pragma once
#include "qm/admission/engine.hpp"
#include "qm/base/json.hpp"
#include "qm/config/manifest.hpp"
#include "qm/config/workload_kinds.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/events.pb.h"

#include <string>

namespace qm::admission {

/// Values in both directions between the engine and the messages, and from manifests and jobs to the engine.

/// The message of qm.workload. While quota is held, the pods' node selector and tolerations hold what their flavors add,
/// so placement needs to know nothing of flavors.
[[nodiscard]] quartermaster::v1::WorkloadEvent to_event(const Workload& w, const Engine& engine);

/// What its flavors, and the admission checks that are Ready, add to the pods of a pod set.
struct PodEffect {
  Labels node_selector, labels, annotations;
  std::vector<Toleration> tolerations;
};
[[nodiscard]] PodEffect pod_effect(const Workload& w, const std::string& pod_set, const Engine& engine);

/// What becomes of Jobs, Pods and other workloads in a manifest: an error, or left out without a warning.
enum class WorkloadObjects : std::uint8_t { kRefused, kLeftOut };
/// Objects of an Apply. kInvalid carries every error with file, line, field and remedy; nothing is taken then.
[[nodiscard]] Result<ApplyObjects> objects_from_manifest(const std::string& text, const std::string& source,
                                                         WorkloadObjects workloads = WorkloadObjects::kRefused);
/// One manifest as an object of the engine, added to `into`. Kinds that the engine does not read give a warning.
[[nodiscard]] Status add_object(const config::Object& object, ApplyObjects& into);

/// The kind of an object that is suspended as a whole and let go as a whole: Job, which lists leave unsaid, JobSet, PyTorchJob
/// and the like. Null for others. "Job" stands for all of them where a name says no more.
[[nodiscard]] const config::WorkloadKind* suspending_kind(const Json& object);

/// Whether a job is for us: it or one of its templates names a queue, or our scheduler, and it is no part of an object that is
/// suspended as a whole.
[[nodiscard]] bool is_ours(const Json& job);
[[nodiscard]] Result<JobSeen> job_seen(const Json& job);
/// Label of jobs and pods: how long they may run, in seconds. As Kueue reads it: a whole number above zero, and anything else is none.
inline constexpr std::string_view kMaxExecution = "kueue.x-k8s.io/max-exec-time-seconds";
[[nodiscard]] Duration max_execution_of(const WorkloadSpec& spec);
/// Annotation of an object: what was added to its pod templates, by pod set, so that it can be taken away.
inline constexpr const char* kAdded = "quartermaster.dev/added-to-pods";
/// In it: the node selectors that were added are named too; earlier releases did not name them. No pod set has such a name.
inline constexpr const char* kSelectorsAdded = "nodeSelectors";
/// Takes what an earlier attempt added out of a pod template, unless it has been changed since.
void take_back(Json& pods, const Json& added);
/// An object with the pod templates that its author wrote: without what kAdded says.
[[nodiscard]] Json as_submitted(const Json& job, const config::WorkloadKind& kind);
/// Equal for objects that were submitted with the same spec: what attempts write into it does not count. Never 0.
[[nodiscard]] std::uint32_t spec_print(const Json& job, const config::WorkloadKind& kind);
/// A workload of an object that cannot be used: metadata, queue and priority class, without pod sets, and `why` with the remedy.
/// kInvalid: the object has no uid, so it is not from the API server.
[[nodiscard]] Result<JobSeen> rejected_job(const Json& object, const Error& why);
/// Of the first template that has one; 0 = none.
[[nodiscard]] std::int32_t attempt_of(const Json& job, const config::WorkloadKind& kind);
/// Merges what kRuntimeClasses has into the templates of the object, as the API server will into their pods. Fails with field and
/// remedy where both contradict.
[[nodiscard]] Status with_runtime_classes(Json& object, const config::WorkloadKind& kind);
/// Of a Job that runs: how many of the pods that it runs at once have nothing left to do (Kueue's reclaimable pods).
[[nodiscard]] std::int32_t ended_pods(const Json& job, const config::WorkloadKind& kind);
/// The job to create for a Submit: suspended, and scheduled by us whatever the manifest says, unless another scheduler
/// does it (`others_place`). A W3C traceparent of the call is kept in kTraceAnnotation. kInvalid: also metadata that only our
/// services write (qm/model/owned_metadata.hpp).
[[nodiscard]] Result<Submit> submit_from(const quartermaster::v1::SubmitRequest& request,
                                         const std::string& trace_parent = {}, bool others_place = false);

/// Controller of admission checks that are answered over gRPC.
inline constexpr std::string_view kCheckController = "quartermaster.dev/answers";
/// In what a watch sends of a job or of pods: set where another scheduler binds the pods.
/// On a ClusterQueue or a priority class: nobody displaces its workloads before they ran so long.
inline constexpr std::string_view kMinimumRun = "quartermaster.dev/minimum-run-time";
inline constexpr const char* kOthersPlace = "othersPlace";
/// Likewise: why its pods would be refused.
inline constexpr const char* kRefused = "refused";
/// Likewise: `scheduling` of the RuntimeClasses that its templates name, by name.
inline constexpr const char* kRuntimeClasses = "runtimeClasses";
/// Likewise: spec_print() of the object that the API server has, before defaults of LimitRanges.
inline constexpr const char* kSpecPrint = "specPrint";

/// Annotation of a job with the W3C traceparent that its news carry on the bus: between the call and the first news of
/// the job lies the API server, which carries no trace of its own. A user may set it too.
inline constexpr const char* kTraceAnnotation = "quartermaster.dev/traceparent";
/// Empty where there is none, or none that is fit to be sent on.
[[nodiscard]] std::string trace_of(const Json& job);

}  // namespace qm::admission
