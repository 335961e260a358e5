#include "quota/proposals.hpp"

#include "qm/admission/queries/queues.hpp"
#include "qm/admission/volcano/victim_policies.hpp"
#include "qm/model/moves.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission {
namespace {

constexpr int kTheRow = 0;
constexpr Duration kWindow = std::chrono::hours(1);

bool preempts_lower(PreemptPolicy policy) { return policy != PreemptPolicy::kNever && policy != PreemptPolicy::kUnset; }

std::string dollars(std::int64_t micro_usd) { return fmt::format("${:.2f}", static_cast<double>(micro_usd) / 1e6); }

std::string workloads(std::size_t count) { return fmt::format("{} workload{}", count, count == 1 ? "" : "s"); }

struct Objection {
  std::string reason;
  std::vector<WorkloadUid> kept;  ///< the victims that are not evicted
};

std::int64_t recent_preemptions(const EngineState& state) {
  const auto* row = state.tables.preemption_budget.find(kTheRow);
  return row == nullptr || row->since + kWindow <= state.now ? 0 : row->workloads;
}

/// Why a victim must not be evicted in this way; empty if it may. `leaving` adds up the quota that accepted victims
/// release, by queue.
std::string_view objection_to(const EngineState& state, const Workload& victim, const Workload& by, Leaving way,
                              std::map<QueueName, Usage>& leaving) {
  if (victim.phase == Phase::kEvicting) return "AlreadyEvicting";
  if (victim.phase != Phase::kAdmitted) return "NotRunning";
  if (victim.external_scheduler) return "ExternalScheduler";
  const auto may = victim.spec.labels.find(std::string(volcano::kPreemptable));
  if (may != victim.spec.labels.end() && may->second == "false") return "NotPreemptable";
  if (victim.min_runtime_until > state.now) return "MinimumRunTime";
  if (state.indexes.decisions.pooled(victim.cluster_queue)) return "PoolQueue";
  if (way != Leaving::kGone) {
    // Other pending workloads would get the released quota before its next attempt.
    const auto root = quota_tree_name(state.tables, victim.cluster_queue);
    const bool others_first = std::ranges::any_of(state.indexes.waiting, [&](const auto& waiting) {
      const auto& [queue, line] = waiting;
      return line.ready > 0 && line.all.first() < QueueOrder::of(victim) &&
             quota_tree_name(state.tables, queue) == root;
    });
    if (others_first) return "OtherWorkloadsPending";
    if (stays_where_it_is(*victim.spec.kind, *victim.spec.labels)) return "NotMovable";
    if (way == Leaving::kMoves) return {};
    // This cannot cycle: each such proposal places one more workload, and no workload loses its placement.
    return victim.spec.priority > by.spec.priority ? "PriorityHigher" : std::string_view();
  }
  if (victim.spec.priority >= by.spec.priority) return "PriorityNotLower";
  const auto* queue = state.tables.cluster_queues.find(by.cluster_queue);
  if (queue == nullptr) return "QueuePolicy";
  const bool own = victim.cluster_queue == by.cluster_queue;
  if (!own && quota_tree_name(state.tables, victim.cluster_queue) != quota_tree_name(state.tables, by.cluster_queue))
    return "OtherQuota";
  if (!preempts_lower(own ? queue->within_cluster_queue : queue->reclaim_within_cohort)) return "QueuePolicy";
  if (!state.indexes.decisions.may_displace(by.spec.uid, victim.spec.uid)) return "PreemptionCycle";
  if (own) return {};
  // A workload of another queue is evicted only while that queue uses more than its nominal quota.
  const auto held = held_in(state, victim.cluster_queue);
  auto& gone = leaving[victim.cluster_queue];
  Usage nominal;
  if (const auto* theirs = state.tables.cluster_queues.find(victim.cluster_queue)) {
    for (const auto& group : current_groups(state, *theirs)) {
      for (const auto& flavor : group.flavors) {
        for (const auto& [resource, quota] : flavor.resources) nominal[{flavor.flavor, resource}] += quota.nominal;
      }
    }
  }
  const bool borrows = std::ranges::any_of(*victim.usage, [&](const auto& used) {
    const auto now = held.find(used.first);
    return now != held.end() && now->second - gone[used.first] > nominal[used.first];
  });
  if (!borrows) return "NotBorrowing";
  for (const auto& [at, amount] : victim.usage) gone[at] += amount;
  return {};
}

std::optional<Objection> check_proposal(const EngineState& state, const Workload& w, const ProposalUpdated& c) {
  if (c.victims.empty()) return Objection{"NoVictims", {}};
  if (!c.move && w.promised_until > state.now) return Objection{"CapacityAnnounced", {}};
  Objection out;
  std::map<QueueName, Usage> leaving;
  for (const auto& [uid, attempt, moves] : c.victims) {
    const Workload* victim = state.tables.workloads.find(uid);
    std::string_view why = "NotRunning";
    if (victim != nullptr && victim->attempt == attempt && (uid == c.uid) == c.move) {
      why = objection_to(state, *victim, w, c.move ? Leaving::kMoves : Leaving::kGone, leaving);
      // A victim that keeps a placement only has to satisfy the rules for migration.
      if (!why.empty() && moves && !c.move) why = objection_to(state, *victim, w, Leaving::kMovesFor, leaving);
    }
    if (why.empty()) continue;
    if (out.reason.empty()) out.reason = why;
    out.kept.push_back(uid);
  }
  if (!out.reason.empty()) return out;
  if (recent_preemptions(state) + std::ssize(c.victims) > state.options.disruptions_per_hour)
    return Objection{"EvictionBudget", {}};
  return std::nullopt;
}

}  // namespace

