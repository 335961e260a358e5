// Preemption proposals. For a workload with quota that does not fit, the nodes and victim candidates become a
// scene, and a search finds the cheapest victims. The engine's own placement then verifies that the workload
// fits without them. An active proposal is a row: the capacity that it depends on is held. It is checked
// again before each publication and after admission's answer.
#include "engine/offers.hpp"
#include "engine/stage.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

constexpr std::size_t kMostGivenBack = 32;  // with at most so many victims, each is tried without eviction
constexpr int kMostDoublings = 10;

const Proposal kNothing;

}  // namespace

std::set<NodeName> Proposal::nodes() const {
  std::set<NodeName> out;
  for (const HeldPlace& place : places) out.insert(place.node);
  for (const Victim& victim : victims) {
    for (const HeldPlace& place : victim.to) out.insert(place.node);
  }
  return out;
}

std::string_view name_of(ProposalState state) {
  switch (state) {
    case ProposalState::kNone:
      return "none";
    case ProposalState::kAsked:
      return "asked";
    case ProposalState::kAccepted:
      return "accepted";
    case ProposalState::kReturning:
      return "returning";
  }
  return "unknown";
}

// ---- rows ----

void Engine::index_proposal(const WorkloadUid& uid, const Proposal& row, bool add) {
  if (!row.stands()) return;
  add ? (void)index_.standing.insert(uid) : (void)index_.standing.erase(uid);
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
    if (old->stands()) nodes = old->nodes();
    index_proposal(uid, *old, false);
  }
  const Proposal& row = tables_.proposals.insert(uid, std::move(next));
  index_proposal(uid, row, true);
  if (row.stands()) nodes.merge(row.nodes());
  for (const NodeName& name : nodes) refresh_room(name);
}

void Engine::say(const WorkloadUid& uid) {
  scratch_.out.events.push_back(ProposalChanged{uid, *tables_.proposals.find(uid), false});
}

/// Ends the proposal. Its history stays, and so do the targets of victims that are migrating already.
void Engine::drop_proposal(const WorkloadUid& uid, std::string why, Instant next) {
  send_movers(uid);
  Proposal row = *tables_.proposals.find(uid);
  // A gang recovery, and a migration that is part of another proposal, were never published.
  if (row.state != ProposalState::kReturning && row.said_times > 0)
    scratch_.out.events.push_back(ProposalChanged{uid, row, true});
  ++(row.move ? scratch_.out.notes.moves : scratch_.out.notes.proposals)[why];
  scratch_.demand = scratch_.demand || (row.state != ProposalState::kAsked && index_.short_of.contains(uid));
  row.state = ProposalState::kNone;
  row.victims.clear();
  row.places.clear();
  row.cuts.clear();
  row.until = {};
  row.said_times = 0;
  row.next = next;
  row.last = std::move(why);
  scratch_.unheld = true;
  put_proposal(uid, std::move(row));
}

void Engine::forget_proposal(const WorkloadUid& uid) {
  const Proposal* row = tables_.proposals.find(uid);
  if (row == nullptr) return;
  if (row->move) return review_move(uid);
  if (row->stands()) drop_proposal(uid, "Over", scratch_.now);
  tables_.proposals.erase(uid);
}

// ---- held capacity ----

