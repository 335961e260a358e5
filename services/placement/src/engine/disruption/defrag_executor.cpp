// Defragmentation: reclaims whole nodes by migrating work. Periodically the fleet becomes a scene, and a plan
// is computed on it with its gain and cost. Its migrations are proposed to admission one by one: each when
// the one before is placed and the rest of the step is still worthwhile. The plan is a row: after a restart
// it continues, or ends, as without one.
#include "engine/disruption/hypothetical_evictions.hpp"
#include "qm/placement/defrag_input.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

constexpr Duration kHour = std::chrono::hours(1);

}  // namespace

std::set<NodeName> held_nodes(const DefragRun& run) {
  if (!run.is_active()) return {};
  const DefragStep& step = run.steps.front();
  std::set<NodeName> out(step.nodes.begin(), step.nodes.end());
  for (const auto& move : step.moves) {
    for (const HeldCapacity& place : move.places) out.insert(place.node);
  }
  return out;
}

// ---- rows ----

const DefragRun& Engine::defrag_run() const {
  static const DefragRun none;
  const DefragRun* row = tables_.defrag_run.find(0);
  return row == nullptr ? none : *row;
}

/// Stores the row and updates the free capacity of its nodes: released capacity is available to all.
void Engine::put_defrag(DefragRun next) {
  auto nodes = index_.defrag_nodes;
  index_.defrag_nodes = held_nodes(tables_.defrag_run.insert(0, std::move(next)));
  nodes.insert(index_.defrag_nodes.begin(), index_.defrag_nodes.end());
  for (const NodeName& name : nodes) refresh_capacity(name);
}

bool Engine::moves(const WorkloadUid& uid) const {
  const Proposal* row = tables_.proposals.find(uid);
  return row != nullptr && row->move && row->is_active();
}

std::int64_t Engine::recent_migrations() const {
  return defrag_run().hour + kHour <= scratch_.now ? 0 : defrag_run().asked;
}

/// Ends the plan: no more migrations are requested, and unanswered ones are withdrawn. Accepted ones keep
/// their target capacity.
void Engine::end_defrag(const std::string& why) {
  const auto active = index_.with_proposal;
  for (const WorkloadUid& uid : active) {
    if (!moves(uid) || tables_.proposals.find(uid)->state != ProposalState::kProposed) continue;
    drop_proposal(uid, why, scratch_.now);
    tables_.proposals.erase(uid);
  }
  DefragRun next = defrag_run();
  next.steps.clear();
  next.next = scratch_.now + options_.defrag.every;
  next.last = why;
  put_defrag(std::move(next));
}

/// Ends a migration and releases the capacity held for it. A migration that did not reach its target ends the
/// plan.
void Engine::end_migration(const WorkloadUid& uid, const std::string& why) {
  drop_proposal(uid, why, scratch_.now);
  tables_.proposals.erase(uid);
  DefragRun next = defrag_run();
  if (!next.is_active()) return;
  auto& left = next.steps.front().moves;
  const auto here = std::ranges::find(left, uid, [](const auto& move) { return move.id.uid; });
  if (here == left.end()) return;
  if (why != "Placed") return end_defrag(why);
  left.erase(here);
  put_defrag(std::move(next));
}

// ---- migrations in progress ----

void Engine::on_migration_answer(const WorkloadUid& uid, const ProposalAnswer& answer) {
  Proposal row = *tables_.proposals.find(uid);
  if (answer.accepted) {
    row.state = ProposalState::kAccepted;
    row.published_at = scratch_.now;
    ++scratch_.out.notes.moves["Accepted"];
    for (const auto& victim : row.victims) scratch_.out.notes.moved_gpu_ms += victim.gpu_ms;
    return put_proposal(uid, std::move(row));
  }
  DefragRun next = defrag_run();
  std::erase_if(next.refused, [this](const auto& one) { return one.second <= scratch_.now; });
  next.refused[uid] = scratch_.now + options_.preemption.again;
  put_defrag(std::move(next));
  end_migration(uid, answer.reason);
}

/// Updates a migration by the workload's state: in progress, placed, or ended otherwise.
void Engine::review_migration(const WorkloadUid& uid) {
  const Proposal& row = *tables_.proposals.find(uid);
  const Workload* workload = tables_.workloads.find(uid);
  if (workload == nullptr) return end_migration(uid, "Over");
  const bool accepted = row.state == ProposalState::kAccepted;
  const auto phase = workload->phase;
  if (workload->attempt == row.attempt) {
    if (phase == WorkloadPhase::kAdmitted || (accepted && phase == WorkloadPhase::kEvicting)) return;
    return end_migration(uid, "Over");
  }
  if (const Assignment* there = tables_.assignments.find({uid, row.attempt + 1}); there != nullptr && there->holds()) {
    const auto planned = [&row](const Member& member) {
      return std::ranges::find(row.places, member.node, &HeldCapacity::node) != row.places.end();
    };
    return end_migration(uid, std::ranges::all_of(there->members, planned) ? "Placed" : "Elsewhere");
  }
  const bool waits = phase == WorkloadPhase::kPending || phase == WorkloadPhase::kQuotaReserved;
  if (workload->attempt != row.attempt + 1 || !waits) return end_migration(uid, "Over");
  if (accepted) return;
  // It was evicted before the answer arrived: the capacity is held for it all the same.
  Proposal next = row;
  next.state = ProposalState::kAccepted;
  next.published_at = scratch_.now;
  ++scratch_.out.notes.moves["Accepted"];
  put_proposal(uid, std::move(next));
}

