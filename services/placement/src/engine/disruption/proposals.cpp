// Preemption proposals. For a workload with quota that does not fit, the nodes and victim candidates become a
// scene, and a search finds the cheapest victims. The engine's own placement then verifies that the workload
// fits without them. An active proposal is a row: the capacity that it depends on is held. It is checked
// again before each publication and after admission's answer.
#include "engine/disruption/preemption_problem.hpp"
#include "engine/mig/mig_layout_catalog.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

constexpr std::size_t kMaxReleased = 32;  // with at most so many victims, each is tried without eviction
constexpr int kMaxDoublings = 10;

const Proposal kNothing;

}  // namespace

std::set<NodeName> Proposal::nodes() const {
  std::set<NodeName> out;
  for (const HeldCapacity& place : places) out.insert(place.node);
  for (const Victim& victim : victims) {
    for (const HeldCapacity& place : victim.to) out.insert(place.node);
  }
  return out;
}

std::string_view name_of(ProposalState state) {
  switch (state) {
    case ProposalState::kNone:
      return "none";
    case ProposalState::kProposed:
      return "proposed";
    case ProposalState::kAccepted:
      return "accepted";
    case ProposalState::kRecovering:
      return "recovering";
  }
  return "unknown";
}

// ---- rows ----

void Engine::index_proposal(const WorkloadUid& uid, const Proposal& row, bool add) {
  if (!row.is_active()) return;
  add ? (void)index_.with_proposal.insert(uid) : (void)index_.with_proposal.erase(uid);
  for (const NodeName& node : row.nodes()) {
    auto& here = index_.held[node];
    add ? (void)here.insert(uid) : (void)here.erase(uid);
    if (here.empty()) index_.held.erase(node);
  }
}

/// Stores the row and updates the free capacity of its nodes: released capacity is available to all.
void Engine::put_proposal(const WorkloadUid& uid, Proposal next) {
  std::set<NodeName> nodes;
  if (const Proposal* old = tables_.proposals.find(uid)) {
    if (old->is_active()) nodes = old->nodes();
    index_proposal(uid, *old, false);
  }
  const Proposal& row = tables_.proposals.insert(uid, std::move(next));
  index_proposal(uid, row, true);
  if (row.is_active()) nodes.merge(row.nodes());
  for (const NodeName& name : nodes) refresh_capacity(name);
}

void Engine::publish_proposal(const WorkloadUid& uid) {
  scratch_.out.events.push_back(ProposalChanged{uid, *tables_.proposals.find(uid), false});
}

/// Ends the proposal. Its history stays, and so do the targets of victims that are migrating already.
void Engine::drop_proposal(const WorkloadUid& uid, std::string why, Instant next) {
  start_migrations(uid);
  Proposal row = *tables_.proposals.find(uid);
  // A gang recovery, and a migration that is part of another proposal, were never published.
  if (row.state != ProposalState::kRecovering && row.publish_count > 0)
    scratch_.out.events.push_back(ProposalChanged{uid, row, true});
  ++(row.move ? scratch_.out.notes.moves : scratch_.out.notes.proposals)[why];
  scratch_.demand = scratch_.demand || (row.state != ProposalState::kProposed && index_.short_of.contains(uid));
  row.state = ProposalState::kNone;
  row.victims.clear();
  row.places.clear();
  row.repartitions.clear();
  row.until = {};
  row.publish_count = 0;
  row.next = next;
  row.last = std::move(why);
  scratch_.holds_released = true;
  put_proposal(uid, std::move(row));
}

void Engine::forget_proposal(const WorkloadUid& uid) {
  const Proposal* row = tables_.proposals.find(uid);
  if (row == nullptr) return;
  if (row->move) return review_migration(uid);
  if (row->is_active()) drop_proposal(uid, "Over", scratch_.now);
  tables_.proposals.erase(uid);
}

// ---- held capacity ----

