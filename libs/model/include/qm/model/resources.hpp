#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/model/checkpoint.hpp"
#include "qm/model/ids.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm {

using Labels = std::map<std::string, std::string>;

/// The GPU request of one pod: whole GPUs, a share of one, or MIG instances. At most one of the three is set.
struct GpuShape {
  std::int64_t whole = 0;
  std::int64_t milli = 0;   ///< 1..999
  std::string mig_profile;  ///< "1g.10gb"
  std::int64_t mig_count = 0;
  std::vector<std::string> models;  ///< allowed models, sorted; empty = any
  /// The milli-GPUs that this number of pods uses (whole and milli; MIG counts its compute slices of seven,
  /// rounded down once for all of them).
  [[nodiscard]] std::int64_t total_milli(std::int64_t pods = 1) const;
  [[nodiscard]] bool none() const { return whole == 0 && milli == 0 && mig_count == 0; }
  friend auto operator<=>(const GpuShape&, const GpuShape&) = default;
};

/// The compute slices of a MIG profile: the number before "g." ("3g.40gb", "1c.3g.40gb", "1g.10gb+me"). A name
/// without one counts as all seven, so that an unknown profile is never underestimated.
[[nodiscard]] std::int32_t compute_slices(std::string_view profile);
/// The thousandths of a GPU for each of its MIG instances, in their order. Each has its increment of the running sum
/// of compute slices, rounded down: instances that fill the GPU's `of` slices add up to 1000, and none add up to
/// more.
[[nodiscard]] std::vector<std::int32_t> mig_shares(const std::vector<std::string>& profiles, std::int32_t of = 7);

struct Taint {
  std::string key, value, effect;  ///< NoSchedule, PreferNoSchedule, NoExecute
  friend auto operator<=>(const Taint&, const Taint&) = default;
};
struct Toleration {
  std::string key, op, value, effect;  ///< op "Equal" (default) or "Exists"; empty key with Exists = all
  friend auto operator<=>(const Toleration&, const Toleration&) = default;
};
/// "key=value:Effect" as Kubernetes writes it; "key:Effect" without a value.
[[nodiscard]] std::string text_of(const Taint& taint);
/// Whether the toleration covers the taint, by the rules of Kubernetes.
[[nodiscard]] bool tolerates(const Toleration& toleration, const Taint& taint);
/// The first taint with effect NoSchedule or NoExecute without a toleration; null if none.
[[nodiscard]] const Taint* untolerated(const std::vector<Taint>& taints, const std::vector<Toleration>& tolerations);

struct PodShape {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  GpuShape gpu;
  Labels node_selector;
  std::vector<Toleration> tolerations;
  std::map<std::string, std::int64_t> extended;
  friend auto operator<=>(const PodShape&, const PodShape&) = default;
};

/// The topology constraint of the pods of a set. Levels are keys of node labels; empty = not requested.
struct PodSetTopology {
  std::string required;         ///< all pods on nodes with the same value of this label
  std::string preferred;        ///< the same where possible, else the same value of a level as deep as possible
  std::string slice;            ///< runs of `slice_size` consecutive ranks, each on nodes with one value of this label
  std::int32_t slice_size = 0;  ///< divides the number of pods
  std::string group;            ///< sets of one group are placed together, as the first of them requests
  bool exclusive = false;       ///< on nodes without other pods that request GPUs
  bool unconstrained = false;   ///< anywhere; admission without placement assigns nodes nevertheless
  [[nodiscard]] bool none() const { return required.empty() && preferred.empty() && slice.empty() && !exclusive; }
  friend auto operator<=>(const PodSetTopology&, const PodSetTopology&) = default;
};

struct PodSet {
  std::string name = "main";
  std::int32_t count = 1;
  std::int32_t min_count = 0;  ///< 0 = count
  PodShape shape;
  PodSetTopology topology;
  std::string rules;             ///< the other scheduling rules of its template: a Pod's JSON with nothing else
  std::int32_t completions = 0;  ///< pods that have to succeed, where they are more than run at once; 0 = `count`
  /// A work-queue Job: when one pod succeeds another replaces it, so pods have no ranks.
  [[nodiscard]] bool is_work_queue() const { return completions > count; }
  friend auto operator<=>(const PodSet&, const PodSet&) = default;
};