/// Releases the workload's own holds and those of lower priority for this decision. Returns the nodes with
/// changed free capacity.
std::pair<Engine::Lifted, std::set<NodeName>> Engine::open_to(const WorkloadUid& uid, bool tidying) const {
  Lifted lifted;
  lifted.tidying = tidying;
  std::set<NodeName> nodes = tidying ? index_.tidied : std::set<NodeName>();
  const auto priority = tables_.workloads.find(uid)->spec.priority;
  const auto goes_before = [&](const WorkloadUid& other) {
    const Workload* workload = tables_.workloads.find(other);
    return other != uid && workload != nullptr && workload->spec.priority >= priority;
  };
  for (const WorkloadUid& other : index_.standing) {
    if (goes_before(other)) continue;
    const Proposal& row = *tables_.proposals.find(other);
    lifted.holds.insert(other);
    for (const auto& victim : row.victims) lifted.holds.insert(victim.id.uid);
    nodes.merge(row.nodes());
  }
  for (const auto& [other, cut] : index_.cut_for) {
    if (goes_before(other)) continue;
    lifted.holds.insert(other);
    nodes.insert(cut.begin(), cut.end());
  }
  std::erase_if(nodes, [this](const NodeName& name) { return !tables_.nodes.contains(name); });
  return {std::move(lifted), std::move(nodes)};
}

std::vector<NodeName> Engine::lift_holds(const WorkloadUid& uid, bool tidying) {
  const auto [lifted, nodes] = open_to(uid, tidying);
  for (const NodeName& name : nodes) set_room(name, room_of(name, lifted));
  return {nodes.begin(), nodes.end()};
}

void Engine::put_back_holds(const std::vector<NodeName>& nodes) {
  for (const NodeName& name : nodes) set_room(name, room_of(name));
}

// ---- active proposals ----

void Engine::hear_answer(const WorkloadHeard& heard) {
  const WorkloadUid& uid = heard.spec.uid;
  const Proposal* known = tables_.proposals.find(uid);
  if (!heard.answer || known == nullptr || known->state != ProposalState::kAsked) return;
  const ProposalAnswer& answer = *heard.answer;
  if (answer.number != known->number) return;
  if (known->move) return hear_of_move(uid, answer);
  Proposal next = *known;
  if (answer.accepted) {
    next.state = ProposalState::kAccepted;
    scratch_.demand = true;
    next.refusals = 0;
    ++scratch_.out.notes.proposals["Accepted"];
    for (const auto& victim : next.victims) scratch_.out.notes.gave_way_gpu_ms += victim.gpu_ms;
    scratch_.contested.insert(uid);
    put_proposal(uid, std::move(next));
    return send_movers(uid);
  }
  for (const WorkloadUid& kept : answer.kept) next.kept[kept] = scratch_.now + options_.proposing.again;
  std::erase_if(next.kept, [this](const auto& one) { return one.second <= scratch_.now; });
  ++next.refusals;
  // Another set may be possible without the refused victims. After several refusals the next search is
  // delayed longer each time.
  const Duration wait = next.refusals < 2 && !answer.kept.empty()
                            ? Duration{0}
                            : options_.proposing.every * (std::int64_t{1} << std::min(next.refusals, kMostDoublings));
  tables_.proposals.insert(uid, std::move(next));
  drop_proposal(uid, answer.reason, scratch_.now + wait);
}

/// Victims that still hold their devices.
std::set<AttemptId> Engine::still_there(const Proposal& row) const {
  std::set<AttemptId> out;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    if (there != nullptr && there->holds()) out.insert(victim.id);
  }
  return out;
}

/// Ends proposals whose workload is not pending any more. Workloads with changes on held nodes are placed
/// again.
void Engine::review_proposals(const std::set<NodeName>& seen) {
  const auto standing = index_.standing;
  for (const WorkloadUid& uid : standing) {
    const Workload* workload = tables_.workloads.find(uid);
    const Proposal* known = tables_.proposals.find(uid);
    if (known == nullptr) continue;  // requested for a plan that has ended meanwhile
    const Proposal& row = *known;
    if (row.state == ProposalState::kReturning) {
      if (returns_no_more(uid, row)) drop_proposal(uid, "Over", scratch_.now);
      if (workload == nullptr) tables_.proposals.erase(uid);
      continue;
    }
    if (row.move) {
      review_move(uid);
      continue;
    }
    if (workload == nullptr || workload->attempt != row.attempt || workload->phase != WorkloadPhase::kQuotaReserved) {
      drop_proposal(uid, "Over", scratch_.now);
      if (workload == nullptr) tables_.proposals.erase(uid);
      continue;
    }
    const auto nodes = row.nodes();
    if (std::ranges::any_of(nodes, [&](const NodeName& node) { return seen.contains(node); })) {
      scratch_.heirs.insert(uid);
      if (row.state == ProposalState::kAccepted) scratch_.contested.insert(uid);
    }
    send_movers(uid);
  }
}