Instant victims_deadline(const Tables& tables, const Workload& w) {
  const ProposalDecision* row = tables.proposals.size() == 0 ? nullptr : tables.proposals.find(w.spec.uid);
  return row != nullptr && row->accepted && row->attempt == w.attempt ? row->until : Instant{};
}

bool waits_for_victims(const Tables& tables, const Workload& w) {
  if (victims_deadline(tables, w) == Instant{}) return false;
  return std::ranges::any_of(tables.proposals.find(w.spec.uid)->victims, [&](const WorkloadUid& uid) {
    const Workload* victim = tables.workloads.find(uid);
    return victim != nullptr && victim->phase == Phase::kEvicting;
  });
}
void Proposals::on(const ProposalUpdated& c) {
  const ProposalDecision* known = state_.tables.proposals.find(c.uid);
  if (c.withdrawn) {
    // Its victims are being evicted already; nothing else is pending for the proposal.
    if (known != nullptr && known->number == c.number) state_.tables.proposals.erase(c.uid);
    return;
  }
  const Workload* w = state_.current_attempt(c.uid, c.attempt);
  if (w == nullptr) return;
  if (known != nullptr && known->attempt == c.attempt && known->number >= c.number) {
    if (known->number == c.number) rows_.publish(Event::What::kRepeated, c.uid);
    return;
  }
  const bool asks = c.move ? w->phase == Phase::kAdmitted : w->phase == Phase::kQuotaReserved && !w->gated;
  if (!asks) {
    ++state_.counters.stale;
    return;
  }
  ProposalDecision decision{c.attempt, c.number, true, c.move, {}, {}, {}, c.micro_usd, {}};
  if (auto objection = check_proposal(state_, *w, c)) {
    decision.accepted = false;
    decision.reason = std::move(objection->reason);
    decision.kept = std::move(objection->kept);
    state_.tables.proposals.insert(c.uid, std::move(decision));
    return rows_.publish(Event::What::kRepeated, c.uid);
  }
  for (const auto& victim : c.victims) decision.victims.push_back(victim.uid);
  const Instant deadline = state_.now + state_.options.eviction_grace;
  if (!c.move) decision.until = deadline + state_.options.retry_interval;
  const ProposalDecision& row = state_.tables.proposals.insert(c.uid, std::move(decision));
  PreemptionBudget count{state_.now, 0};
  if (recent_preemptions(state_) > 0) count = *state_.tables.preemption_budget.find(kTheRow);
  count.workloads += std::ssize(row.victims);
  state_.tables.preemption_budget.insert(kTheRow, count);

  const std::string cost =
      fmt::format("proposal {} of placement, {} for {}", c.number, dollars(c.micro_usd), workloads(row.victims.size()));
  if (c.move)
    return transitions_.evict(c.uid, "Consolidated", fmt::format("it is migrated so that nodes become free: {}", cost),
                              deadline);
  for (const auto& victim : c.victims) {
    if (!victim.moves) (void)state_.indexes.decisions.record_preemption(c.uid, victim.uid, state_.now);
    transitions_.evict(victim.uid, victim.moves ? "MigratedForPlacement" : "PreemptedForPlacement",
                       fmt::format("preempted for {}/{}{}: {}", w->spec.ns, w->spec.name,
                                   victim.moves ? " and has a reservation on other nodes" : "", cost),
                       deadline);
  }
  rows_.update(c.uid, [&](Workload& changed) {
    if (changed.wait_deadline != Instant{}) changed.wait_deadline = std::max(changed.wait_deadline, row.until);
  });
  rows_.publish(Event::What::kRepeated, c.uid);
}

void Proposals::extend_deadline(const WorkloadUid& uid) {
  const Instant until = state_.now + state_.options.retry_interval;
  state_.tables.proposals.edit(uid).until = until;
  rows_.update(uid, [&](Workload& row) { row.wait_deadline = until; });
}

void Proposals::drop_decisions() {
  if (state_.tables.proposals.size() == 0) return;
  std::vector<WorkloadUid> over;
  for (const auto& [uid, row] : state_.tables.proposals) {
    const Workload* w = state_.tables.workloads.find(uid);
    const bool stands = w != nullptr && w->attempt == row.attempt &&
                        (row.move ? w->phase == Phase::kEvicting : w->phase == Phase::kQuotaReserved);
    if (!stands) over.push_back(uid);
  }
  for (const auto& uid : over) state_.tables.proposals.erase(uid);
}

}  // namespace qm::admission
