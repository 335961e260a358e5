// Defragmentation: reclaims whole nodes by migrating work. Periodically the fleet becomes a scene, and a plan
// is computed on it with its gain and cost. Its migrations are proposed to admission one by one: each when
// the one before is placed and the rest of the step is still worthwhile. The plan is a row: after a restart
// it continues, or ends, as without one.
#include "engine/lift.hpp"
#include "qm/placement/tidy.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

constexpr Duration kHour = std::chrono::hours(1);

}  // namespace

std::set<NodeName> kept_for(const TidyRun& run) {
  if (!run.stands()) return {};
  const Winning& step = run.steps.front();
  std::set<NodeName> out(step.nodes.begin(), step.nodes.end());
  for (const auto& move : step.moves) {
    for (const HeldPlace& place : move.places) out.insert(place.node);
  }
  return out;
}

// ---- rows ----

const TidyRun& Engine::tidy_run() const {
  static const TidyRun none;
  const TidyRun* row = tables_.tidy.find(0);
  return row == nullptr ? none : *row;
}

/// Stores the row and updates the free capacity of its nodes: released capacity is available to all.
void Engine::put_tidy(TidyRun next) {
  auto nodes = index_.tidied;
  index_.tidied = kept_for(tables_.tidy.insert(0, std::move(next)));
  nodes.insert(index_.tidied.begin(), index_.tidied.end());
  for (const NodeName& name : nodes) refresh_room(name);
}

bool Engine::moves(const WorkloadUid& uid) const {
  const Proposal* row = tables_.proposals.find(uid);
  return row != nullptr && row->move && row->stands();
}

std::int64_t Engine::moves_of_late() const { return tidy_run().hour + kHour <= scratch_.now ? 0 : tidy_run().asked; }

/// Ends the plan: no more migrations are requested, and unanswered ones are withdrawn. Accepted ones keep
/// their target capacity.
void Engine::end_tidying(const std::string& why) {
  const auto standing = index_.standing;
  for (const WorkloadUid& uid : standing) {
    if (!moves(uid) || tables_.proposals.find(uid)->state != ProposalState::kAsked) continue;
    drop_proposal(uid, why, scratch_.now);
    tables_.proposals.erase(uid);
  }
  TidyRun next = tidy_run();
  next.steps.clear();
  next.next = scratch_.now + options_.tidying.every;
  next.last = why;
  put_tidy(std::move(next));
}

/// Ends a migration and releases the capacity held for it. A migration that did not reach its target ends the
/// plan.
void Engine::end_move(const WorkloadUid& uid, const std::string& why) {
  drop_proposal(uid, why, scratch_.now);
  tables_.proposals.erase(uid);
  TidyRun next = tidy_run();
  if (!next.stands()) return;
  auto& left = next.steps.front().moves;
  const auto here = std::ranges::find(left, uid, [](const auto& move) { return move.id.uid; });
  if (here == left.end()) return;
  if (why != "Placed") return end_tidying(why);
  left.erase(here);
  put_tidy(std::move(next));
}

// ---- migrations in progress ----

void Engine::hear_of_move(const WorkloadUid& uid, const ProposalAnswer& answer) {
  Proposal row = *tables_.proposals.find(uid);
  if (answer.accepted) {
    row.state = ProposalState::kAccepted;
    row.said = scratch_.now;
    ++scratch_.out.notes.moves["Accepted"];
    for (const auto& victim : row.victims) scratch_.out.notes.moved_gpu_ms += victim.gpu_ms;
    return put_proposal(uid, std::move(row));
  }
  TidyRun next = tidy_run();
  std::erase_if(next.kept, [this](const auto& one) { return one.second <= scratch_.now; });
  next.kept[uid] = scratch_.now + options_.proposing.again;
  put_tidy(std::move(next));
  end_move(uid, answer.reason);
}

/// Updates a migration by the workload's state: in progress, placed, or ended otherwise.
void Engine::review_move(const WorkloadUid& uid) {
  const Proposal& row = *tables_.proposals.find(uid);
  const Workload* workload = tables_.workloads.find(uid);
  if (workload == nullptr) return end_move(uid, "Over");
  const bool accepted = row.state == ProposalState::kAccepted;
  const auto phase = workload->phase;
  if (workload->attempt == row.attempt) {
    if (phase == WorkloadPhase::kAdmitted || (accepted && phase == WorkloadPhase::kEvicting)) return;
    return end_move(uid, "Over");
  }
  if (const Assignment* there = tables_.assignments.find({uid, row.attempt + 1}); there != nullptr && there->holds()) {
    const auto planned = [&row](const Member& member) {
      return std::ranges::find(row.places, member.node, &HeldPlace::node) != row.places.end();
    };
    return end_move(uid, std::ranges::all_of(there->members, planned) ? "Placed" : "Elsewhere");
  }
  const bool waits = phase == WorkloadPhase::kPending || phase == WorkloadPhase::kQuotaReserved;
  if (workload->attempt != row.attempt + 1 || !waits) return end_move(uid, "Over");
  if (accepted) return;
  // It was evicted before the answer arrived: the capacity is held for it all the same.
  Proposal next = row;
  next.state = ProposalState::kAccepted;
  next.said = scratch_.now;
  ++scratch_.out.notes.moves["Accepted"];
  put_proposal(uid, std::move(next));
}