/// Runs after all workloads were placed.
void Engine::tend_proposals() {
  if (!synced() || index_.standing.empty()) return;
  const Proposing& rules = options_.proposing;
  const auto contested = std::exchange(scratch_.contested, {});
  reckon();
  const auto standing = index_.standing;
  for (const WorkloadUid& uid : standing) {
    const Proposal* known = tables_.proposals.find(uid);
    if (known == nullptr) continue;  // requested for a plan that has ended meanwhile
    const Proposal& row = *known;
    if (row.state == ProposalState::kReturning) continue;
    if (row.move) {
      tend_move(uid);
      continue;
    }
    const auto there = still_there(row);
    const bool accepted = row.state == ProposalState::kAccepted;
    if (there.empty() && !row.cuts.empty()) {
      begin_cuts(uid);
      continue;
    }
    const bool over = accepted && there.empty();  // and it still does not fit
    const auto is_void = [&] {
      Rooms rooms = index_.rooms;
      return !placed_without(uid, there, rooms).plan || !movers_fit(row);
    };
    if (over || (contested.contains(uid) && is_void())) {
      drop_proposal(uid, "Stale", scratch_.now);
      continue;
    }
    if (accepted || row.said + rules.answer > scratch_.now) continue;
    if (row.said_times >= rules.most_said) {
      drop_proposal(uid, "Unanswered", scratch_.now + rules.again);
    } else if (!proposal_holds(uid)) {
      drop_proposal(uid, "Stale", scratch_.now);
    } else {
      Proposal& again = tables_.proposals.edit(uid);
      again.said = scratch_.now;
      ++again.said_times;
      say(uid);
    }
  }
}

// ---- candidates ----

bool Engine::may_give_way(const AttemptId& id, const Assignment& row, const WorkloadUid& to, bool instances) const {
  const Workload& wish = *tables_.workloads.find(to);
  const Workload* workload = tables_.workloads.find(id.uid);
  if (!options_.proposing.evicting) return false;
  if (!row.holds() || row.eviction || workload == nullptr || workload->attempt != id.attempt) return false;
  if (workload->phase != WorkloadPhase::kAdmitted || workload->spec.priority >= wish.spec.priority) return false;
  const QuotaStanding& theirs = workload->standing;
  const bool own = theirs.queue == wish.standing.queue;
  if (own ? !wish.standing.own_queue : !wish.standing.in_tree || theirs.quota_tree != wish.standing.quota_tree)
    return false;
  if (theirs.kept_until > scratch_.now) return false;
  if (!instances && wants_instances(row.pod_sets)) return false;
  return !is_kept_from(id.uid, to);
}

/// Admission recently refused this victim.
bool Engine::is_kept_from(const WorkloadUid& uid, const WorkloadUid& to) const {
  const Proposal* known = tables_.proposals.find(to);
  if (known == nullptr) return false;
  const auto kept = known->kept.find(uid);
  return kept != known->kept.end() && kept->second > scratch_.now;
}

/// Earliest time of a victim search for the workload; none if there is none.
std::optional<Instant> Engine::may_search_at(const WorkloadUid& uid) const {
  const Workload& workload = *tables_.workloads.find(uid);
  if (workload.phase != WorkloadPhase::kQuotaReserved || workload.short_since == Instant{}) return std::nullopt;
  const bool may_displace = workload.standing.own_queue || workload.standing.in_tree;
  if ((!may_displace && !options_.proposing.moving) || index_.cut_for.contains(uid)) return std::nullopt;
  const Proposal* known = tables_.proposals.find(uid);
  if (known != nullptr && known->stands() && known->state != ProposalState::kReturning) return std::nullopt;
  return std::max(workload.short_since + options_.proposing.after, known == nullptr ? Instant{} : known->next);
}

