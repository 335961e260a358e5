#include "qm/placement/disruption/proposal_lifecycle.hpp"

#include <algorithm>
#include <utility>

namespace qm::placement::disruption {
namespace {

constexpr int kMaxDoublings = 10;

Step drop(Proposal row, std::string why, Instant next) { return {std::move(row), {Drop{std::move(why), next}}}; }

Step unchanged(Proposal row) { return {std::move(row), {}}; }

Step publish_again(Proposal row, Instant now) {
  row.published_at = now;
  ++row.publish_count;
  return {std::move(row), {Publish{}}};
}

Step accept(Proposal row, Instant now) {
  row.state = ProposalState::kAccepted;
  row.published_at = now;
  return {std::move(row), {Accept{}}};
}

}  // namespace

Instant wake_at(const Proposal& row, const PreemptionOptions& preemption, const DefragOptions& defrag) {
  switch (row.state) {
    case ProposalState::kNone:
      break;
    case ProposalState::kProposed:
      return row.published_at + preemption.answer;
    case ProposalState::kAccepted:
      return row.move ? row.published_at + defrag.settle : Instant::max();
    case ProposalState::kRecovering:
      return row.until;
  }
  return Instant::max();
}

bool is_over(const Proposal& row, const WorkloadObserved& workload) {
  return !workload.exists || workload.attempt != row.attempt || workload.phase != WorkloadPhase::kQuotaReserved;
}

Step advance_preemption(Proposal row, const PreemptionObserved& seen, Instant now, const PreemptionOptions& options) {
  const bool accepted = row.state == ProposalState::kAccepted;
  const bool gone = seen.victims_left == 0;
  if (gone && !row.repartitions.empty()) return {std::move(row), {OrderRepartitions{}}};
  if ((accepted && gone) || (seen.changed && !seen.still_fits())) return drop(std::move(row), "Stale", now);
  if (accepted || row.published_at + options.answer > now) return unchanged(std::move(row));
  if (row.publish_count >= options.max_publications) return drop(std::move(row), "Unanswered", now + options.again);
  if (!seen.made_again()) return drop(std::move(row), "Stale", now);
  return publish_again(std::move(row), now);
}

Step answer_preemption(Proposal row, const ProposalAnswer& answer, Instant now, const PreemptionOptions& options) {
  if (answer.accepted) {
    row.state = ProposalState::kAccepted;
    row.refusals = 0;
    return {std::move(row), {Accept{}}};
  }
  for (const WorkloadUid& victim : answer.refused) row.refused[victim] = now + options.again;
  std::erase_if(row.refused, [&](const auto& one) { return one.second <= now; });
  ++row.refusals;
  const Duration wait = row.refusals < 2 && !answer.refused.empty()
                            ? Duration{0}
                            : options.every * (std::int64_t{1} << std::min(row.refusals, kMaxDoublings));
  return drop(std::move(row), answer.reason, now + wait);
}

Step review_migration(Proposal row, const MigrationObserved& seen, Instant now) {
  const auto& [exists, attempt, phase] = seen.workload;
  const bool accepted = row.state == ProposalState::kAccepted;
  if (exists && attempt == row.attempt) {
    const bool runs = phase == WorkloadPhase::kAdmitted || (accepted && phase == WorkloadPhase::kEvicting);
    return runs ? unchanged(std::move(row)) : drop(std::move(row), "Over", now);
  }
  if (exists && seen.placed) return drop(std::move(row), seen.as_planned ? "Placed" : "Elsewhere", now);
  const bool pending = phase == WorkloadPhase::kPending || phase == WorkloadPhase::kQuotaReserved;
  if (!exists || attempt != row.attempt + 1 || !pending) return drop(std::move(row), "Over", now);
  if (accepted) return unchanged(std::move(row));
  // It was evicted before the answer arrived: the capacity is held for it all the same.
  return accept(std::move(row), now);
}

Step advance_migration(Proposal row, const std::function<bool()>& step_is_valid, Instant now,
                       const PreemptionOptions& preemption, const DefragOptions& defrag) {
  if (row.state == ProposalState::kAccepted) {
    const bool late = row.published_at + defrag.settle <= now;
    return late ? drop(std::move(row), "Late", now) : unchanged(std::move(row));
  }
  if (row.published_at + preemption.answer > now) return unchanged(std::move(row));
  if (row.publish_count >= preemption.max_publications) return drop(std::move(row), "Unanswered", now);
  if (!step_is_valid()) return drop(std::move(row), "Stale", now);
  return publish_again(std::move(row), now);
}

Step answer_migration(Proposal row, const ProposalAnswer& answer, Instant now) {
  return answer.accepted ? accept(std::move(row), now) : drop(std::move(row), answer.reason, now);
}

Step advance_recovery(Proposal row, const WorkloadObserved& workload, Instant now) {
  const bool over = !workload.exists || workload.attempt > row.attempt + 1 || row.until <= now ||
                    workload.phase == WorkloadPhase::kFinished || workload.phase == WorkloadPhase::kCancelled;
  return over ? drop(std::move(row), "Over", now) : unchanged(std::move(row));
}

}  // namespace qm::placement::disruption
