#pragma once
#include "qm/kube_rules/node_selector.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::kube_rules {

/// Scheduling constraints of a pod and the matching properties of a node: plain values without behavior.
///
/// Units    amounts of CPU in milli-cores, of any other resource in its own units.
/// Source   the fields of a pod's spec of the same names in the Kubernetes API.

using Amounts = std::map<std::string, std::int64_t>;  ///< "cpu", "memory", "pods", "nvidia.com/gpu", ...

/// Pods and topology key of one term of pod affinity or anti-affinity.
struct PodTerm {
  std::string topology_key;
  std::optional<LabelSelector> pods;                ///< none: no pods; without requirements: all pods
  std::vector<std::string> namespaces;              ///< without namespaces and namespace selector: the pod's own
  std::optional<LabelSelector> namespace_selector;  ///< without requirements: all namespaces
};
struct WeightedPodTerm {
  std::int64_t weight = 0;  ///< 1..100
  PodTerm term;
};

/// A topology spread constraint. `pods` includes the matchLabelKeys.
struct Spread {
  std::string topology_key;
  std::int64_t max_skew = 1;
  std::int64_t min_domains = 1;
  bool required = true;               ///< DoNotSchedule; otherwise ScheduleAnyway
  std::optional<LabelSelector> pods;  ///< none and without requirements: no pod counts
  bool honor_affinity = true;         ///< nodes that fail the pod's selector and affinity do not count
  bool honor_taints = false;          ///< the same for nodes with taints that it does not tolerate
};

struct HostPort {
  std::int32_t port = 0;
  std::string protocol = "TCP";
  std::string ip = "0.0.0.0";  ///< conflicts with every address
  friend auto operator<=>(const HostPort&, const HostPort&) = default;
};

/// Nodes from which a volume of the pod can be used.
struct VolumeReach {
  std::string name;
  NodeSelector nodes;
};

/// A claim named POD-VOLUME that Kubernetes creates for each pod and deletes with it (generic ephemeral
/// volume).
struct OwnClaim {
  std::string volume;
  std::optional<std::string> storage_class;  ///< none = the default class; empty = no class
  friend auto operator<=>(const OwnClaim&, const OwnClaim&) = default;
};

struct PodRules : NodeConstraints {
  std::vector<std::string> claims;   ///< names, in the pod's namespace: input for `volumes`, not a rule
  std::vector<OwnClaim> own_claims;  ///< the same
  std::vector<VolumeReach> volumes;
  std::vector<Spread> spread;
  std::vector<PodTerm> affinity, anti_affinity;
  std::vector<WeightedPodTerm> preferred_affinity, preferred_anti_affinity;
  std::vector<HostPort> ports;
  Amounts requests;  ///< as the scheduler counts them, without the pod itself
};

/// Whether the pod has only a node selector and tolerations.
[[nodiscard]] inline bool is_plain(const PodRules& r) {
  return !r.required && r.preferred.empty() && r.claims.empty() && r.own_claims.empty() && r.volumes.empty() &&
         r.spread.empty() && r.affinity.empty() && r.anti_affinity.empty() && r.preferred_affinity.empty() &&
         r.preferred_anti_affinity.empty() && r.ports.empty();
}

/// Pods with equal properties for every rule.
struct PodTemplate {
  Namespace ns;
  Labels labels;
  PodRules rules;
};

struct NodeView {
  NodeName name;
  Labels labels;
  std::vector<Taint> taints;
  bool unschedulable = false;
  Amounts allocatable;  ///< with "pods": how many it may run
  friend auto operator<=>(const NodeView&, const NodeView&) = default;
};

/// Why a node rejects a pod.
struct Rejection {
  std::string_view rule;
  std::string words;  ///< text after a number of nodes ("3 nodes ...")
};

}  // namespace qm::kube_rules