void Engine::propose() {
  const Proposing& rules = options_.proposing;
  if (!rules.on || !synced() || meta().searched + rules.every > scratch_.now) return;
  using Turn = std::tuple<std::int64_t, Instant, WorkloadUid>;  // higher priority first, then the longer pending time
  std::vector<Turn> turns;
  for (const WorkloadUid& uid : index_.wanting) {
    const auto from = may_search_at(uid);
    if (!from || *from > scratch_.now) continue;
    const Workload& workload = *tables_.workloads.find(uid);
    turns.emplace_back(-std::int64_t{workload.spec.priority}, workload.short_since, uid);
  }
  if (turns.empty()) return;
  std::ranges::sort(turns);
  if (turns.size() > rules.most_searches) turns.resize(rules.most_searches);
  tables_.meta.edit(0).searched = scratch_.now;
  reckon();
  for (const auto& [priority, since, uid] : turns) {
    if (std::ranges::count_if(index_.standing, [this](const auto& other) { return !moves(other); }) >=
        static_cast<std::ptrdiff_t>(rules.most_standing))
      return;
    std::set<AttemptId> leaving;
    for (const WorkloadUid& other : index_.standing) {
      for (const auto& victim : tables_.proposals.find(other)->victims) leaving.insert(victim.id);
    }
    search(uid, leaving);
  }
}

Placed Engine::placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone, Rooms& rooms) const {
  const Proposal* row = tables_.proposals.find(uid);
  return placed_without(uid, gone, rooms, row == nullptr ? Cuts() : row->cuts);
}

/// The placement without these victims, with the workload's held capacity and these MIG repartitions.
/// Requires a prepared preference. If it fits, `rooms` includes it.
Placed Engine::placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone, Rooms& rooms,
                              const Cuts& cuts) const {
  const Lifted lifted{.attempts = gone, .holds = {uid}, .tidying = true};
  std::set<NodeName> nodes = index_.tidied;
  for (const AttemptId& id : gone) {
    for (const Member& member : tables_.assignments.find(id)->members) {
      if (member.live()) nodes.insert(member.node);
    }
  }
  if (const Proposal* row = tables_.proposals.find(uid)) nodes.merge(row->nodes());
  for (const NodeName& name : nodes) {
    if (const auto room = rooms.find(name); room != rooms.end()) room->second = room_of(name, lifted);
  }
  if (!think_cut(cuts, lifted, rooms)) return {};
  return place(asked_by(uid), rooms, index_.preference);
}

/// Victims of the workload and their migration targets, as a new row. None if the workload does not fit
/// without them.
std::optional<Proposal> Engine::room_by(const WorkloadUid& uid, const std::map<AttemptId, Leave>& who) const {
  Stage stage(*this, uid, who);
  const auto found = stage.plan();
  if (!found || !found->placed()) return std::nullopt;
  auto victims = stage.leaving(*found);
  if (victims.empty()) return std::nullopt;
  // The scene has only numbers; the engine's own placement decides.
  Rooms rooms = index_.rooms;
  auto placed = placed_without(uid, stage.ids(victims), rooms);
  if (!placed.plan) return std::nullopt;
  for (std::size_t i = victims.size(); i-- > 0 && victims.size() <= kMostGivenBack;) {
    auto fewer = victims;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    Rooms as_is = index_.rooms;
    if (auto enough = placed_without(uid, stage.ids(fewer), as_is); enough.plan) {
      if (fewer.empty()) return std::nullopt;
      victims = std::move(fewer);
      placed = std::move(enough);
      rooms = std::move(as_is);
    }
  }
  Proposal out;
  out.micro_usd = found->cost.topology;
  std::int64_t moved_gpu_ms = 0;
  for (auto& victim : victims) {
    if (!victim.to.empty()) {
      auto to = elsewhere(victim.id.uid, victim.to, rooms);
      if (!to && victim.only_moves) return std::nullopt;
      victim.to = to ? std::move(*to) : std::vector<HeldPlace>();
    }
    if (victim.only_moves) moved_gpu_ms += victim.gpu_ms;
    out.lost_micro_usd += victim.lost_micro_usd;
    out.victims.push_back({victim.id, victim.gpu_ms, std::move(victim.to)});
  }
  std::int64_t milli = 0;
  for (const PodSet& set : tables_.workloads.find(uid)->spec.pod_sets)
    milli += least_of(set) * class_of(set.shape).total_milli();
  if (moved_gpu_ms > options_.proposing.most_lost * milli) return std::nullopt;
  out.micro_usd += out.lost_micro_usd;
  out.places = places_of(placed.plan->members);
  return out;
}

