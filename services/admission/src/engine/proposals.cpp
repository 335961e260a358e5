// Checks the proposals of placement, victim by victim, by the rules of quota: lower priority, a queue whose policy
// permits it, no minimum run time left, no cycle of preemptions, and a limit per hour. Victims are evicted in the usual
// way. The preemptor keeps its quota until they are gone.
#include "qm/admission/volcano/victim_policies.hpp"
#include "qm/model/moves.hpp"
#include "update.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

constexpr int kTheRow = 0;
constexpr Duration kWindow = std::chrono::hours(1);

bool preempts_lower(PreemptPolicy policy) { return policy != PreemptPolicy::kNever && policy != PreemptPolicy::kUnset; }

std::string dollars(std::int64_t micro_usd) { return fmt::format("${:.2f}", static_cast<double>(micro_usd) / 1e6); }

std::string workloads(std::size_t count) { return fmt::format("{} workload{}", count, count == 1 ? "" : "s"); }

}  // namespace

std::string Engine::root_of(const QueueName& queue) const {
  const auto* row = tables_.cluster_queues.find(queue);
  if (row == nullptr || row->cohort.empty()) return "queue/" + queue.value();
  std::string name = row->cohort;
  std::set<std::string> seen;  // a cycle may end anywhere: its queues are not scheduled
  while (seen.insert(name).second) {
    const auto* cohort = tables_.cohorts.find(name);
    if (cohort == nullptr || cohort->parent.empty()) break;
    name = cohort->parent;
  }
  return "cohort/" + name;
}

std::int64_t Engine::recent_preemptions() const {
  const auto* row = tables_.preemption_budget.find(kTheRow);
  return row == nullptr || row->since + kWindow <= now_ ? 0 : row->workloads;
}