/// Releases the workload's own holds and those of lower priority for this decision. Returns the nodes with
/// changed free capacity.
std::pair<Engine::HypotheticalState, std::set<NodeName>> Engine::holds_available_to(const WorkloadUid& uid,
                                                                                    bool defrag) const {
  HypotheticalState hypothetical;
  hypothetical.defrag = defrag;
  std::set<NodeName> nodes = defrag ? index_.defrag_nodes : std::set<NodeName>();
  const auto priority = tables_.workloads.find(uid)->spec.priority;
  const auto precedes = [&](const WorkloadUid& other) {
    const Workload* workload = tables_.workloads.find(other);
    return other != uid && workload != nullptr && workload->spec.priority >= priority;
  };
  for (const WorkloadUid& other : index_.with_proposal) {
    if (precedes(other)) continue;
    const Proposal& row = *tables_.proposals.find(other);
    hypothetical.holds.insert(other);
    for (const auto& victim : row.victims) hypothetical.holds.insert(victim.id.uid);
    nodes.merge(row.nodes());
  }
  for (const auto& [other, repartition] : index_.repartitioned_for) {
    if (precedes(other)) continue;
    hypothetical.holds.insert(other);
    nodes.insert(repartition.begin(), repartition.end());
  }
  std::erase_if(nodes, [this](const NodeName& name) { return !tables_.nodes.contains(name); });
  return {std::move(hypothetical), std::move(nodes)};
}

std::vector<NodeName> Engine::release_holds(const WorkloadUid& uid, bool defrag) {
  const auto [hypothetical, nodes] = holds_available_to(uid, defrag);
  for (const NodeName& name : nodes) set_capacity(name, capacity_of(name, hypothetical));
  return {nodes.begin(), nodes.end()};
}

void Engine::restore_holds(const std::vector<NodeName>& nodes) {
  for (const NodeName& name : nodes) set_capacity(name, capacity_of(name));
}

// ---- active proposals ----

void Engine::on_answer(const WorkloadUpdated& update) {
  const WorkloadUid& uid = update.spec.uid;
  const Proposal* known = tables_.proposals.find(uid);
  if (!update.answer || known == nullptr || known->state != ProposalState::kProposed) return;
  const ProposalAnswer& answer = *update.answer;
  if (answer.number != known->number) return;
  if (known->move) return on_migration_answer(uid, answer);
  Proposal next = *known;
  if (answer.accepted) {
    next.state = ProposalState::kAccepted;
    scratch_.demand = true;
    next.refusals = 0;
    ++scratch_.out.notes.proposals["Accepted"];
    for (const auto& victim : next.victims) scratch_.out.notes.preempted_gpu_ms += victim.gpu_ms;
    scratch_.proposals_to_recheck.insert(uid);
    put_proposal(uid, std::move(next));
    return start_migrations(uid);
  }
  for (const WorkloadUid& kept : answer.refused) next.refused[kept] = scratch_.now + options_.preemption.again;
  std::erase_if(next.refused, [this](const auto& one) { return one.second <= scratch_.now; });
  ++next.refusals;
  // Another set may be possible without the refused victims. After several refusals the next search is
  // delayed longer each time.
  const Duration wait = next.refusals < 2 && !answer.refused.empty()
                            ? Duration{0}
                            : options_.preemption.every * (std::int64_t{1} << std::min(next.refusals, kMaxDoublings));
  tables_.proposals.insert(uid, std::move(next));
  drop_proposal(uid, answer.reason, scratch_.now + wait);
}

/// Victims that still hold their devices.
std::set<AttemptId> Engine::remaining_victims(const Proposal& row) const {
  std::set<AttemptId> out;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    if (there != nullptr && there->holds()) out.insert(victim.id);
  }
  return out;
}

/// Ends proposals whose workload is not pending any more. Workloads with changes on held nodes are placed
/// again.
void Engine::recheck_proposals(const std::set<NodeName>& seen) {
  const auto active = index_.with_proposal;
  for (const WorkloadUid& uid : active) {
    const Workload* workload = tables_.workloads.find(uid);
    const Proposal* known = tables_.proposals.find(uid);
    if (known == nullptr) continue;  // requested for a plan that has ended meanwhile
    const Proposal& row = *known;
    if (row.state == ProposalState::kRecovering) {
      if (recovery_over(uid, row)) drop_proposal(uid, "Over", scratch_.now);
      if (workload == nullptr) tables_.proposals.erase(uid);
      continue;
    }
    if (row.move) {
      review_migration(uid);
      continue;
    }
    if (workload == nullptr || workload->attempt != row.attempt || workload->phase != WorkloadPhase::kQuotaReserved) {
      drop_proposal(uid, "Over", scratch_.now);
      if (workload == nullptr) tables_.proposals.erase(uid);
      continue;
    }
    const auto nodes = row.nodes();
    if (std::ranges::any_of(nodes, [&](const NodeName& node) { return seen.contains(node); })) {
      scratch_.reservation_waiters.insert(uid);
      if (row.state == ProposalState::kAccepted) scratch_.proposals_to_recheck.insert(uid);
    }
    start_migrations(uid);
  }
}

