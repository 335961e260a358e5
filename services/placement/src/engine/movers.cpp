// Migration of victims. The target of a victim is held from the first publication on, in the row of the
// preemptor. After admission's answer it is held in a row of the victim, for its next attempt (moves.cpp). So
// the victim may have the same priority as the preemptor: it loses time, but no capacity.
#include "engine/stage.hpp"

#include <algorithm>

namespace qm::placement {

bool Engine::may_go_elsewhere(const AttemptId& id, const Assignment& row, const WorkloadUid& for_whom) const {
  if (!options_.proposing.moving || !row.holds() || id.uid == for_whom || !may_move(id, row)) return false;
  const Workload& workload = *tables_.workloads.find(id.uid);
  if (workload.spec.priority > tables_.workloads.find(for_whom)->spec.priority) return false;
  if (workload.standing.kept_until > scratch_.now || is_kept_from(id.uid, for_whom)) return false;
  if (const Proposal* own = tables_.proposals.find(id.uid); own != nullptr && own->stands()) return false;
  return std::ranges::none_of(row.pod_sets,
                              [](const PodSet& set) { return set.shape.gpu.mig_count > 0 || set.topology.exclusive; });
}

Engine::Leave Engine::ways_of(const AttemptId& id, const Assignment& row, const WorkloadUid& to) const {
  return {may_give_way(id, row, to), may_go_elsewhere(id, row, to)};
}

/// The placement of the migrated workload on the planned nodes, or on any if it does not fit there. Its
/// capacity is taken from `rooms`.
std::optional<std::vector<HeldPlace>> Engine::elsewhere(const WorkloadUid& mover, const std::vector<HeldPlace>& planned,
                                                        Rooms& rooms) const {
  Rooms there;
  for (const HeldPlace& place : planned) {
    if (const auto room = rooms.find(place.node); room != rooms.end()) there.insert(*room);
  }
  auto placed = place(asked_by(mover), there, index_.preference, nullptr, Wanted::kPlan);
  if (placed.plan) {
    for (auto& [name, room] : there) rooms[name] = std::move(room);
  } else {
    placed = place(asked_by(mover), rooms, index_.preference, nullptr, Wanted::kPlan);
  }
  if (!placed.plan) return std::nullopt;
  return places_of(placed.plan->members);
}

/// Whether every migrated victim fits the capacity held for it, once all victims have left.
bool Engine::movers_fit(const Proposal& row) const {
  const auto gone = still_there(row);
  return std::ranges::all_of(row.victims, [&](const Proposal::Victim& victim) {
    if (victim.to.empty()) return true;
    Rooms there;
    for (const HeldPlace& place : victim.to) {
      if (!tables_.nodes.contains(place.node)) return false;
      const Lifted lifted{.attempts = gone, .holds = {victim.id.uid}, .tidying = true};
      there.emplace(place.node, room_of(place.node, lifted));
    }
    return place(asked_by(victim.id.uid), there, index_.preference, nullptr, Wanted::kPlan).plan.has_value();
  });
}

/// Moves the targets of accepted migrations, and of victims that have left before the answer, to rows of
/// their own. These rows are not published.
void Engine::send_movers(const WorkloadUid& to) {
  Proposal asked = *tables_.proposals.find(to);
  std::map<WorkloadUid, Proposal> movers;
  for (auto& victim : asked.victims) {
    const Workload* workload = tables_.workloads.find(victim.id.uid);
    if (victim.to.empty() || workload == nullptr) continue;
    const bool leaves = workload->attempt == victim.id.attempt &&
                        (asked.state == ProposalState::kAccepted || workload->phase == WorkloadPhase::kEvicting);
    if (!leaves && workload->attempt != victim.id.attempt + 1) continue;
    Proposal& own = movers[victim.id.uid];
    own.state = ProposalState::kAccepted;
    own.move = true;
    own.number = tables_.meta.edit(0).next_proposal++;
    own.attempt = victim.id.attempt;
    own.victims.push_back({victim.id, victim.gpu_ms, {}});
    own.places = std::exchange(victim.to, {});
    own.made = asked.made;
    own.said = scratch_.now;
    scratch_.out.notes.moved_gpu_ms += victim.gpu_ms;
    for (const char* what : {"Made", "Accepted"}) ++scratch_.out.notes.moves[what];
  }
  if (movers.empty()) return;
  put_proposal(to, std::move(asked));
  for (auto& [uid, own] : movers) put_proposal(uid, std::move(own));
}

}  // namespace qm::placement