/// Why a victim must not be evicted in this way; empty if it may. `leaving` adds up the quota that accepted victims
/// release, by queue.
std::string_view Engine::objection_to(const Workload& victim, const Workload& by, Leaving way,
                                      std::map<QueueName, Usage>& leaving) const {
  if (victim.phase == Phase::kEvicting) return "AlreadyEvicting";
  if (victim.phase != Phase::kAdmitted) return "NotRunning";
  if (victim.external_scheduler) return "ExternalScheduler";
  const auto may = victim.spec.labels.find(std::string(volcano::kPreemptable));
  if (may != victim.spec.labels.end() && may->second == "false") return "NotPreemptable";
  if (victim.min_runtime_until > now_) return "MinimumRunTime";
  if (indexes_.decisions.pooled(victim.cluster_queue)) return "PoolQueue";
  if (way != Leaving::kGone) {
    // Other pending workloads would get the released quota before its next attempt.
    const auto root = root_of(victim.cluster_queue);
    const bool others_first = std::ranges::any_of(indexes_.waiting, [&](const auto& waiting) {
      const auto& [queue, line] = waiting;
      return line.ready > 0 && line.all.first() < QueueOrder::of(victim) && root_of(queue) == root;
    });
    if (others_first) return "OtherWorkloadsPending";
    if (stays_where_it_is(*victim.spec.kind, *victim.spec.labels)) return "NotMovable";
    if (way == Leaving::kMoves) return {};
    // This cannot cycle: each such proposal places one more workload, and no workload loses its placement.
    return victim.spec.priority > by.spec.priority ? "PriorityHigher" : std::string_view();
  }
  if (victim.spec.priority >= by.spec.priority) return "PriorityNotLower";
  const auto* queue = tables_.cluster_queues.find(by.cluster_queue);
  if (queue == nullptr) return "QueuePolicy";
  const bool own = victim.cluster_queue == by.cluster_queue;
  if (!own && root_of(victim.cluster_queue) != root_of(by.cluster_queue)) return "OtherQuota";
  if (!preempts_lower(own ? queue->within_cluster_queue : queue->reclaim_within_cohort)) return "QueuePolicy";
  if (!indexes_.decisions.may_displace(by.spec.uid, victim.spec.uid)) return "PreemptionCycle";
  if (own) return {};
  // A workload of another queue is evicted only while that queue uses more than its nominal quota.
  const auto held = held_in(victim.cluster_queue);
  auto& gone = leaving[victim.cluster_queue];
  Usage nominal;
  if (const auto* theirs = tables_.cluster_queues.find(victim.cluster_queue)) {
    for (const auto& group : groups(*theirs)) {
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

std::optional<Engine::Objection> Engine::check_proposal(const Workload& w, const ProposalUpdated& c) const {
  if (c.victims.empty()) return Objection{"NoVictims", {}};
  if (!c.move && w.promised_until > now_) return Objection{"CapacityAnnounced", {}};
  Objection out;
  std::map<QueueName, Usage> leaving;
  for (const auto& [uid, attempt, moves] : c.victims) {
    const Workload* victim = tables_.workloads.find(uid);
    std::string_view why = "NotRunning";
    if (victim != nullptr && victim->attempt == attempt && (uid == c.uid) == c.move) {
      why = objection_to(*victim, w, c.move ? Leaving::kMoves : Leaving::kGone, leaving);
      // A victim that keeps a placement only has to satisfy the rules for migration.
      if (!why.empty() && moves && !c.move) why = objection_to(*victim, w, Leaving::kMovesFor, leaving);
    }
    if (why.empty()) continue;
    if (out.reason.empty()) out.reason = why;
    out.kept.push_back(uid);
  }
  if (!out.reason.empty()) return out;
  if (recent_preemptions() + std::ssize(c.victims) > options_.preemption_budget_per_hour)
    return Objection{"EvictionBudget", {}};
  return std::nullopt;
}

void Engine::on(const ProposalUpdated& c) {
  const ProposalDecision* known = tables_.proposals.find(c.uid);
  if (c.withdrawn) {
    // Its victims are being evicted already; nothing else is pending for the proposal.
    if (known != nullptr && known->number == c.number) tables_.proposals.erase(c.uid);
    return;
  }
  const Workload* w = current_attempt(c.uid, c.attempt);
  if (w == nullptr) return;
  if (known != nullptr && known->attempt == c.attempt && known->number >= c.number) {
    if (known->number == c.number) publish(Event::What::kRepeated, c.uid);
    return;
  }
  const bool asks = c.move ? w->phase == Phase::kAdmitted : w->phase == Phase::kQuotaReserved && !w->gated;
  if (!asks) {
    ++counters_.stale;
    return;
  }
  ProposalDecision decision{c.attempt, c.number, true, c.move, {}, {}, {}, c.micro_usd, {}};
  if (auto objection = check_proposal(*w, c)) {
    decision.accepted = false;
    decision.reason = std::move(objection->reason);
    decision.kept = std::move(objection->kept);
    tables_.proposals.insert(c.uid, std::move(decision));
    return publish(Event::What::kRepeated, c.uid);
  }
  for (const auto& victim : c.victims) decision.victims.push_back(victim.uid);
  const Instant deadline = now_ + options_.eviction_grace;
  if (!c.move) decision.until = deadline + options_.retry_interval;
  const ProposalDecision& row = tables_.proposals.insert(c.uid, std::move(decision));
  PreemptionBudget count{now_, 0};
  if (recent_preemptions() > 0) count = *tables_.preemption_budget.find(kTheRow);
  count.workloads += std::ssize(row.victims);
  tables_.preemption_budget.insert(kTheRow, count);

  const std::string cost =
      fmt::format("proposal {} of placement, {} for {}", c.number, dollars(c.micro_usd), workloads(row.victims.size()));
  if (c.move)
    return evict(c.uid, "Consolidated", fmt::format("it is migrated so that nodes become free: {}", cost), deadline);
  for (const auto& victim : c.victims) {
    if (!victim.moves) (void)indexes_.decisions.record_preemption(c.uid, victim.uid, now_);
    evict(victim.uid, victim.moves ? "MigratedForPlacement" : "PreemptedForPlacement",
          fmt::format("preempted for {}/{}{}: {}", w->spec.ns, w->spec.name,
                      victim.moves ? " and has a reservation on other nodes" : "", cost),
          deadline);
  }
  update(c.uid, [&](Workload& changed) {
    if (changed.wait_deadline != Instant{}) changed.wait_deadline = std::max(changed.wait_deadline, row.until);
  });
  publish(Event::What::kRepeated, c.uid);
}

/// The end of the time for which quota is kept while victims terminate; zero if there are none.
Instant Engine::victims_deadline(const Workload& w) const {
  const ProposalDecision* row = tables_.proposals.size() == 0 ? nullptr : tables_.proposals.find(w.spec.uid);
  return row != nullptr && row->accepted && row->attempt == w.attempt ? row->until : Instant{};
}

bool Engine::waits_for_victims(const Workload& w) const {
  if (victims_deadline(w) == Instant{}) return false;
  return std::ranges::any_of(tables_.proposals.find(w.spec.uid)->victims, [&](const WorkloadUid& uid) {
    const Workload* victim = tables_.workloads.find(uid);
    return victim != nullptr && victim->phase == Phase::kEvicting;
  });
}

void Engine::extend_victims_deadline(const WorkloadUid& uid) {
  const Instant until = now_ + options_.retry_interval;
  tables_.proposals.edit(uid).until = until;
  update(uid, [&](Workload& row) { row.wait_deadline = until; });
}

/// Called at the start of a step: the answers to the proposals of the step before are published by then.
void Engine::drop_decisions() {
  if (tables_.proposals.size() == 0) return;
  std::vector<WorkloadUid> over;
  for (const auto& [uid, row] : tables_.proposals) {
    const Workload* w = tables_.workloads.find(uid);
    const bool stands = w != nullptr && w->attempt == row.attempt &&
                        (row.move ? w->phase == Phase::kEvicting : w->phase == Phase::kQuotaReserved);
    if (!stands) over.push_back(uid);
  }
  for (const auto& uid : over) tables_.proposals.erase(uid);
}

void Engine::digest_proposals(Digest& d) const {
  for (const auto& [uid, row] : tables_.proposals) {
    d.add(uid.value()).add(std::int64_t{row.attempt}).add(row.number);
    d.add(std::int64_t{row.accepted}).add(std::int64_t{row.move});
    d.add(row.reason).add(row.micro_usd).add(micros(row.until));
    for (const auto* names : {&row.kept, &row.victims}) {
      d.add(std::ssize(*names));
      for (const auto& name : *names) d.add(name.value());
    }
  }
  for (const auto& [key, row] : tables_.preemption_budget) d.add(micros(row.since)).add(row.workloads);
}

void Engine::explain_proposal(const Workload& w, std::vector<Cause>& causes) const {
  const ProposalDecision* row = tables_.proposals.find(w.spec.uid);
  if (row == nullptr || row->attempt != w.attempt) return;
  Cause c;
  if (!row->accepted) {
    c.code = "ProposalRefused";
    c.message =
        fmt::format("placement proposed victims of a preemption, and the proposal was refused: {}", row->reason);
    return causes.push_back(std::move(c));
  }
  std::string names;
  for (const auto& uid : row->victims) {
    const Workload* victim = tables_.workloads.find(uid);
    names += names.empty() ? "" : ", ";
    names += victim == nullptr ? uid.value() : fmt::format("{}/{}", victim->spec.ns, victim->spec.name);
  }
  c.code = "PreemptionInProgress";
  c.message = fmt::format("quota is reserved; preempting {}: {} (cost {})", workloads(row->victims.size()), names,
                          dollars(row->micro_usd));
  causes.push_back(std::move(c));
}

}  // namespace qm::admission