/// The requests of a workload; fixed at submission.
struct WorkloadSpec {
  WorkloadUid uid;
  Namespace ns;
  std::string name, kind = "Job";
  std::string queue;  ///< as written by the user
  std::int32_t priority = 0;
  std::string priority_class;
  Team team;
  std::vector<PodSet> pod_sets;
  Instant submitted{};
  Duration expected_runtime{0};  ///< 0 = unknown
  Labels labels;
  bool checkpoints = false;
  CheckpointTerms checkpoint;  ///< if it can save
  [[nodiscard]] std::int64_t total_gpu_milli() const;
  [[nodiscard]] std::int32_t total_pods() const;
  friend auto operator<=>(const WorkloadSpec&, const WorkloadSpec&) = default;
};

struct DeviceRef {
  NodeName node;
  std::int32_t index = 0;
  DeviceUuid uuid;
  std::int32_t milli = 1000;
  std::string mig_profile;
  friend auto operator<=>(const DeviceRef&, const DeviceRef&) = default;
};

/// The report of a node's agent, as labels and annotations of the node's object.
struct NodeReport {
  Labels labels, annotations;
  std::vector<std::string> owned_prefixes;  ///< no other labels may exist under these prefixes
  friend auto operator<=>(const NodeReport&, const NodeReport&) = default;
};

/// A label selector: equality and set requirements, all of which must match.
struct LabelRequirement {
  enum class Op { kIn, kNotIn, kExists, kDoesNotExist };
  std::string key;
  Op op = Op::kExists;
  std::vector<std::string> values;
};
struct LabelSelector {
  std::vector<LabelRequirement> requirements;
  [[nodiscard]] bool matches(const Labels& labels) const;
  /// The query form: "a=b,c!=d,e in (f,g),h,!i".
  static Result<LabelSelector> parse(std::string_view text);
};

/// The names of labels, annotations and resources that the suite writes on Kubernetes objects.
namespace words {
inline constexpr std::string_view kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr std::string_view kPriorityClassLabel = "kueue.x-k8s.io/priority-class";
inline constexpr std::string_view kTeamLabel = "quartermaster.dev/team";
/// Labels that group a bill in addition to team and namespace.
inline constexpr std::array<std::string_view, 4> kChargebackLabels{"cost-center", "product", "environment",
                                                                   "workload-type"};
inline constexpr std::string_view kScheduler = "quartermaster";
inline constexpr std::string_view kAttempt = "quartermaster.dev/attempt";          ///< annotation on pods
inline constexpr std::string_view kReservation = "quartermaster.dev/reservation";  ///< annotation on pods
inline constexpr std::string_view kDevices = "quartermaster.dev/devices";          ///< planned, "0,3", on pods
inline constexpr std::string_view kResume = "quartermaster.dev/resume-uri";        ///< annotation on pods
inline constexpr std::string_view kCheckpoint = "quartermaster.dev/checkpoint";    ///< contract, on pods
inline constexpr std::string_view kCheckpointInterval = "quartermaster.dev/checkpoint-interval";  ///< "10m", or steps
inline constexpr std::string_view kExpectedRuntime = "quartermaster.dev/expected-runtime";        ///< "3600s"
inline constexpr std::string_view kGpuResource = "nvidia.com/gpu";
inline constexpr std::string_view kGpuMilliResource = "quartermaster.dev/gpu-milli";  ///< a share of one GPU
inline constexpr std::string_view kMigPrefix = "nvidia.com/mig-";                     ///< "nvidia.com/mig-1g.10gb"
inline constexpr std::string_view kGpuProduct = "nvidia.com/gpu.product";
inline constexpr std::string_view kGpuCount = "nvidia.com/gpu.count";
inline constexpr std::string_view kInstanceType = "node.kubernetes.io/instance-type";
inline constexpr std::string_view kZone = "topology.kubernetes.io/zone";
inline constexpr std::string_view kCapacityType = "karpenter.sh/capacity-type";
inline constexpr std::string_view kNodePool = "karpenter.sh/nodepool";
/// On a NodePool: the Auto Scaling group that launches its instances.
inline constexpr std::string_view kScalingGroup = "quartermaster.dev/auto-scaling-group";
inline constexpr std::string_view kNodeClaimTag = "karpenter.sh/nodeclaim";
inline constexpr std::string_view kJobIndex = "batch.kubernetes.io/job-completion-index";
/// On a Job: the minimum number of pods.
inline constexpr std::string_view kJobLeast = "kueue.x-k8s.io/job-min-parallelism";
inline constexpr std::string_view kDoNotDisrupt = "karpenter.sh/do-not-disrupt";
}  // namespace words

}  // namespace qm
