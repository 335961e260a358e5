#include "qm/placement/model.hpp"

#include <algorithm>

namespace qm::placement {

std::string_view name_of(TopologyPolicy policy) {
  switch (policy) {
    case TopologyPolicy::kNone:
      return "none";
    case TopologyPolicy::kBestEffort:
      return "best-effort";
    case TopologyPolicy::kRestricted:
      return "restricted";
    case TopologyPolicy::kSingleNumaNode:
      return "single-numa-node";
  }
  return "?";
}

std::string_view name_of(NodeState state) {
  switch (state) {
    case NodeState::kReady:
      return "ready";
    case NodeState::kNotReady:
      return "not-ready";
    case NodeState::kCordoned:
      return "cordoned";
    case NodeState::kGone:
      return "gone";
  }
  return "?";
}

std::string_view name_of(AssignmentState state) {
  switch (state) {
    case AssignmentState::kReserved:
      return "reserved";
    case AssignmentState::kShort:
      return "short";
    case AssignmentState::kBound:
      return "bound";
    case AssignmentState::kReleased:
      return "released";
    case AssignmentState::kExpired:
      return "expired";
  }
  return "?";
}

std::string_view name_of(WorkloadPhase phase) {
  switch (phase) {
    case WorkloadPhase::kPending:
      return "pending";
    case WorkloadPhase::kQuotaReserved:
      return "quota-reserved";
    case WorkloadPhase::kAdmitted:
      return "admitted";
    case WorkloadPhase::kEvicting:
      return "evicting";
    case WorkloadPhase::kFinished:
      return "finished";
    case WorkloadPhase::kCancelled:
      return "cancelled";
  }
  return "?";
}

Assignment assignment_for(const WorkloadSpec& spec) {
  Assignment out;
  out.ns = spec.ns;
  out.workload = spec.name;
  out.team = spec.team;
  for (const auto key : words::kChargebackLabels) {
    if (const auto label = spec.labels.find(std::string(key)); label != spec.labels.end()) out.labels.insert(*label);
  }
  out.pod_sets = spec.pod_sets;
  return out;
}

std::optional<HealthVerdict> NodeCordonCauses::verdict() const {
  if (!health) return std::nullopt;
  // A verdict with one GPU and no list, as earlier telemetry releases publish it.
  const auto whole = [](HealthVerdict mark) {
    if (mark.gpu >= 0 && mark.gpus.empty()) mark.gpus[mark.gpu] = {mark.cordon, mark.reason, {}};
    return mark;
  };
  HealthVerdict out = whole(*health);
  if (!overridden) return out;
  const HealthVerdict past = whole(*overridden);
  std::erase_if(out.gpus, [&](const auto& gpu) {
    const auto known = past.gpus.find(gpu.first);
    return known != past.gpus.end() && known->second == gpu.second;
  });
  const bool of_node = out.cordon && out.gpu < 0 && !(past.cordon && past.gpu < 0 && past.reason == out.reason);
  const auto heaviest = std::ranges::find_if(out.gpus, [](const auto& gpu) { return gpu.second.cordon; });
  out.cordon = of_node || heaviest != out.gpus.end();
  if (!out.cordon && out.gpus.empty()) return std::nullopt;
  if (of_node) return out;
  const auto& [gpu, why] = heaviest != out.gpus.end() ? *heaviest : *out.gpus.begin();
  out.gpu = gpu;
  out.reason = why.reason;
  return out;
}

}  // namespace qm::placement
