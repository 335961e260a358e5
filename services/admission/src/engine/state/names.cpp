// The names of phases, events and verdicts, as messages and rows have them.
#include "qm/admission/commands.hpp"

namespace qm::admission {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kPending:
      return "Pending";
    case Phase::kQuotaReserved:
      return "QuotaReserved";
    case Phase::kAdmitted:
      return "Admitted";
    case Phase::kEvicting:
      return "Evicting";
    case Phase::kFinished:
      return "Finished";
    case Phase::kCancelled:
      return "Cancelled";
    case Phase::kRejected:
      return "Rejected";
  }
  return "Unknown";
}

std::string_view name_of(Event::What what) {
  switch (what) {
    case Event::What::kQueued:
      return "Queued";
    case Event::What::kQuotaReserved:
      return "QuotaReserved";
    case Event::What::kAdmitted:
      return "Admitted";
    case Event::What::kEvicting:
      return "Evicting";
    case Event::What::kRequeued:
      return "Requeued";
    case Event::What::kFinished:
      return "Finished";
    case Event::What::kCancelled:
      return "Cancelled";
    case Event::What::kBound:
      return "Bound";
    case Event::What::kChecked:
      return "Checked";
    case Event::What::kDeactivated:
      return "Deactivated";
    case Event::What::kActivated:
      return "Activated";
    case Event::What::kPodsEnded:
      return "PodsEnded";
    case Event::What::kUpdated:
      return "Updated";
    case Event::What::kRejected:
      return "Rejected";
    case Event::What::kRepeated:
      return "Repeated";
    case Event::What::kForgotten:
      return "Forgotten";
  }
  return "Unknown";
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPending:
      return "Pending";
    case Verdict::kReady:
      return "Ready";
    case Verdict::kRetry:
      return "Retry";
    case Verdict::kRejected:
      return "Rejected";
  }
  return "Unknown";
}

}  // namespace qm::admission
