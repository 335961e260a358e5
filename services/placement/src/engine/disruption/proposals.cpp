// Life cycle of proposals: each is a row, and the capacity that it depends on is held while it is active.
#include "engine/disruption/proposals.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

disruption::WorkloadObserved observed(const Workload* workload) {
  return workload == nullptr ? disruption::WorkloadObserved{}
                             : disruption::WorkloadObserved{true, workload->attempt, workload->phase};
}

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

std::set<NodeName> held_nodes(const DefragRun& run) {
  if (!run.is_active()) return {};
  const DefragStep& step = run.steps.front();
  std::set<NodeName> out(step.nodes.begin(), step.nodes.end());
  for (const auto& move : step.moves) {
    for (const HeldCapacity& place : move.places) out.insert(place.node);
  }
  return out;
}

void Proposals::start(const WorkloadUid& uid, Proposal next, DisruptionPlan plan) {
  next.state = ProposalState::kProposed;
  next.number = tables_.meta.edit(0).next_proposal++;
  next.victims = std::move(plan.victims);
  next.places = std::move(plan.places);
  next.repartitions = std::move(plan.repartitions);
  next.micro_usd = plan.micro_usd;
  next.lost_micro_usd = plan.lost_micro_usd;
  next.made = next.published_at = scratch_.now;
  next.publish_count = 1;
  ++(next.move ? scratch_.out.notes.moves : scratch_.out.notes.proposals)["Made"];
  const auto nodes = next.nodes();
  if (!next.move && std::ranges::any_of(nodes, [this](const NodeName& node) {
        return index_.reservations.holds(HoldSource::kDefragmentation, node);
      }))
    end_run("CapacityUsedByOthers");
  rows_.put_proposal(uid, std::move(next));
  publish(uid);
}

void Proposals::propose(const WorkloadUid& uid, DisruptionPlan plan) {
  const Proposal* known = tables_.proposals.find(uid);
  Proposal next = known == nullptr ? Proposal{} : *known;
  next.attempt = tables_.workloads.find(uid)->attempt;
  next.until = {};
  next.last.clear();
  start(uid, std::move(next), std::move(plan));
}

void Proposals::postpone(const WorkloadUid& uid, NoPlan why) {
  const Proposal* known = tables_.proposals.find(uid);
  Proposal next = known == nullptr ? Proposal{} : *known;
  next.last = std::move(why.reason);
  next.next = why.retry;
  if (known == nullptr || *known != next) tables_.proposals.insert(uid, std::move(next));
}

void Proposals::propose_migration(DefragStep::Move move) {
  Proposal next;
  next.move = true;
  next.attempt = move.id.attempt;
  start(move.id.uid, std::move(next),
        {{{move.id, move.gpu_ms, {}}}, std::move(move.places), {}, move.lost_micro_usd, move.lost_micro_usd});
}

void Proposals::publish(const WorkloadUid& uid) {
  scratch_.out.events.push_back(ProposalChanged{uid, *tables_.proposals.find(uid), false});
}

void Proposals::drop(const WorkloadUid& uid, std::string why, Instant next) {
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
  rows_.put_proposal(uid, std::move(row));
}

void Proposals::forget_row(const WorkloadUid& uid) {
  const Proposal* row = tables_.proposals.find(uid);
  if (row == nullptr) return;
  if (row->move) return review_migration(uid);
  if (row->is_active()) drop(uid, "Over", scratch_.now);
  tables_.proposals.erase(uid);
}

void Proposals::apply(const WorkloadUid& uid, disruption::Step step) {
  const bool moves = step.row.move;
  auto& counts = moves ? scratch_.out.notes.moves : scratch_.out.notes.proposals;
  for (const disruption::Action& action : step.actions) {
    if (const auto* ending = std::get_if<disruption::Drop>(&action)) {
      if (*tables_.proposals.find(uid) != step.row) tables_.proposals.insert(uid, step.row);
      return moves ? end_migration(uid, ending->why) : drop(uid, ending->why, ending->next);
    }
    if (std::holds_alternative<disruption::Publish>(action)) {
      tables_.proposals.insert(uid, step.row);
      publish(uid);
    }
    if (std::holds_alternative<disruption::Accept>(action)) {
      ++counts["Accepted"];
      rows_.put_proposal(uid, step.row);
    }
  }
}

void Proposals::on_answer(const WorkloadUpdated& update) {
  const WorkloadUid& uid = update.spec.uid;
  const Proposal* known = tables_.proposals.find(uid);
  if (!update.answer || known == nullptr || known->state != ProposalState::kProposed) return;
  const ProposalAnswer& answer = *update.answer;
  if (answer.number != known->number) return;
  if (known->move) return on_migration_answer(uid, answer);
  if (answer.accepted) {
    scratch_.demand = true;
    for (const auto& victim : known->victims) scratch_.out.notes.preempted_gpu_ms += victim.gpu_ms;
    scratch_.proposals_to_recheck.insert(uid);
  }
  apply(uid, disruption::answer_preemption(*known, answer, scratch_.now, options_.preemption));
  if (answer.accepted) start_migrations(uid);
}

