#include "qm/placement/model.hpp"

namespace qm::placement {

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

}  // namespace qm::placement
