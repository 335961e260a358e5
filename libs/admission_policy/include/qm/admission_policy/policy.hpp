#pragma once
#include "qm/admission_policy/facts.hpp"
#include "qm/admission_policy/resource_quota.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/model/resources.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission_policy {

/// Mode of a rule: off, warning, refusal, or mutation from the defaults of the namespace and then refusal.
enum class Mode : std::uint8_t { kOff, kWarn, kEnforce, kMutate };
[[nodiscard]] std::optional<Mode> mode_of(std::string_view word);  ///< off, warn, enforce, mutate

struct RequiredLabel {
  std::string key;
  std::vector<std::string> values;  ///< allowed values; empty = any but the empty one
  friend bool operator==(const RequiredLabel&, const RequiredLabel&) = default;
};

struct Settings {
  Mode mode = Mode::kEnforce;         ///< if neither the rule nor the namespace sets one
  std::map<std::string, Mode> rules;  ///< by rule name
  std::vector<RequiredLabel> required_labels;
  std::string gpu_taint = "nvidia.com/gpu";
  std::vector<std::string> gpu_taint_values{"", "present", "true"};  ///< values that a toleration with Equal may name
  bool gate_pods = true;
  std::string scheduler{words::kScheduler};  ///< set on managed workloads; empty = not changed
  std::set<std::string> excluded{"kube-system", "kube-public", "kube-node-lease"};  ///< namespaces
  std::set<std::string> own_users;  ///< may do manually what admission decides; "PREFIX*" matches all with the prefix
  /// Accounts of the controllers of JobSets, PyTorchJobs and others: objects that they create belong to the named
  /// owner.
  std::set<std::string> controllers = {};
  Facts facts = {};
  friend bool operator==(const Settings&, const Settings&) = default;
};

/// "required-labels" and so on, in evaluation order.
[[nodiscard]] const std::vector<std::string>& rule_names();

/// Workloads whose replicas Quartermaster sets, and the scalers of all workloads.
struct ScaleTargets {
  std::map<std::string, bool> strict;          ///< annotated workloads by key(): whether only one scaler is allowed
  std::map<std::string, std::string> scalers;  ///< the target of each scaler; both by key()
  /// "namespace/Kind.group/name"; the group of a scaler is omitted.
  [[nodiscard]] static std::string key(std::string_view ns, std::string_view group, std::string_view kind,
                                       std::string_view name);
};

/// The state of the cluster that decisions use besides the object; it may be slightly stale.
struct View {
  struct Namespace {
    Labels labels, annotations;
    [[nodiscard]] static Namespace read(const Json& object);  ///< ignores labels and annotations that are not text
  };
  std::map<std::string, Namespace> namespaces;
  std::map<std::string, std::set<std::string>> local_queues;      ///< by namespace
  std::map<std::string, std::vector<ResourceQuota>> quotas = {};  ///< by namespace
  std::map<std::string, Json> runtime_classes = {};               ///< their `scheduling`, by name
  ScaleTargets scale_targets = {};
  std::function<bool(const std::string& ns)> manages_quota = {};  ///< unset = everywhere
  std::function<bool(const std::string& ns)> manages_binding = {};
};

enum class Operation : std::uint8_t { kCreate, kUpdate, kOther };

/// The object of a review. Valid as long as the review that it was read from.
struct Subject {
  Operation operation = Operation::kOther;
  std::string kind, ns, name, user;
  const Json* object = nullptr;
  const Json* old = nullptr;  ///< of an update
};

struct Finding {
  std::string rule, message, field, remedy;
  std::string container = {};                   ///< the container that violates the rule, if it is one
  [[nodiscard]] std::string to_string() const;  ///< one line: what, and what to do
  friend bool operator==(const Finding&, const Finding&) = default;
};
struct Verdict {
  std::vector<Finding> refusals, warnings;
  Labels audit = {};  ///< for the audit log of the API server: decisions in namespaces under compliance
  [[nodiscard]] bool allowed() const { return refusals.empty(); }
};