/// Runs after all workloads were placed.
void Engine::advance_proposals() {
  if (!synced() || index_.with_proposal.empty()) return;
  const PreemptionOptions& rules = options_.preemption;
  const auto proposals_to_recheck = std::exchange(scratch_.proposals_to_recheck, {});
  refresh_scores();
  const auto active = index_.with_proposal;
  for (const WorkloadUid& uid : active) {
    const Proposal* known = tables_.proposals.find(uid);
    if (known == nullptr) continue;  // requested for a plan that has ended meanwhile
    const Proposal& row = *known;
    if (row.state == ProposalState::kRecovering) continue;
    if (row.move) {
      advance_migration(uid);
      continue;
    }
    const auto there = remaining_victims(row);
    const bool accepted = row.state == ProposalState::kAccepted;
    if (there.empty() && !row.repartitions.empty()) {
      start_repartition(uid);
      continue;
    }
    const bool over = accepted && there.empty();  // and it still does not fit
    const auto is_void = [&] {
      FreeCapacity free_capacity = index_.free_capacity;
      return !placed_without(uid, there, free_capacity).plan || !migrations_fit(row);
    };
    if (over || (proposals_to_recheck.contains(uid) && is_void())) {
      drop_proposal(uid, "Stale", scratch_.now);
      continue;
    }
    if (accepted || row.published_at + rules.answer > scratch_.now) continue;
    if (row.publish_count >= rules.max_publications) {
      drop_proposal(uid, "Unanswered", scratch_.now + rules.again);
    } else if (!proposal_is_valid(uid)) {
      drop_proposal(uid, "Stale", scratch_.now);
    } else {
      Proposal& again = tables_.proposals.edit(uid);
      again.published_at = scratch_.now;
      ++again.publish_count;
      publish_proposal(uid);
    }
  }
}

// ---- candidates ----

bool Engine::may_preempt(const AttemptId& id, const Assignment& row, const WorkloadUid& to, bool instances) const {
  const Workload& pending = *tables_.workloads.find(to);
  const Workload* workload = tables_.workloads.find(id.uid);
  if (!options_.preemption.evicting) return false;
  if (!row.holds() || row.eviction || workload == nullptr || workload->attempt != id.attempt) return false;
  if (workload->phase != WorkloadPhase::kAdmitted || workload->spec.priority >= pending.spec.priority) return false;
  const QuotaFacts& theirs = workload->quota_facts;
  const bool own = theirs.queue == pending.quota_facts.queue;
  if (own ? !pending.quota_facts.own_queue
          : !pending.quota_facts.in_tree || theirs.quota_tree != pending.quota_facts.quota_tree)
    return false;
  if (theirs.min_runtime_until > scratch_.now) return false;
  if (!instances && requests_instances(row.pod_sets)) return false;
  return !is_refused(id.uid, to);
}

/// Admission recently refused this victim.
bool Engine::is_refused(const WorkloadUid& uid, const WorkloadUid& to) const {
  const Proposal* known = tables_.proposals.find(to);
  if (known == nullptr) return false;
  const auto kept = known->refused.find(uid);
  return kept != known->refused.end() && kept->second > scratch_.now;
}

/// Earliest time of a victim search for the workload; none if there is none.
std::optional<Instant> Engine::may_search_at(const WorkloadUid& uid) const {
  const Workload& workload = *tables_.workloads.find(uid);
  if (workload.phase != WorkloadPhase::kQuotaReserved || workload.short_since == Instant{}) return std::nullopt;
  const bool may_displace = workload.quota_facts.own_queue || workload.quota_facts.in_tree;
  if ((!may_displace && !options_.preemption.moving) || index_.repartitioned_for.contains(uid)) return std::nullopt;
  const Proposal* known = tables_.proposals.find(uid);
  if (known != nullptr && known->is_active() && known->state != ProposalState::kRecovering) return std::nullopt;
  return std::max(workload.short_since + options_.preemption.after, known == nullptr ? Instant{} : known->next);
}

