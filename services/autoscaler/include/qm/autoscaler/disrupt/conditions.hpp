#pragma once
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

inline constexpr std::string_view kUnregisteredTaint = "karpenter.sh/unregistered";
inline constexpr std::string_view kDisruptedTaint = "karpenter.sh/disrupted";
/// NoSchedule: the pods for which the node was launched are not nominated for it yet.
inline constexpr std::string_view kNominatingTaint = "quartermaster.dev/nominating";

/// A condition as in Kubernetes, without its times.
struct Condition {
  std::string type;
  std::string status = "True";  ///< "True", "False" or "Unknown"
  std::string reason, message;
  friend auto operator<=>(const Condition&, const Condition&) = default;
};

/// What a node of a NodeClaim shows while it starts.
struct NodeStart {
  bool exists = false;
  bool ready = false;
  std::vector<Taint> taints;
  std::map<std::string, std::int64_t> allocatable;  ///< of extended resources
};
/// What its NodeClaim expects of it.
struct StartExpectation {
  std::vector<Taint> startup_taints;
  std::vector<std::string> resources;  ///< extended resources that its pods request
};

/// Why a node is not initialized, with Karpenter's reason; none = it is.
///
/// Order    the node exists; is ready; has no startup taint; no taint of a node that starts. Then every requested extended
///          resource is registered with an amount above zero.
/// Source   pkg/controllers/nodeclaim/lifecycle/initialization.go of Karpenter 1.14.
[[nodiscard]] std::optional<Condition> initialization_gap(const NodeStart& node, const StartExpectation& expected);

/// What the conditions of a NodeClaim follow from.
struct ConditionInputs {
  bool launched = false;
  NodeStart node;
  StartExpectation expected;
  bool initialized = false;   ///< it was once: a node that is not ready later remains initialized
  std::string drift;          ///< reason of drift; empty = none
  std::string drift_message;  ///< what differs
  bool consolidatable = false;
  std::string disruption;    ///< "Empty", "Drifted", ...: it is being disrupted; empty = it is not
  std::string inconsistent;  ///< how the node differs from its instance type; empty = it does not
  bool draining = false;
  std::int64_t pods = 0;  ///< on the node, while it is drained
  bool terminating = false;
};

/// The conditions of the status, in Karpenter's order. A condition that does not apply is absent.
///
/// Ready    True if Launched, Registered and Initialized are.
[[nodiscard]] std::vector<Condition> node_claim_conditions(const ConditionInputs& inputs);

/// A condition of a node and since when it has its status.
struct NodeCondition {
  std::string type, status;
  Instant since{};
};
struct Repair {
  std::string condition;  ///< "Ready is False"
  Instant at{};           ///< when the node is repaired
};
/// The condition of the node for which it is repaired first; none = the node is healthy.
///
/// Times    Ready not True: 30 min. AcceleratedHardwareReady False: 10 min. StorageReady, NetworkingReady, KernelReady
///          and ContainerRuntimeReady False: 30 min.
/// Source   RepairPolicies of Karpenter's AWS provider 1.14.
[[nodiscard]] std::optional<Repair> repair_of(const std::vector<NodeCondition>& conditions);

}  // namespace qm::autoscaler
