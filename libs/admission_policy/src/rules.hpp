#pragma once
#include "pod.hpp"
#include "qm/admission_policy/policy.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace qm::admission_policy {

using Findings = std::vector<Finding>;

/// One pod as the rules see it: the pod, the object that creates it, and its namespace.
struct Case {
  const Labels& labels;
  const Json& pod;  ///< has metadata and spec
  const Settings& settings;
  const View::Namespace& home;
  const std::string& ns;
  const std::vector<ResourceQuota>& quotas;
  std::int64_t gang = 1;     ///< number of pods that only run together
  bool is_template = false;  ///< of a Job: its pods are created later
  bool gpus = false;         ///< it requests GPUs
  [[nodiscard]] const Json& spec() const { return pod["spec"]; }
  [[nodiscard]] const Facts& facts() const { return settings.facts; }
  [[nodiscard]] std::string_view label(std::string_view key) const;  ///< the label of the pod; empty where absent
};

/// The rules by number: the order of Modes, of the rule tables and of findings.
enum class RuleId : std::uint8_t {
  kGpuWhole,
  kGpuRequests,
  kGpuShare,
  kGpuToleration,
  kGpuNode,
  kRequiredLabels,
  kTolerationKey,
  kGpuProportion,
  kGpuSharing,
  kCompliance,
  kPoolPurpose,
  kGpuNamespace,
  kGpuPriority,
  kGangTopology,
  kGangEnvironment,
  kPodSecurity,
  kQuotaScope,
  kSpotCheckpoint,
  kLint,
  kCount
};
inline constexpr std::size_t kRuleCount = static_cast<std::size_t>(RuleId::kCount);

class Modes {
 public:
  Modes() { modes_.fill(Mode::kOff); }
  explicit Modes(Mode all) { modes_.fill(all); }
  [[nodiscard]] Mode operator[](RuleId rule) const { return modes_[static_cast<std::size_t>(rule)]; }
  void set(RuleId rule, Mode mode) { modes_[static_cast<std::size_t>(rule)] = mode; }
  [[nodiscard]] bool mends(RuleId rule) const { return (*this)[rule] == Mode::kMutate; }
  [[nodiscard]] bool mutates() const;  ///< whether any rule has mode mutate

 private:
  std::array<Mode, kRuleCount> modes_;
};

/// The mode of each rule in this namespace.
[[nodiscard]] Modes modes_in(const View::Namespace& home, const Settings& settings);
/// Applies all rules that are not off to the pod. Fields of findings are relative to the spec of the pod, or begin
/// with "metadata".
void examine(const Case& one, const Modes& modes, Findings& out);
[[nodiscard]] RuleId rule_of(const Finding& finding);
/// Adds what the rules in mode mutate would find missing.
void supply(Json& pod, const Labels& own, const View::Namespace& defaults, const Settings& settings,
            const Modes& modes);

// ---- rules with a file of their own ----

void gpu_proportion(const Case& one, Findings& out);
void gpu_sharing(const Case& one, Findings& out);
void compliance(const Case& one, Findings& out);
void pool_purpose(const Case& one, Findings& out);
void gpu_namespace(const Case& one, Findings& out);
void gpu_priority(const Case& one, Findings& out);
void gang_topology(const Case& one, Findings& out);
void gang_environment(const Case& one, Findings& out);
void spot_checkpoint(const Case& one, Findings& out);

/// Whether a pod or template requests GPUs: by a container, or by its requirements for a GPU.
[[nodiscard]] bool requests_gpus(const Json& pod);
/// Resolves the pod's requirements for a GPU to a resource, and adds it to the main container where no container
/// requests GPUs. Requirements that cannot be met are left to gpu_need.
void choose_shares(Json& pod);
/// Part of rule gpu-share: requirements that cannot be met, or that contradict the containers.
void gpu_need(const Case& one, Findings& out);

/// "container "x"", or "init container "x"".
[[nodiscard]] std::string in_container(const Json& container, const Place& place);
/// Whether some label or toleration selects spot capacity, and whether any label selects a capacity type.
[[nodiscard]] bool wants_spot(const Json& spec);
[[nodiscard]] bool sets_capacity_type(const Json& spec);
/// Moves a pod from spot to on-demand capacity: node selector, required node affinity, and tolerations of spot taints.
void require_on_demand(Json& spec);
/// The same for a training pod on spot capacity that has no checkpoint in durable storage.
void supply_on_demand(Json& pod);
/// Adds the variable CHECKPOINT_URI to the containers of a pod that can save: the address of the newest checkpoint, which
/// admission writes to the annotation of the next attempt. Empty in the first attempt.
void offer_resume(Json& pod);
/// Gang size as far as the pod specifies it; 1 = no gang, 2 also for a gang of unknown size.
[[nodiscard]] std::int64_t gang_of(const Json& pod);
/// Adds the settings of a gang to its pods: see GangDefaults. `gang` = 1: a single pod, which only gets the variable
/// of its topology file, if it mounts one.
void join_gang(Json& pod, std::int64_t gang, const GangDefaults& defaults);
/// Adds the preference of gang pods to be close to each other, where they do not specify a topology.
void request_topology(Json& pod, const GangDefaults& defaults);

}  // namespace qm::admission_policy