void Engine::advance_migration(const WorkloadUid& uid) {
  const Proposal& row = *tables_.proposals.find(uid);
  if (row.state == ProposalState::kAccepted) {
    if (row.published_at + options_.defrag.settle <= scratch_.now) end_migration(uid, "Late");
    return;
  }
  if (row.published_at + options_.preemption.answer > scratch_.now) return;
  if (row.publish_count >= options_.preemption.max_publications) return end_migration(uid, "Unanswered");
  DefragStep step = defrag_run().is_active() ? defrag_run().steps.front() : DefragStep{};
  if (!step_is_valid(step)) return end_migration(uid, "Stale");
  Proposal& again = tables_.proposals.edit(uid);
  again.published_at = scratch_.now;
  ++again.publish_count;
  publish_proposal(uid);
}

/// The placement on the nodes with its held capacity. It changes no free capacity but that of this query.
PlacementResult Engine::place_at(const WorkloadUid& uid, const std::vector<HeldCapacity>& places) const {
  FreeCapacity there;
  for (const HeldCapacity& place : places) {
    if (tables_.nodes.contains(place.node))
      there.emplace(place.node, capacity_of(place.node, {.attempts = {}, .holds = {uid}}));
  }
  return place(request_for(uid), there, index_.preference);
}

// ---- the plan ----

/// Whether the remaining migrations reclaim the nodes of the step within the cost limit, with every gang on
/// its chosen nodes.
bool Engine::step_is_valid(DefragStep& step) const {
  std::set<WorkloadUid> movers;
  for (const auto& move : step.moves) {
    const Assignment* row = tables_.assignments.find(move.id);
    if (row == nullptr || !row->holds() || !may_defrag(move.id, *row)) return false;
    movers.insert(move.id.uid);
  }
  HypotheticalState hypothetical{.attempts = {}, .holds = {}, .defrag = true};
  FreeCapacity free_capacity;
  if (movers.empty() || !HypotheticalEvictions::seat(*this, step, hypothetical, free_capacity)) return false;
  const auto question = defrag_input(movers);
  std::map<NodeName, plan::NodeId> numbers;
  for (plan::NodeId node = 0; node < question.nodes.size(); ++node) numbers[question.nodes[node]] = node;
  plan::NodeReclaim emptying;
  for (const NodeName& name : step.nodes) {
    const auto number = numbers.find(name);
    if (number == numbers.end()) return false;
    emptying.nodes.push_back(number->second);
  }
  std::int64_t lost = 0;
  for (auto& move : step.moves) {
    const auto gang = std::ranges::find(question.gangs, move.id, &DefragInput::Gang::id);
    if (gang == question.gangs.end() || gang->positions.empty()) return false;
    const auto number = static_cast<plan::GangId>(gang - question.gangs.begin());
    plan::Step one;
    one.what = plan::Step::What::kMigrate;
    one.gang = number;
    one.from = question.scene->gang(number).placements;
    for (const HeldCapacity& place : move.places) {
      const auto node = numbers.find(place.node);
      const auto set = std::ranges::find(gang->positions, place.set);
      if (node == numbers.end() || set == gang->positions.end()) return false;
      one.placements.push_back({static_cast<std::int32_t>(set - gang->positions.begin()), place.index, node->second,
                                mask_of(place.devices)});
    }
    std::ranges::sort(one.placements);
    emptying.moves.push_back(std::move(one));
    move.gpu_ms = lost_gpu_ms(*question.scene, number, scratch_.now);
    move.lost_micro_usd = plan::lost_by(*question.scene, number, question.terms);
    lost += move.gpu_ms;
  }
  if (lost > options_.defrag.max_lost_gpu_seconds * step.gpus * 1000) return false;
  return plan::still_holds(*question.scene, emptying, question.terms).has_value();
}

void Engine::request_migration(DefragRun next) {
  const DefragStep::Move move = next.steps.front().moves.front();
  if (recent_migrations() == 0) next.hour = scratch_.now, next.asked = 0;
  ++next.asked;
  put_defrag(std::move(next));
  Proposal row;
  row.state = ProposalState::kProposed;
  row.move = true;
  row.number = tables_.meta.edit(0).next_proposal++;
  row.attempt = move.id.attempt;
  row.victims.push_back({move.id, move.gpu_ms, {}});
  row.places = move.places;
  row.micro_usd = row.lost_micro_usd = move.lost_micro_usd;
  row.made = row.published_at = scratch_.now;
  row.publish_count = 1;
  ++scratch_.out.notes.moves["Made"];
  put_proposal(move.id.uid, std::move(row));
  publish_proposal(move.id.uid);
}