/// The form of a Job or pod at creation: in a queue, held until admission starts it, with the requests that Kubernetes
/// would default, and, in mutate mode, with the defaults of the namespace.
///
/// A workload is managed if it names a queue, or if its namespace has a LocalQueue named "default". It is managed too
/// if its namespace names a LocalQueue in the label quartermaster.dev/default-queue. A managed Job is suspended. A pod
/// without owner, or that names a queue itself, is gated. If Quartermaster owns binding, its scheduler is set.
///
/// Not changed are:
///   - objects in excluded namespaces, and in namespaces whose quota has another owner;
///   - objects and namespaces with quartermaster.dev/managed=false;
///   - pods of other schedulers;
///   - pods of Jobs: the Job accounts for them.
///
/// A namespace with quartermaster.dev/webhook=required counts every GPU. There each pod that requests GPUs is gated,
/// whatever its owner, unless the account of a workload controller creates it for that workload.
///
/// A HorizontalPodAutoscaler or ScaledObject of a workload whose replicas Quartermaster sets is suspended (scalers.hpp).
///
/// Law      idempotent: the output is not changed by another call.
/// Threads  any; reads only its arguments.
[[nodiscard]] Json mutate(const Subject& subject, const Settings& settings, const View& view);

/// Whether the object may be stored: the rules for pods with GPUs, and that no user does manually what admission
/// decides: starts a held workload, or changes what its quota was counted from. Refused in every mode are metadata that
/// only Quartermaster writes (`owned-metadata`) and, where a namespace counts every GPU, what would bypass its quota
/// (`gpu-quota`).
///
/// The mode of a rule is the namespace label policy.quartermaster.dev/RULE, else its label
/// policy.quartermaster.dev/mode, else the setting of the rule, else the general one. Some rules only warn or
/// mutate until they are set by name (rules.hpp); a general "off" or "warn" applies to them too.
[[nodiscard]] Verdict validate(const Subject& subject, const Settings& settings, const View& view);

/// The answer of the webhook to the creation of a Job, requested before it is created: mutate, then judge.
///
/// Fails    kFailedPrecondition: a rule refuses it; the message has each finding with its field and remedy.
[[nodiscard]] Status check_job(const Json& job, const std::string& user, const Settings& settings, const View& view);

/// mutate, and the label kJudged if judge has no finding for the result, also on the template of a Job. The API server
/// then need not call again, nor for the pods created from the template. An object that has the label already loses
/// it if it is not true.
[[nodiscard]] Json mutate_and_mark(const Subject& subject, const Settings& settings, const View& view);

/// The rules alone on one pod (its labels, spec and annotations), in enforce mode; for checks before submission.
[[nodiscard]] std::vector<Finding> violations(const Labels& labels, const Json& pod_spec, const Settings& settings,
                                              const Json& annotations = {});
/// What Mode::kMutate adds to one pod or pod template: from `own`, the labels of its owner, from its namespace, and
/// from the policy. Existing values are not changed.
void supply(Json& pod, const Labels& own, const View::Namespace& defaults, const Settings& settings);

/// The namespace of admission itself, if the settings name no other.
inline constexpr std::string_view kHomeNamespace = "quartermaster-system";
/// Label of a namespace; "required": every GPU of it counts, and objects are refused while the webhook is unreachable.
inline constexpr std::string_view kRequiredLabel = "quartermaster.dev/webhook";
inline constexpr std::string_view kAdmissionGate = "quartermaster.dev/admission";
inline constexpr std::string_view kManagedLabel = "quartermaster.dev/managed";
inline constexpr std::string_view kDefaultQueueLabel = "quartermaster.dev/default-queue";
inline constexpr std::string_view kJudged = "quartermaster.dev/judged";
inline constexpr std::string_view kPolicyPrefix = "policy.quartermaster.dev/";
inline constexpr std::string_view kPolicyMode = "policy.quartermaster.dev/mode";
/// Annotations of a namespace: what Mode::kMutate adds to its GPU pods.
inline constexpr std::string_view kCpuPerGpu = "quartermaster.dev/cpu-per-gpu";
inline constexpr std::string_view kMemoryPerGpu = "quartermaster.dev/memory-per-gpu";
inline constexpr std::string_view kGpuNodes = "quartermaster.dev/gpu-nodes";  ///< "KEY=VALUE"

}  // namespace qm::admission_policy