void Engine::tend_move(const WorkloadUid& uid) {
  const Proposal& row = *tables_.proposals.find(uid);
  if (row.state == ProposalState::kAccepted) {
    if (row.said + options_.tidying.settle <= scratch_.now) end_move(uid, "Late");
    return;
  }
  if (row.said + options_.proposing.answer > scratch_.now) return;
  if (row.said_times >= options_.proposing.most_said) return end_move(uid, "Unanswered");
  Winning step = tidy_run().stands() ? tidy_run().steps.front() : Winning{};
  if (!still_wins(step)) return end_move(uid, "Stale");
  Proposal& again = tables_.proposals.edit(uid);
  again.said = scratch_.now;
  ++again.said_times;
  say(uid);
}

/// The placement on the nodes with its held capacity. It changes no free capacity but that of this query.
Placed Engine::place_at(const WorkloadUid& uid, const std::vector<HeldPlace>& places) const {
  Rooms there;
  for (const HeldPlace& place : places) {
    if (tables_.nodes.contains(place.node))
      there.emplace(place.node, room_of(place.node, {.attempts = {}, .holds = {uid}}));
  }
  return place(asked_by(uid), there, index_.preference);
}

// ---- the plan ----

/// Whether the remaining migrations reclaim the nodes of the step within the cost limit, with every gang on
/// its chosen nodes.
bool Engine::still_wins(Winning& step) const {
  std::set<WorkloadUid> movers;
  for (const auto& move : step.moves) {
    const Assignment* row = tables_.assignments.find(move.id);
    if (row == nullptr || !row->holds() || !may_move(move.id, *row)) return false;
    movers.insert(move.id.uid);
  }
  Lifted lifted{.attempts = {}, .holds = {}, .tidying = true};
  Rooms rooms;
  if (movers.empty() || !Lift::seat(*this, step, lifted, rooms)) return false;
  const auto question = tidy_question(movers);
  std::map<NodeName, plan::NodeId> numbers;
  for (plan::NodeId node = 0; node < question.nodes.size(); ++node) numbers[question.nodes[node]] = node;
  plan::Emptying emptying;
  for (const NodeName& name : step.nodes) {
    const auto number = numbers.find(name);
    if (number == numbers.end()) return false;
    emptying.nodes.push_back(number->second);
  }
  std::int64_t lost = 0;
  for (auto& move : step.moves) {
    const auto gang = std::ranges::find(question.gangs, move.id, &TidyQuestion::Gang::id);
    if (gang == question.gangs.end() || gang->positions.empty()) return false;
    const auto number = static_cast<plan::GangId>(gang - question.gangs.begin());
    plan::Step one;
    one.what = plan::Step::What::kMigrate;
    one.gang = number;
    one.from = question.scene->gang(number).seats;
    for (const HeldPlace& place : move.places) {
      const auto node = numbers.find(place.node);
      const auto set = std::ranges::find(gang->positions, place.set);
      if (node == numbers.end() || set == gang->positions.end()) return false;
      one.seats.push_back({static_cast<std::int32_t>(set - gang->positions.begin()), place.index, node->second,
                           mask_of(place.devices)});
    }
    std::ranges::sort(one.seats);
    emptying.moves.push_back(std::move(one));
    move.gpu_ms = lost_gpu_ms(*question.scene, number, scratch_.now);
    move.lost_micro_usd = plan::lost_by(*question.scene, number, question.terms);
    lost += move.gpu_ms;
  }
  if (lost > options_.tidying.most_lost * step.gpus * 1000) return false;
  return plan::still_holds(*question.scene, emptying, question.terms).has_value();
}

void Engine::ask_to_move(TidyRun next) {
  const Winning::Move move = next.steps.front().moves.front();
  if (moves_of_late() == 0) next.hour = scratch_.now, next.asked = 0;
  ++next.asked;
  put_tidy(std::move(next));
  Proposal row;
  row.state = ProposalState::kAsked;
  row.move = true;
  row.number = tables_.meta.edit(0).next_proposal++;
  row.attempt = move.id.attempt;
  row.victims.push_back({move.id, move.gpu_ms, {}});
  row.places = move.places;
  row.micro_usd = row.lost_micro_usd = move.lost_micro_usd;
  row.made = row.said = scratch_.now;
  row.said_times = 1;
  ++scratch_.out.notes.moves["Made"];
  put_proposal(move.id.uid, std::move(row));
  say(move.id.uid);
}

