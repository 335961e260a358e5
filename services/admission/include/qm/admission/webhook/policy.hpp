#pragma once
#include "qm/admission/webhook/facts.hpp"
#include "qm/admission/webhook/resource_quota.hpp"
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

namespace qm::admission::webhook {

/// How a rule is meant: not at all, as a warning, as a refusal, or mended first from the namespace's defaults and then
/// meant as a refusal.
enum class Mode : std::uint8_t { kOff, kWarn, kEnforce, kMutate };
[[nodiscard]] std::optional<Mode> mode_of(std::string_view word);  ///< off, warn, enforce, mutate

struct RequiredLabel {
  std::string key;
  std::vector<std::string> values;  ///< allowed; empty = any but the empty one
  friend bool operator==(const RequiredLabel&, const RequiredLabel&) = default;
};

struct Settings {
  Mode mode = Mode::kEnforce;         ///< where neither the rule nor the namespace says otherwise
  std::map<std::string, Mode> rules;  ///< by name of the rule
  std::vector<RequiredLabel> required_labels;
  std::string gpu_taint = "nvidia.com/gpu";
  std::vector<std::string> gpu_taint_values{"", "present", "true"};  ///< that a toleration with Equal may name
  bool gate_pods = true;
  std::string scheduler{words::kScheduler};  ///< what is managed is given to it; empty = left as it is
  std::set<std::string> excluded{"kube-system", "kube-public", "kube-node-lease"};  ///< namespaces
  std::set<std::string> own_users;  ///< who may do by hand what admission decides; "PREFIX*" takes all that begin so
  /// Accounts of the controllers of JobSets, PyTorchJobs and the like: what they make belongs to the owner that it names.
  std::set<std::string> controllers = {};
  Facts facts = {};
  friend bool operator==(const Settings&, const Settings&) = default;
};

/// "required-labels" and so on, in the order in which they are checked.
[[nodiscard]] const std::vector<std::string>& rule_names();

/// What decisions are made from beside the object: a picture of the cluster that may be a moment old.
struct View {
  struct Namespace {
    Labels labels, annotations;
  };
  std::map<std::string, Namespace> namespaces;
  std::map<std::string, std::set<std::string>> local_queues;      ///< by namespace
  std::map<std::string, std::vector<ResourceQuota>> quotas = {};  ///< by namespace
  std::map<std::string, Json> runtime_classes = {};               ///< their `scheduling`, by name
  std::function<bool(const std::string& ns)> quota_is_ours = {};  ///< unset = everywhere
  std::function<bool(const std::string& ns)> binding_is_ours = {};
};

enum class Operation : std::uint8_t { kCreate, kUpdate, kOther };

/// What is asked about. Lives as long as the review that it was read from.
struct Subject {
  Operation operation = Operation::kOther;
  std::string kind, ns, name, user;
  const Json* object = nullptr;
  const Json* old = nullptr;  ///< of an update
};

struct Finding {
  std::string rule, message, field, remedy;
  std::string container = {};                   ///< whose fault it is, where it is one container's
  [[nodiscard]] std::string to_string() const;  ///< one line: what, and what to do
  friend bool operator==(const Finding&, const Finding&) = default;
};
struct Verdict {
  std::vector<Finding> refusals, warnings;
  Labels audit = {};  ///< for the API server's audit log: what was decided in a namespace under compliance
  [[nodiscard]] bool allowed() const { return refusals.empty(); }
};

/// What a Job or pod should be when it is created: in a queue, held until admission lets it go, with the requests that
/// Kubernetes would default, and where a rule's mode says so with what the namespace's defaults supply.
///
/// A workload is ours where it names a queue, or where its namespace has a LocalQueue named "default" or names one in
/// the label quartermaster.dev/default-queue. Then a Job is suspended; a pod that nothing owns, or that names a queue
/// itself, is gated; and where binding is ours, our scheduler is asked for. Left alone are excluded namespaces, those
/// whose quota is somebody else's, objects and namespaces with quartermaster.dev/managed=false, pods of other
/// schedulers, and pods of Jobs, which their Job stands for.
///
/// A namespace with quartermaster.dev/webhook=required counts every GPU: there each pod that asks for some is gated, whatever
/// owns it, unless the account of a workload's controller makes it for that workload.
///
/// Law      what comes out goes in again unchanged.
/// Threads  any; reads only its arguments.
[[nodiscard]] Json mutate(const Subject& subject, const Settings& settings, const View& view);

/// Whether the object may be stored: the rules for pods that use GPUs, and that nobody does by hand what admission
/// decides: lets a held workload go, or changes what its quota was counted from. Refused in every mode are metadata that
/// Quartermaster alone writes (`owned-metadata`) and, where a namespace counts every GPU, what would get one past its quota
/// (`gpu-quota`).
///
/// A rule's mode comes from the namespace's label policy.quartermaster.dev/RULE, else its label
/// policy.quartermaster.dev/mode, else the rule's setting, else the general one. Some rules only warn, or mutate, until
/// they are set by name (rules.hpp); a general "off" or "warn" holds for them too.
[[nodiscard]] Verdict judge(const Subject& subject, const Settings& settings, const View& view);

/// What the webhook answers to the creation of a Job, asked before it is created: mutate, then judge.
///
/// Fails    kFailedPrecondition: a rule refuses it; the message has each finding with its field and remedy.
[[nodiscard]] Status check_job(const Json& job, const std::string& user, const Settings& settings, const View& view);

/// mutate, and the label kJudged where judge has nothing to say of what came out, on a Job's template too: the API server
/// need not ask again then, nor about the pods that are made from the template. An object that brings the label itself loses
/// it where it is not true.
[[nodiscard]] Json settle(const Subject& subject, const Settings& settings, const View& view);

/// The rules alone on one pod (its labels, spec and annotations), as enforced; for those who want to know before they submit.
[[nodiscard]] std::vector<Finding> violations(const Labels& labels, const Json& pod_spec, const Settings& settings,
                                              const Json& annotations = {});
/// What Mode::kMutate adds to one pod or pod template: from `own`, the labels of what makes it, from its namespace, and
/// from the policy. Whatever is there stays as it is.
void supply(Json& pod, const Labels& own, const View::Namespace& defaults, const Settings& settings);

inline constexpr std::string_view kAdmissionGate = "quartermaster.dev/admission";
inline constexpr std::string_view kManagedLabel = "quartermaster.dev/managed";
inline constexpr std::string_view kDefaultQueueLabel = "quartermaster.dev/default-queue";
inline constexpr std::string_view kJudged = "quartermaster.dev/judged";
inline constexpr std::string_view kPolicyPrefix = "policy.quartermaster.dev/";
inline constexpr std::string_view kPolicyMode = "policy.quartermaster.dev/mode";
/// Annotations of a namespace: what Mode::kMutate gives its GPU pods.
inline constexpr std::string_view kCpuPerGpu = "quartermaster.dev/cpu-per-gpu";
inline constexpr std::string_view kMemoryPerGpu = "quartermaster.dev/memory-per-gpu";
inline constexpr std::string_view kGpuNodes = "quartermaster.dev/gpu-nodes";  ///< "KEY=VALUE"

}  // namespace qm::admission::webhook