void Engine::search(const WorkloadUid& uid, const std::set<AttemptId>& leaving) {
  if (drain(uid, leaving)) return;
  const Proposing& rules = options_.proposing;
  const Proposal* known = tables_.proposals.find(uid);
  Proposal next = known == nullptr ? kNothing : *known;
  const auto in_vain = [&](std::string why) {
    next.last = std::move(why);
    next.next = scratch_.now + rules.answer;
    if (known == nullptr || *known != next) tables_.proposals.insert(uid, std::move(next));
  };
  std::map<AttemptId, Leave> candidates;
  for (const auto& [id, row] : tables_.assignments) {
    if (leaving.contains(id)) continue;
    if (const Leave how = ways_of(id, row, uid); how.any()) candidates[id] = how;
  }
  if (candidates.empty()) return in_vain("NobodyMayGiveWay");
  auto found = room_by(uid, candidates);
  if (!found && std::erase_if(candidates, [](const auto& one) { return !one.second.evicted; }) > 0 &&
      !candidates.empty()) {
    found = room_by(uid, candidates);
  }
  if (!found) return in_vain("NoSetMakesRoom");
  next.until = {};
  next.state = ProposalState::kAsked;
  next.number = tables_.meta.edit(0).next_proposal++;
  next.attempt = tables_.workloads.find(uid)->attempt;
  next.micro_usd = found->micro_usd;
  next.lost_micro_usd = found->lost_micro_usd;
  next.victims = std::move(found->victims);
  next.places = std::move(found->places);
  next.made = next.said = scratch_.now;
  next.said_times = 1;
  next.last.clear();
  ++scratch_.out.notes.proposals["Made"];
  if (std::ranges::any_of(next.nodes(), [this](const NodeName& node) { return index_.tidied.contains(node); }))
    end_tidying("NeededByOthers");
  put_proposal(uid, std::move(next));
  say(uid);
}

/// No answer yet: whether the proposal would be made again at no higher cost.
bool Engine::proposal_holds(const WorkloadUid& uid) const {
  const Proposal& row = *tables_.proposals.find(uid);
  const bool moves_some = std::ranges::any_of(row.victims, [](const auto& victim) { return !victim.to.empty(); });
  if (!moves_some && wants_instances(tables_.workloads.find(uid)->spec.pod_sets)) return drain_holds(uid);
  std::map<AttemptId, Leave> who;
  std::set<AttemptId> victims;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    const Leave how = there == nullptr ? Leave{} : ways_of(victim.id, *there, uid);
    if (victim.to.empty() ? !how.evicted : !how.moved) return false;
    who[victim.id] = how;
    victims.insert(victim.id);
  }
  Rooms rooms = index_.rooms;
  return Stage(*this, uid, std::move(who)).still_holds(row) && placed_without(uid, victims, rooms).plan.has_value() &&
         movers_fit(row);
}

}  // namespace qm::placement
