#include "qm/admission/kueue/requeue.hpp"

#include <fmt/format.h>

namespace qm::admission::kueue {

std::string_view name_of(Requeue reason) {
  switch (reason) {
    case Requeue::kGeneric:
      return "";
    case Requeue::kFailedAfterNomination:
      return "FailedAfterNomination";
    case Requeue::kNamespaceMismatch:
      return "NamespaceMismatch";
    case Requeue::kPreemptionGated:
      return "PreemptionGated";
    case Requeue::kPendingPreemption:
      return "PendingPreemption";
    case Requeue::kPendingMigration:
      return "PendingMigration";
    case Requeue::kPreemptionFailed:
      return "PreemptionFailed";
    case Requeue::kNoFit:
      return "NoFit";
    case Requeue::kNoCandidates:
      return "PreemptionNoCandidates";
  }
  return "";
}

Return returned(Fate fate, Requeue reason, bool strict, bool flavors_left) {
  Return out;
  const bool was_nominated = fate != Fate::kNotNominated;
  out.reason = was_nominated && reason == Requeue::kGeneric ? Requeue::kFailedAfterNomination : reason;
  const bool preempts = out.reason == Requeue::kPendingPreemption || out.reason == Requeue::kPendingMigration;
  const bool soon =
      preempts || out.reason == Requeue::kFailedAfterNomination || out.reason == Requeue::kPreemptionFailed;
  out.at_once = flavors_left || (strict ? out.reason != Requeue::kNamespaceMismatch : soon);
  out.leads = preempts && !strict;
  out.closes_shape = !out.at_once && !strict && (reason == Requeue::kNoFit || reason == Requeue::kNoCandidates);
  out.reports = fate == Fate::kNotNominated || fate == Fate::kSkipped || fate == Fate::kGated;
  return out;
}

Displacing preempting(int issued, int failed) {
  if (issued > 0) {
    return {Requeue::kPendingPreemption, fmt::format(". Pending the preemption of {} workload(s)", issued)};
  }
  if (failed > 0) {
    return {Requeue::kPreemptionFailed, fmt::format(". Preempting {} workload(s) failed, will retry.", failed)};
  }
  return {};
}

std::vector<Condition> conditions_of(Fate fate, std::string_view wait, std::string_view text) {
  std::vector<Condition> out{{"QuotaReserved", false, std::string(wait), std::string(text)},
                             {"Admitted", false, "NoReservation", "The workload has no reservation"}};
  if (fate == Fate::kGated) out.push_back({"BlockedOnPreemptionGates", true, "PreemptionGated", std::string(text)});
  return out;
}

}  // namespace qm::admission::kueue
