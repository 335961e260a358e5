#include "qm/autoscaler/disrupt/conditions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace qm::autoscaler {
namespace {

using namespace std::chrono_literals;

/// Taints of a node that starts: they go away by themselves.
constexpr std::array<std::string_view, 4> kEphemeralTaints{
    "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized",
    kUnregisteredTaint};
/// Of the Node Readiness Controller, a taint for each of its rules.
constexpr std::string_view kReadinessTaints = "readiness.k8s.io/";

bool is_ephemeral(const Taint& taint) {
  return std::ranges::find(kEphemeralTaints, taint.key) != kEphemeralTaints.end() ||
         taint.key.starts_with(kReadinessTaints);
}

Condition unknown(std::string type, std::string reason, std::string message) {
  return {std::move(type), "Unknown", std::move(reason), std::move(message)};
}
Condition reached(const std::string& type) { return {type, "True", type, ""}; }

Condition registered(const ConditionInputs& life) {
  if (!life.node.exists) return unknown("Registered", "NodeNotFound", "Node not registered with cluster");
  const bool unregistered =
      std::ranges::any_of(life.node.taints, [](const Taint& taint) { return taint.key == kUnregisteredTaint; });
  if (unregistered && !life.initialized)
    return unknown("Registered", "UnregisteredTaintExists",
                   fmt::format("Taint {} is not removed yet", kUnregisteredTaint));
  return reached("Registered");
}

Condition ready_of(const std::vector<Condition>& conditions) {
  std::string missing;
  for (const Condition& one : conditions) {
    if (one.status == "True") continue;
    missing += fmt::format("{}{}={}", missing.empty() ? "" : ", ", one.type, one.status);
  }
  return missing.empty() ? reached("Ready") : unknown("Ready", "ReconcilingDependents", missing);
}

struct RepairPolicy {
  std::string_view type, status;
  Duration after;
};
constexpr std::array<RepairPolicy, 7> kRepairs{{{"Ready", "False", 30min},
                                                {"Ready", "Unknown", 30min},
                                                {"AcceleratedHardwareReady", "False", 10min},
                                                {"StorageReady", "False", 30min},
                                                {"NetworkingReady", "False", 30min},
                                                {"KernelReady", "False", 30min},
                                                {"ContainerRuntimeReady", "False", 30min}}};

}  // namespace

std::optional<Condition> initialization_gap(const NodeStart& node, const StartExpectation& expected) {
  const auto gap = [](const char* reason, std::string message) {
    return unknown("Initialized", reason, std::move(message));
  };
  if (!node.exists) return gap("NodeNotFound", "Node not registered with cluster");
  if (!node.ready) return gap("NodeNotReady", "Node status is NotReady");
  for (const Taint& taint : node.taints) {
    const auto same = [&](const Taint& one) { return one.key == taint.key && one.effect == taint.effect; };
    if (std::ranges::any_of(expected.startup_taints, same))
      return gap("StartupTaintsExist", fmt::format("StartupTaint \"{}\" still exists", text_of(taint)));
  }
  for (const Taint& taint : node.taints) {
    if (is_ephemeral(taint))
      return gap("KnownEphemeralTaintsExist", fmt::format("KnownEphemeralTaint \"{}\" still exists", text_of(taint)));
  }
  for (const std::string& resource : expected.resources) {
    const auto at = node.allocatable.find(resource);
    if (at == node.allocatable.end() || at->second <= 0)
      return gap("ResourceNotRegistered", fmt::format("Resource \"{}\" was requested but not registered", resource));
  }
  return std::nullopt;
}

std::vector<Condition> node_claim_conditions(const ConditionInputs& life) {
  std::vector<Condition> out;
  out.push_back(life.launched ? reached("Launched")
                              : unknown("Launched", "AwaitingReconciliation", "object is awaiting reconciliation"));
  out.push_back(registered(life));
  const auto gap = life.initialized ? std::nullopt : initialization_gap(life.node, life.expected);
  out.push_back(gap ? *gap : reached("Initialized"));
  out.push_back(ready_of(out));
  if (life.consolidatable) out.push_back(reached("Consolidatable"));
  if (!life.drift.empty()) out.push_back({"Drifted", "True", life.drift, life.drift_message});
  if (life.node.exists) {
    out.push_back(life.inconsistent.empty()
                      ? reached("ConsistentStateFound")
                      : Condition{"ConsistentStateFound", "False", "ConsistencyCheckFailed", life.inconsistent});
  }
  if (!life.disruption.empty()) out.push_back({"DisruptionReason", "True", life.disruption, ""});
  if (life.draining) {
    out.push_back(life.pods == 0 ? reached("Drained")
                                 : unknown("Drained", "Draining", fmt::format("{} pods are on the node", life.pods)));
  }
  if (life.terminating) out.push_back(reached("InstanceTerminating"));
  return out;
}

std::optional<Repair> repair_of(const std::vector<NodeCondition>& conditions) {
  std::optional<Repair> first;
  for (const NodeCondition& condition : conditions) {
    for (const RepairPolicy& policy : kRepairs) {
      if (condition.type != policy.type || condition.status != policy.status) continue;
      const Instant at = condition.since + policy.after;
      if (!first || at < first->at) first = Repair{fmt::format("{} is {}", condition.type, condition.status), at};
    }
  }
  return first;
}

}  // namespace qm::autoscaler