void Engine::propose() {
  const PreemptionOptions& rules = options_.preemption;
  if (!rules.on || !synced() || meta().searched + rules.every > scratch_.now) return;
  using QueuePosition =
      std::tuple<std::int64_t, Instant, WorkloadUid>;  // higher priority first, then the longer pending time
  std::vector<QueuePosition> positions;
  for (const WorkloadUid& uid : index_.without_placement) {
    const auto from = may_search_at(uid);
    if (!from || *from > scratch_.now) continue;
    const Workload& workload = *tables_.workloads.find(uid);
    positions.emplace_back(-std::int64_t{workload.spec.priority}, workload.short_since, uid);
  }
  if (positions.empty()) return;
  std::ranges::sort(positions);
  if (positions.size() > rules.max_searches) positions.resize(rules.max_searches);
  tables_.meta.edit(0).searched = scratch_.now;
  refresh_scores();
  for (const auto& [priority, since, uid] : positions) {
    if (std::ranges::count_if(index_.with_proposal, [this](const auto& other) { return !moves(other); }) >=
        static_cast<std::ptrdiff_t>(rules.max_active))
      return;
    std::set<AttemptId> terminating;
    for (const WorkloadUid& other : index_.with_proposal) {
      for (const auto& victim : tables_.proposals.find(other)->victims) terminating.insert(victim.id);
    }
    search(uid, terminating);
  }
}

PlacementResult Engine::placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                       FreeCapacity& free_capacity) const {
  const Proposal* row = tables_.proposals.find(uid);
  return placed_without(uid, gone, free_capacity, row == nullptr ? NodeLayouts() : row->repartitions);
}

/// The placement without these victims, with the workload's held capacity and these MIG repartitions.
/// Requires a prepared preference. If it fits, `free_capacity` includes it.
PlacementResult Engine::placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                       FreeCapacity& free_capacity, const NodeLayouts& repartitions) const {
  const HypotheticalState hypothetical{.attempts = gone, .holds = {uid}, .defrag = true};
  std::set<NodeName> nodes = index_.defrag_nodes;
  for (const AttemptId& id : gone) {
    for (const Member& member : tables_.assignments.find(id)->members) {
      if (member.live()) nodes.insert(member.node);
    }
  }
  if (const Proposal* row = tables_.proposals.find(uid)) nodes.merge(row->nodes());
  for (const NodeName& name : nodes) {
    if (const auto capacity = free_capacity.find(name); capacity != free_capacity.end())
      capacity->second = capacity_of(name, hypothetical);
  }
  if (!apply_layouts(repartitions, hypothetical, free_capacity)) return {};
  return place(request_for(uid), free_capacity, index_.preference);
}

/// Victims of the workload and their migration targets, as a new row. None if the workload does not fit
/// without them.
std::optional<Proposal> Engine::plan_victims(const WorkloadUid& uid,
                                             const std::map<AttemptId, VictimOptions>& candidate_options) const {
  PreemptionProblem stage(*this, uid, candidate_options);
  const auto found = stage.plan();
  if (!found || !found->placed()) return std::nullopt;
  auto victims = stage.terminating(*found);
  if (victims.empty()) return std::nullopt;
  // The scene has only numbers; the engine's own placement decides.
  FreeCapacity free_capacity = index_.free_capacity;
  auto placed = placed_without(uid, stage.ids(victims), free_capacity);
  if (!placed.plan) return std::nullopt;
  for (std::size_t i = victims.size(); i-- > 0 && victims.size() <= kMaxReleased;) {
    auto fewer = victims;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    FreeCapacity as_is = index_.free_capacity;
    if (auto enough = placed_without(uid, stage.ids(fewer), as_is); enough.plan) {
      if (fewer.empty()) return std::nullopt;
      victims = std::move(fewer);
      placed = std::move(enough);
      free_capacity = std::move(as_is);
    }
  }
  Proposal out;
  out.micro_usd = found->cost.topology;
  std::int64_t moved_gpu_ms = 0;
  for (auto& victim : victims) {
    if (!victim.to.empty()) {
      auto to = migration_target(victim.id.uid, victim.to, free_capacity);
      if (!to && victim.migrate_only) return std::nullopt;
      victim.to = to ? std::move(*to) : std::vector<HeldCapacity>();
    }
    if (victim.migrate_only) moved_gpu_ms += victim.gpu_ms;
    out.lost_micro_usd += victim.lost_micro_usd;
    out.victims.push_back({victim.id, victim.gpu_ms, std::move(victim.to)});
  }
  std::int64_t milli = 0;
  for (const PodSet& set : tables_.workloads.find(uid)->spec.pod_sets)
    milli += minimum_of(set) * class_of(set.shape).total_milli();
  if (moved_gpu_ms > options_.preemption.max_lost_gpu_seconds * milli) return std::nullopt;
  out.micro_usd += out.lost_micro_usd;
  out.places = places_of(placed.plan->members);
  return out;
}

