#pragma once
#include "pod.hpp"
#include "qm/admission/webhook/policy.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace qm::admission::webhook {

using Findings = std::vector<Finding>;

/// One pod as the rules look at it: what it says, what makes it, and where it would live.
struct Case {
  const Labels& labels;
  const Json& pod;  ///< metadata and spec
  const Settings& settings;
  const View::Namespace& home;
  const std::string& ns;
  const std::vector<ResourceQuota>& quotas;
  std::int64_t gang = 1;     ///< pods that only run together
  bool is_template = false;  ///< of a Job: its pods come later
  bool gpus = false;         ///< it asks for some
  [[nodiscard]] const Json& spec() const { return pod["spec"]; }
  [[nodiscard]] const Facts& facts() const { return settings.facts; }
  [[nodiscard]] std::string_view label(std::string_view key) const;  ///< of the pod; empty where absent
};

/// The rules by number: Modes and Rule tables have them in this order, and so do findings.
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
  [[nodiscard]] bool mends() const;  ///< any of them

 private:
  std::array<Mode, kRuleCount> modes_;
};

/// How each rule is meant in this namespace.
[[nodiscard]] Modes modes_in(const View::Namespace& home, const Settings& settings);
/// What is against the pod, by all rules but those that are off. Fields are below the pod's spec, or begin with "metadata".
void examine(const Case& one, const Modes& modes, Findings& out);
[[nodiscard]] RuleId rule_of(const Finding& finding);
/// Adds what the rules that mend would miss.
void supply(Json& pod, const Labels& own, const View::Namespace& defaults, const Settings& settings,
            const Modes& modes);

// ---- the rules that have a file of their own ----

void gpu_proportion(const Case& one, Findings& out);
void gpu_sharing(const Case& one, Findings& out);
void compliance(const Case& one, Findings& out);
void pool_purpose(const Case& one, Findings& out);
void gpu_namespace(const Case& one, Findings& out);
void gpu_priority(const Case& one, Findings& out);
void gang_topology(const Case& one, Findings& out);
void gang_environment(const Case& one, Findings& out);

/// Whether a pod, or a template, asks for GPUs: by a container, or by what it says that it needs of one.
[[nodiscard]] bool asks_for_gpus(const Json& pod);
/// What the pod's need of a GPU comes to, asked for by its main container where no container asks for GPUs. A need that comes
/// to nothing is left to gpu_need.
void choose_shares(Json& pod);
/// Of the rule gpu-share: needs that cannot be met, or that say other than the containers do.
void gpu_need(const Case& one, Findings& out);

/// "container "x"", or "init container "x"".
[[nodiscard]] std::string in_container(const Json& container, const Place& place);
/// Whether some label asks for spot capacity, and whether any speaks of the kind of capacity.
[[nodiscard]] bool wants_spot(const Json& spec);
[[nodiscard]] bool says_capacity(const Json& spec);
/// Pods of the gang that a pod belongs to, as far as the pod tells; 1 = none, 2 = of some size.
[[nodiscard]] std::int64_t gang_of(const Json& pod);
/// What pods of a gang are given: see GangDefaults. `gang` = 1: a pod alone, which has its topology file named if it mounts
/// one.
void join_gang(Json& pod, std::int64_t gang, const GangDefaults& defaults);
/// That the pods of a gang would rather be near to each other, where they say nothing of it.
void ask_topology(Json& pod, const GangDefaults& defaults);

}  // namespace qm::admission::webhook