/// Returns whether the plan has a further step to start.
bool Engine::next_move() {
  TidyRun next = tidy_run();
  Winning& step = next.steps.front();
  if (std::ranges::any_of(step.moves, [this](const auto& move) { return moves(move.id.uid); })) return false;
  std::erase_if(step.moves, [this](const auto& move) {  // ended or evicted without a migration request
    const Assignment* row = tables_.assignments.find(move.id);
    return row == nullptr || !row->holds();
  });
  if (!step.moves.empty()) {
    if (moves_of_late() >= options_.tidying.hourly) {
      end_tidying("Budget");
    } else if (!still_wins(step)) {
      end_tidying("Stale");
    } else {
      ask_to_move(std::move(next));
    }
    return false;
  }
  for (const NodeName& name : step.nodes) {
    const auto others = strangers(name);
    const bool used = std::ranges::any_of(others, [](const Pod* pod) { return !pod->facts.daemon; });
    if (!tables_.nodes.contains(name) || used || index_.members.contains(name)) continue;
    ++next.won;
    ++scratch_.out.notes.nodes_won;
  }
  next.steps.erase(next.steps.begin());
  const bool more = next.stands();
  put_tidy(std::move(next));
  if (!more) end_tidying("Done");
  return more;
}

/// Stores the steps of the best plan that meet the limits; nothing is migrated yet.
void Engine::look_for_moves() {
  const Tidying& rules = options_.tidying;
  TidyRun next = tidy_run();
  next.next = scratch_.now + rules.every;
  const auto in_vain = [&](std::string why) {  // a plan that existed keeps its own result
    next.steps.clear();
    if (next.made == Instant{}) next.last = std::move(why);
    put_tidy(std::move(next));
  };
  if (index_.rooms.size() > rules.most_nodes) return in_vain("FleetTooLarge");
  if (std::ranges::any_of(index_.standing, [this](const auto& uid) { return moves(uid); })) return in_vain("UnderWay");
  const auto question = tidy_question();
  for (plan::GangId gang = 0; gang < question.gangs.size(); ++gang) {
    const auto kept = next.kept.find(question.gangs[gang].id.uid);
    if (kept != next.kept.end() && kept->second > scratch_.now) question.scene->at(gang).movable = false;
  }
  auto left = rules.hourly - moves_of_late();
  for (const auto& step : plan::consolidate(*question.scene, question.terms).steps) {
    Winning winning;
    for (const auto node : step.nodes) {
      winning.nodes.push_back(question.nodes[node]);
      winning.gpus += tables_.nodes.find(question.nodes[node])->facts.gpus;
    }
    const auto count = std::ssize(step.moves);
    const bool worth = winning.gpus >= rules.least_gpus * count && step.gpu_seconds <= rules.most_lost * winning.gpus;
    left -= count;
    if (!worth || left < 0) break;  // later steps depend on it
    for (const auto& move : step.moves) {
      const auto& gang = question.gangs[move.gang];
      auto& one = winning.moves.emplace_back();
      one.id = gang.id;
      one.gpu_ms = lost_gpu_ms(*question.scene, move.gang, scratch_.now);
      one.lost_micro_usd = move.cost.lost_work;
      for (const auto& seat : move.seats) {
        const NodeName& node = question.nodes[seat.node];
        one.places.push_back({gang.positions[static_cast<std::size_t>(seat.set)], seat.rank, node,
                              devices_in(node, seat.devices, question.scene->pod(move.gang, seat.set).gpu_milli)});
      }
    }
    next.steps.push_back(std::move(winning));
  }
  Lifted lifted{.attempts = {}, .holds = {}, .tidying = true};
  Rooms rooms;
  for (std::size_t i = 0; i < next.steps.size(); ++i) {
    if (!Lift::seat(*this, next.steps[i], lifted, rooms)) next.steps.resize(i);
  }
  if (!next.stands()) return in_vain("NothingToWin");
  next.nodes = next.gpus = next.moves = next.gpu_ms = next.lost_micro_usd = next.won = 0;
  for (const Winning& step : next.steps) {
    next.nodes += std::ssize(step.nodes);
    next.gpus += step.gpus;
    next.moves += std::ssize(step.moves);
    for (const auto& move : step.moves) next.gpu_ms += move.gpu_ms, next.lost_micro_usd += move.lost_micro_usd;
  }
  next.made = scratch_.now;
  next.last.clear();
  put_tidy(std::move(next));
}

/// Runs after all workloads were placed.
void Engine::tidy_up() {
  if (!synced()) return;
  if (!options_.tidying.on) {
    if (tidy_run().stands()) end_tidying("TurnedOff");
    return;
  }
  if (!tidy_run().stands()) {
    if (tidy_run().next > scratch_.now) return;
    reckon();
    look_for_moves();
  }
  while (tidy_run().stands() && next_move()) {
  }
}

}  // namespace qm::placement