void Engine::search(const WorkloadUid& uid, const std::set<AttemptId>& terminating) {
  if (drain(uid, terminating)) return;
  const PreemptionOptions& rules = options_.preemption;
  const Proposal* known = tables_.proposals.find(uid);
  Proposal next = known == nullptr ? kNothing : *known;
  const auto in_vain = [&](std::string why) {
    next.last = std::move(why);
    next.next = scratch_.now + rules.answer;
    if (known == nullptr || *known != next) tables_.proposals.insert(uid, std::move(next));
  };
  std::map<AttemptId, VictimOptions> candidates;
  for (const auto& [id, row] : tables_.assignments) {
    if (terminating.contains(id)) continue;
    if (const VictimOptions how = victim_options(id, row, uid); how.any()) candidates[id] = how;
  }
  if (candidates.empty()) return in_vain("NoPreemptionCandidates");
  auto found = plan_victims(uid, candidates);
  if (!found && std::erase_if(candidates, [](const auto& one) { return !one.second.evicted; }) > 0 &&
      !candidates.empty()) {
    found = plan_victims(uid, candidates);
  }
  if (!found) return in_vain("NoSufficientVictims");
  next.until = {};
  next.state = ProposalState::kProposed;
  next.number = tables_.meta.edit(0).next_proposal++;
  next.attempt = tables_.workloads.find(uid)->attempt;
  next.micro_usd = found->micro_usd;
  next.lost_micro_usd = found->lost_micro_usd;
  next.victims = std::move(found->victims);
  next.places = std::move(found->places);
  next.made = next.published_at = scratch_.now;
  next.publish_count = 1;
  next.last.clear();
  ++scratch_.out.notes.proposals["Made"];
  if (std::ranges::any_of(next.nodes(), [this](const NodeName& node) { return index_.defrag_nodes.contains(node); }))
    end_defrag("CapacityUsedByOthers");
  put_proposal(uid, std::move(next));
  publish_proposal(uid);
}

/// No answer yet: whether the proposal would be made again at no higher cost.
bool Engine::proposal_is_valid(const WorkloadUid& uid) const {
  const Proposal& row = *tables_.proposals.find(uid);
  const bool moves_some = std::ranges::any_of(row.victims, [](const auto& victim) { return !victim.to.empty(); });
  if (!moves_some && requests_instances(tables_.workloads.find(uid)->spec.pod_sets))
    return mig_preemption_is_valid(uid);
  std::map<AttemptId, VictimOptions> candidate_options;
  std::set<AttemptId> victims;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    const VictimOptions how = there == nullptr ? VictimOptions{} : victim_options(victim.id, *there, uid);
    if (victim.to.empty() ? !how.evicted : !how.moved) return false;
    candidate_options[victim.id] = how;
    victims.insert(victim.id);
  }
  FreeCapacity free_capacity = index_.free_capacity;
  return PreemptionProblem(*this, uid, std::move(candidate_options)).still_holds(row) &&
         placed_without(uid, victims, free_capacity).plan.has_value() && migrations_fit(row);
}

}  // namespace qm::placement
