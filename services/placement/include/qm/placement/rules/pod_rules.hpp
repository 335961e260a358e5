#pragma once
#include "qm/model/resources.hpp"
#include "qm/topology/rules.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement::rules {

/// All that a pod says about where it may run, and what a node answers: plain values, no behaviour.
///
/// Units    amounts of CPU in milli-cores, of any other resource in its own units.
/// Source   the fields of a pod's spec of the same names in the Kubernetes API.

using topology::PreferredTerm;
using topology::Requirement;
using topology::SelectorTerm;

using Amounts = std::map<std::string, std::int64_t>;  ///< "cpu", "memory", "pods", "nvidia.com/gpu", ...
using NodeSelector = std::vector<SelectorTerm>;       ///< any of the terms; none of no terms

/// Which pods one term of pod affinity or anti-affinity speaks of, and over which label of nodes.
struct PodTerm {
  std::string topology_key;
  std::optional<LabelSelector> pods;                ///< none: no pod at all; without requirements: every pod
  std::vector<std::string> namespaces;              ///< with no selector of namespaces and none named: the pod's own
  std::optional<LabelSelector> namespace_selector;  ///< without requirements: every namespace
};
struct WeightedPodTerm {
  std::int64_t weight = 0;  ///< 1..100
  PodTerm term;
};

/// A topology spread constraint. What its matchLabelKeys say stands in `pods` already.
struct Spread {
  std::string topology_key;
  std::int64_t max_skew = 1;
  std::int64_t min_domains = 1;
  bool required = true;               ///< DoNotSchedule; otherwise ScheduleAnyway
  std::optional<LabelSelector> pods;  ///< none and without requirements: no pod is counted
  bool honor_affinity = true;         ///< nodes that the pod's selector and affinity leave out are not counted
  bool honor_taints = false;          ///< nor nodes whose taints it does not tolerate
};

struct HostPort {
  std::int32_t port = 0;
  std::string protocol = "TCP";
  std::string ip = "0.0.0.0";  ///< this one clashes with every other
  friend auto operator<=>(const HostPort&, const HostPort&) = default;
};

/// From which nodes a volume that the pod uses can be reached.
struct VolumeReach {
  std::string name;
  NodeSelector nodes;
};

/// A volume whose claim is made for each pod, with the name POD-VOLUME, and goes with it.
struct OwnClaim {
  std::string volume;
  std::optional<std::string> storage_class;  ///< none = the default one; empty = of no class
  friend auto operator<=>(const OwnClaim&, const OwnClaim&) = default;
};

struct PodRules {
  Labels node_selector;
  std::optional<NodeSelector> required;  ///< required node affinity
  std::vector<PreferredTerm> preferred;
  std::vector<Toleration> tolerations;
  std::vector<std::string> claims;  ///< names, in the pod's namespace: no rule by themselves, `volumes` is made of them
  std::vector<OwnClaim> own_claims;  ///< likewise
  std::vector<VolumeReach> volumes;
  std::vector<Spread> spread;
  std::vector<PodTerm> affinity, anti_affinity;
  std::vector<WeightedPodTerm> preferred_affinity, preferred_anti_affinity;
  std::vector<HostPort> ports;
  Amounts requests;  ///< as the scheduler counts them; the pod itself is not in it
};

/// Whether it says no more than a selector of nodes and tolerations.
[[nodiscard]] inline bool is_plain(const PodRules& r) {
  return !r.required && r.preferred.empty() && r.claims.empty() && r.own_claims.empty() && r.volumes.empty() &&
         r.spread.empty() && r.affinity.empty() && r.anti_affinity.empty() && r.preferred_affinity.empty() &&
         r.preferred_anti_affinity.empty() && r.ports.empty();
}

/// Pods that are alike to every rule.
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

/// Why a node does not take a pod.
struct Rejection {
  std::string_view rule;
  std::string words;  ///< that follow a number of nodes ("3 nodes ...")
};

}  // namespace qm::placement::rules
