#pragma once
#include "qm/autoscaler/disrupt/conditions.hpp"
#include "qm/autoscaler/disrupt/holds.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// What the API server shows of a node, in addition to its readiness and its number of pods.
struct NodeDetails {
  InstanceId instance;
  std::vector<Taint> taints;
  std::map<std::string, std::int64_t> capacity;     ///< CPU in milli-cores, memory in bytes
  std::map<std::string, std::int64_t> allocatable;  ///< of extended resources
  bool do_not_disrupt = false;                      ///< the node itself has the annotation "true"
  bool serves = false;                              ///< pods of a service, not of a Job, run on it
  std::string unhealthy;                            ///< the condition for which it is repaired; empty = none
  Instant repair_at{};                              ///< with `unhealthy`
  std::vector<HoldingPod> holding;                  ///< pods with the annotation, or that a PodDisruptionBudget blocks
  friend auto operator<=>(const NodeDetails&, const NodeDetails&) = default;
};

/// An input of the engine.
struct NodeDetailsUpdated {
  NodeName node;
  bool gone = false;
  NodeDetails details;
};

/// The part of a NodePool that decides how its nodes start and end.
struct PoolLifecycle {
  std::vector<Taint> startup_taints;          ///< removed by others before the node is used
  Labels annotations;                         ///< of its nodes
  std::optional<Duration> expire_after;       ///< since the request of the claim; none = never
  std::optional<Duration> termination_grace;  ///< a drain ends by force after this time; none = never
  std::string template_hash;  ///< of the static fields of the template; a claim with another one is drifted
  std::vector<std::string> images, subnets, security_groups;  ///< of its class, sorted; empty = not known
  friend auto operator<=>(const PoolLifecycle&, const PoolLifecycle&) = default;
};

/// How a claim starts and ends.
struct ClaimLifecycle {
  std::string template_hash;                                ///< of its NodePool at the launch; empty = not known
  std::optional<Duration> expire_after, termination_grace;  ///< of its NodePool at the launch
  std::vector<std::string> resources;                       ///< extended resources that its pods request
  std::string image, subnet;                                ///< of its instance; empty = not known
  std::vector<std::string> security_groups;                 ///< likewise, sorted
  bool initialized = false;                                 ///< it was ready once, with all requested resources
  std::string drift, drift_message;                         ///< reason and what differs; empty = not drifted
  std::optional<Instant> drifted_since;                     ///< with `drift`
  std::string disruption;                                   ///< a DisruptionCause; empty = it is not disrupted
  std::optional<Instant> deadline;                          ///< of its drain: then it ends with the pods on it
  ClaimName replaces, replaced_by;                          ///< the replacement of a disrupted claim
  std::optional<Instant> consolidated;  ///< a consolidation launched it then: it is not replaced again for a while
  std::optional<Instant> not_consolidated_before;  ///< a consolidation of it was given up
  friend auto operator<=>(const ClaimLifecycle&, const ClaimLifecycle&) = default;
};

/// Instances of a type and image did not become ready in time.
struct LaunchFault {
  std::int32_t count = 0;
  std::string reason;  ///< of the last one
  Instant until{};     ///< then it is forgotten
  friend auto operator<=>(const LaunchFault&, const LaunchFault&) = default;
};

/// Drift of a NodePool pauses, because replacements failed.
struct DriftBackOff {
  std::int32_t failures = 0;
  Instant until{};
  std::string reason;
  friend auto operator<=>(const DriftBackOff&, const DriftBackOff&) = default;
};

}  // namespace qm::autoscaler