void Proposals::start_migrations(const WorkloadUid& to) {
  Proposal asked = *tables_.proposals.find(to);
  std::map<WorkloadUid, Proposal> migrating;
  for (auto& victim : asked.victims) {
    const Workload* workload = tables_.workloads.find(victim.id.uid);
    if (victim.to.empty() || workload == nullptr) continue;
    const bool leaves = workload->attempt == victim.id.attempt &&
                        (asked.state == ProposalState::kAccepted || workload->phase == WorkloadPhase::kEvicting);
    if (!leaves && workload->attempt != victim.id.attempt + 1) continue;
    Proposal& own = migrating[victim.id.uid];
    own.state = ProposalState::kAccepted;
    own.move = true;
    own.number = tables_.meta.edit(0).next_proposal++;
    own.attempt = victim.id.attempt;
    own.victims.push_back({victim.id, victim.gpu_ms, {}});
    own.places = std::exchange(victim.to, {});
    own.made = asked.made;
    own.published_at = scratch_.now;
    scratch_.out.notes.moved_gpu_ms += victim.gpu_ms;
    for (const char* what : {"Made", "Accepted"}) ++scratch_.out.notes.moves[what];
  }
  if (migrating.empty()) return;
  rows_.put_proposal(to, std::move(asked));
  for (auto& [uid, own] : migrating) rows_.put_proposal(uid, std::move(own));
}

void Proposals::end_run(const std::string& why) {
  const auto active = index_.with_proposal;
  for (const WorkloadUid& uid : active) {
    if (!state_.is_migrating(uid) || tables_.proposals.find(uid)->state != ProposalState::kProposed) continue;
    drop(uid, why, scratch_.now);
    tables_.proposals.erase(uid);
  }
  DefragRun next = state_.defrag_run();
  next.steps.clear();
  next.next = scratch_.now + options_.defrag.every;
  next.last = why;
  rows_.put_defrag(std::move(next));
}

void Proposals::end_migration(const WorkloadUid& uid, const std::string& why) {
  drop(uid, why, scratch_.now);
  tables_.proposals.erase(uid);
  DefragRun next = state_.defrag_run();
  if (!next.is_active()) return;
  auto& left = next.steps.front().moves;
  const auto here = std::ranges::find(left, uid, [](const auto& move) { return move.id.uid; });
  if (here == left.end()) return;
  if (why != "Placed") return end_run(why);
  left.erase(here);
  rows_.put_defrag(std::move(next));
}

void Proposals::on_migration_answer(const WorkloadUid& uid, const ProposalAnswer& answer) {
  const Proposal row = *tables_.proposals.find(uid);
  if (answer.accepted) {
    for (const auto& victim : row.victims) scratch_.out.notes.moved_gpu_ms += victim.gpu_ms;
  } else {
    DefragRun next = state_.defrag_run();
    std::erase_if(next.refused, [this](const auto& one) { return one.second <= scratch_.now; });
    next.refused[uid] = scratch_.now + options_.preemption.again;
    rows_.put_defrag(std::move(next));
  }
  apply(uid, disruption::answer_migration(row, answer, scratch_.now));
}

void Proposals::review_migration(const WorkloadUid& uid) {
  const Proposal& row = *tables_.proposals.find(uid);
  disruption::MigrationObserved seen{observed(tables_.workloads.find(uid)), false, false};
  if (const Assignment* there = tables_.assignments.find({uid, row.attempt + 1}); there != nullptr && there->holds()) {
    seen.placed = true;
    seen.as_planned = std::ranges::all_of(there->members, [&row](const Member& member) {
      return std::ranges::find(row.places, member.node, &HeldCapacity::node) != row.places.end();
    });
  }
  apply(uid, disruption::review_migration(row, seen, scratch_.now));
}

bool Proposals::end_if_over(const WorkloadUid& uid) {
  const Proposal& row = *tables_.proposals.find(uid);
  const Workload* workload = tables_.workloads.find(uid);
  if (row.state == ProposalState::kRecovering) {
    apply(uid, disruption::advance_recovery(row, observed(workload), scratch_.now));
  } else if (disruption::is_over(row, observed(workload))) {
    drop(uid, "Over", scratch_.now);
  }
  const bool over = !tables_.proposals.find(uid)->is_active();
  if (workload == nullptr) tables_.proposals.erase(uid);
  return over;
}

}  // namespace qm::placement