/// Returns whether the plan has a further step to start.
bool Engine::next_migration() {
  DefragRun next = defrag_run();
  DefragStep& step = next.steps.front();
  if (std::ranges::any_of(step.moves, [this](const auto& move) { return moves(move.id.uid); })) return false;
  std::erase_if(step.moves, [this](const auto& move) {  // ended or evicted without a migration request
    const Assignment* row = tables_.assignments.find(move.id);
    return row == nullptr || !row->holds();
  });
  if (!step.moves.empty()) {
    if (recent_migrations() >= options_.defrag.hourly) {
      end_defrag("Budget");
    } else if (!step_is_valid(step)) {
      end_defrag("Stale");
    } else {
      request_migration(std::move(next));
    }
    return false;
  }
  for (const NodeName& name : step.nodes) {
    const auto others = non_member_pods(name);
    const bool used = std::ranges::any_of(others, [](const Pod* pod) { return !pod->facts.daemon; });
    if (!tables_.nodes.contains(name) || used || index_.members.contains(name)) continue;
    ++next.reclaimed;
    ++scratch_.out.notes.nodes_reclaimed;
  }
  next.steps.erase(next.steps.begin());
  const bool more = next.is_active();
  put_defrag(std::move(next));
  if (!more) end_defrag("Done");
  return more;
}

/// Stores the steps of the best plan that meet the limits; nothing is migrated yet.
void Engine::plan_defrag() {
  const DefragOptions& rules = options_.defrag;
  DefragRun next = defrag_run();
  next.next = scratch_.now + rules.every;
  const auto in_vain = [&](std::string why) {  // a plan that existed keeps its own result
    next.steps.clear();
    if (next.made == Instant{}) next.last = std::move(why);
    put_defrag(std::move(next));
  };
  if (index_.free_capacity.size() > rules.most_nodes) return in_vain("FleetTooLarge");
  if (std::ranges::any_of(index_.with_proposal, [this](const auto& uid) { return moves(uid); }))
    return in_vain("UnderWay");
  const auto question = defrag_input();
  for (plan::GangId gang = 0; gang < question.gangs.size(); ++gang) {
    const auto kept = next.refused.find(question.gangs[gang].id.uid);
    if (kept != next.refused.end() && kept->second > scratch_.now) question.scene->at(gang).movable = false;
  }
  auto left = rules.hourly - recent_migrations();
  for (const auto& step : plan::consolidate(*question.scene, question.terms).steps) {
    DefragStep winning;
    for (const auto node : step.nodes) {
      winning.nodes.push_back(question.nodes[node]);
      winning.gpus += tables_.nodes.find(question.nodes[node])->facts.gpus;
    }
    const auto count = std::ssize(step.moves);
    const bool worth =
        winning.gpus >= rules.least_gpus * count && step.gpu_seconds <= rules.max_lost_gpu_seconds * winning.gpus;
    left -= count;
    if (!worth || left < 0) break;  // later steps depend on it
    for (const auto& move : step.moves) {
      const auto& gang = question.gangs[move.gang];
      auto& one = winning.moves.emplace_back();
      one.id = gang.id;
      one.gpu_ms = lost_gpu_ms(*question.scene, move.gang, scratch_.now);
      one.lost_micro_usd = move.cost.lost_work;
      for (const auto& seat : move.placements) {
        const NodeName& node = question.nodes[seat.node];
        one.places.push_back({gang.positions[static_cast<std::size_t>(seat.set)], seat.rank, node,
                              devices_in(node, seat.devices, question.scene->pod(move.gang, seat.set).gpu_milli)});
      }
    }
    next.steps.push_back(std::move(winning));
  }
  HypotheticalState hypothetical{.attempts = {}, .holds = {}, .defrag = true};
  FreeCapacity free_capacity;
  for (std::size_t i = 0; i < next.steps.size(); ++i) {
    if (!HypotheticalEvictions::seat(*this, next.steps[i], hypothetical, free_capacity)) next.steps.resize(i);
  }
  if (!next.is_active()) return in_vain("NoDefragmentationGain");
  next.nodes = next.gpus = next.moves = next.gpu_ms = next.lost_micro_usd = next.reclaimed = 0;
  for (const DefragStep& step : next.steps) {
    next.nodes += std::ssize(step.nodes);
    next.gpus += step.gpus;
    next.moves += std::ssize(step.moves);
    for (const auto& move : step.moves) next.gpu_ms += move.gpu_ms, next.lost_micro_usd += move.lost_micro_usd;
  }
  next.made = scratch_.now;
  next.last.clear();
  put_defrag(std::move(next));
}

/// Runs after all workloads were placed.
void Engine::run_defrag() {
  if (!synced()) return;
  if (!options_.defrag.on) {
    if (defrag_run().is_active()) end_defrag("Disabled");
    return;
  }
  if (!defrag_run().is_active()) {
    if (defrag_run().next > scratch_.now) return;
    refresh_scores();
    plan_defrag();
  }
  while (defrag_run().is_active() && next_migration()) {
  }
}

}  // namespace qm::placement
