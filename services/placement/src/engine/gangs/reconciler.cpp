// Reconciles one attempt with its pods and with the state from admission: level-triggered and idempotent.
#include "engine/gangs/reconciler.hpp"

#include "engine/allocator/mounts.hpp"
#include "qm/base/assert.hpp"
#include "qm/kube_rules/text.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

/// Ranks ordered by set and index. This is the order in which they fill nodes, then racks, so the next rank
/// is the nearest. Missing ranks are counted, but skipped as neighbors.
std::string ring_of(const Assignment& gang, const Member& member) {
  std::vector<const Member*> there;
  for (const Member& m : gang.members) {
    if (!m.lost) there.push_back(&m);
  }
  if (there.size() < 2) return {};
  std::ranges::sort(there, {}, [](const Member* m) { return std::pair(m->set, m->index); });
  const auto place = static_cast<std::size_t>(std::ranges::find(there, &member) - there.begin());
  const auto at = [&](std::size_t other) { return there[other % there.size()]->node; };
  std::int32_t rank = member.index, pods = 0;
  for (std::int32_t set = 0; set < std::ssize(gang.pod_sets); ++set) {
    const auto count = gang.pod_sets[static_cast<std::size_t>(set)].count;
    rank += set < member.set ? count : 0;
    pods += count;
  }
  return fmt::format("rank={} of={} previous={} next={}", rank, pods, at(place + there.size() - 1), at(place + 1));
}

/// Number of members without a pod.
std::ptrdiff_t unused(const Assignment& gang) {
  return std::ranges::count_if(gang.members, [](const Member& m) { return m.live() && m.pod_uid.empty(); });
}

/// Keeps as many members as pods are left to run; admission reports finished pods by the Job. For pods with
/// ranks placement observes most successes itself. If a pod vanished before that, its member is released only
/// once all other pods have one.
void release_finished(Assignment& gang, std::int32_t ended, Instant now) {
  if (ended == 0 || gang.pod_sets.size() != 1) return;
  const PodSet& set = gang.pod_sets.front();
  const std::ptrdiff_t needed = std::max(set.count - ended, 1),
                       live = std::ranges::count_if(gang.members, &Member::live);
  if (!set.is_work_queue() && live - unused(gang) < needed) return;
  auto spare = live - needed;
  for (auto member = gang.members.rbegin(); member != gang.members.rend() && spare > 0; ++member) {
    if (!member->live() || !member->pod_uid.empty()) continue;
    if (member->bound == Instant{}) member->bound = now;
    member->released = now;
    --spare;
  }
}

/// Admission increased the pods of a running Job: the attempt continues with them, and the minimum does not
/// grow. Any other change applies to the next attempt.
void apply_scale_up(Assignment& gang, const std::vector<PodSet>& asked) {
  if (gang.pod_sets == asked || gang.pod_sets.size() != asked.size()) return;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    PodSet resized = gang.pod_sets[i];
    resized.count = asked[i].count;
    resized.min_count = asked[i].min_count;
    resized.completions = asked[i].completions;
    const PodSet& before = gang.pod_sets[i];
    if (resized != asked[i] || asked[i].count < before.count || minimum_of(asked[i]) > minimum_of(before)) return;
  }
  gang.pod_sets = asked;
}

/// Released members are missing again if the Job has scaled up since.
void mark_released_missing(Assignment& gang, std::int32_t ended,
                           const std::set<std::pair<std::int32_t, std::int32_t>>& done) {
  if (gang.pod_sets.size() != 1 || !is_elastic(gang.pod_sets)) return;
  const std::ptrdiff_t needed = gang.pod_sets.front().count - ended;
  std::set<std::int32_t> there;
  for (const Member& member : gang.members) {
    if (!member.lost) there.insert(member.index);
  }
  const std::ptrdiff_t live = std::ranges::count_if(gang.members, &Member::live);
  auto lacking = needed - live - (gang.pod_sets.front().count - std::ssize(there));
  for (Member& member : gang.members) {
    if (lacking <= 0) return;
    if (member.live() || member.lost || !member.pod_uid.empty() || done.contains({0, member.index})) continue;
    member.lost = true;
    --lacking;
  }
}

}  // namespace

// A rank that has succeeded is final: the controller creates no pod for it in a later attempt. Its pod may
// vanish with its node, so the workload row stores it.
void Reconciler::note_successes(const WorkloadUid& uid) {
  const Workload* workload = tables_.workloads.find(uid);
  if (workload == nullptr) return;
  for (const Pod* row : pods_.pods_of(uid)) {
    const PodFacts& pod = row->facts;
    if (pod.phase != PodPhase::kSucceeded || pod.index < 0) continue;
    const auto& sets = workload->spec.pod_sets;
    const auto set = pod.pod_set.empty() ? sets.begin() : std::ranges::find(sets, pod.pod_set, &PodSet::name);
    if (set == sets.end() || set->is_work_queue()) continue;
    const std::pair rank(static_cast<std::int32_t>(set - sets.begin()), pod.index);
    if (workload->done.contains(rank)) continue;
    tables_.workloads.edit(uid).done.insert(rank);
    rows_.index_workload(uid);
    for (const AttemptId& attempt : pods_.attempts_of(uid)) scratch_.attempts.insert(attempt);
  }
}

void Reconciler::reconcile(const AttemptId& id) {
  note_successes(id.uid);
  const Ending ending = attempts_.ending_of(id);
  const auto pods = pods_.pods_of(id);
  if (ending == Ending::kOrdered) order_deletes(id, pods);

  const Workload* workload = tables_.workloads.find(id.uid);
  const bool current = workload != nullptr && workload->attempt == id.attempt;
  const bool evicting = current && workload->phase == WorkloadPhase::kEvicting;
  const bool over = workload == nullptr || !current || workload->phase == WorkloadPhase::kFinished ||
                    workload->phase == WorkloadPhase::kCancelled;
  const bool alive = std::ranges::any_of(pods, [](const Pod* pod) { return !pod->facts.terminal(); });
  const Assignment* row = tables_.assignments.find(id);
  if (row == nullptr) {
    // Evicted before any placement: only stray pods have to end.
    if (evicting && !alive) {
      Assignment released = assignment_for(workload->spec);
      released.state = AssignmentState::kReleased;
      released.decided = released.ended = scratch_.now;
      rows_.store(id, std::move(released));
    }
    drop_workload_if_done(id.uid);
    return;
  }
  Assignment next = *row;
  switch (row->state) {
    case AssignmentState::kReserved:
    case AssignmentState::kBound:
      reconcile_held(id, next, ending, pods);
      break;
    case AssignmentState::kShort:
    case AssignmentState::kExpired:
      if (evicting && !alive) {
        next.state = AssignmentState::kReleased;
        next.ended = scratch_.now;
      } else if (row->state == AssignmentState::kShort && (over || ending != Ending::kNone) && !evicting) {
        rows_.forget(id);
        drop_workload_if_done(id.uid);
        return;
      }
      break;
    case AssignmentState::kReleased:
      break;
  }
  rows_.store(id, std::move(next));
  row = tables_.assignments.find(id);
  if (current && index_.below_size.contains(id.uid) &&
      (attempts_.has_awaited(id, *row) || index_.unplaced.contains(id.uid)))
    scratch_.requested.insert(id.uid);
  if (!row->holds() && row->state != AssignmentState::kShort && over && !alive &&
      row->ended + options_.keep_ended <= scratch_.now) {
    rows_.forget(id);
    drop_workload_if_done(id.uid);
  }
}

void Reconciler::reconcile_held(const AttemptId& id, Assignment& next, Ending ending,
                                const std::vector<const Pod*>& pods) {
  const Workload* workload = tables_.workloads.find(id.uid);
  const bool admitted =
      workload != nullptr && workload->attempt == id.attempt && workload->phase == WorkloadPhase::kAdmitted;
  if (admitted && !next.confirmed) {
    next.confirmed = true;
    if (next.state == AssignmentState::kReserved) next.expires = scratch_.now + options_.hold;
  }
  if (admitted) apply_scale_up(next, workload->spec.pod_sets);
  for (Member& member : next.members) {
    if (member.live()) fill_member(id, next, member, ending, pods);
  }
  if (admitted) {
    release_finished(next, workload->quota_facts.ended_pods, scratch_.now);
    mark_released_missing(next, workload->quota_facts.ended_pods, workload->done);
  }
  // A pod that was to scale up a running gang and ended before its bind releases its member.
  if (next.state == AssignmentState::kBound) {
    std::erase_if(next.members, [](const Member& m) { return m.bound == Instant{} && m.pod_uid.empty(); });
  }
  const auto holds = [](const Member& member) { return member.live(); };
  if (ending != Ending::kNone) {
    if (ending == Ending::kOrdered) recovery_.hold_for_recovery(id, next);
    next.expires = {};
    if (std::ranges::any_of(next.members, holds)) return;
    // Pods without a member (never bound, or on a lost node) do not keep the attempt.
    next.state = AssignmentState::kReleased;
    next.ended = scratch_.now;
    return;
  }
  // Members ended by an order that is not valid any more, as after a restore of admission's database.
  if (!next.eviction && !attempts_.has_minimum(id, next)) {
    if (std::ranges::any_of(next.members, holds))
      return rows_.request_eviction(id, next,
                                    {"GangIncomplete", "pods of it were deleted before its eviction was withdrawn",
                                     scratch_.now, NodeName(), false});
    next.state = AssignmentState::kReleased;
    next.expires = {};
    next.ended = scratch_.now;
    return;
  }
  if (next.state == AssignmentState::kBound) return evict_if_idle(id, next);
  if (next.state != AssignmentState::kReserved) return;
  if (next.expires != Instant{} && next.expires <= scratch_.now) release_unused(id, next);
  if (std::ranges::all_of(next.members, [](const Member& m) { return m.bound != Instant{}; })) {
    next.state = AssignmentState::kBound;
    next.expires = {};
    scratch_.out.notes.bound_after.push_back(scratch_.now - next.decided);
  } else if (next.expires != Instant{} && next.expires <= scratch_.now) {
    next.expires = {};
    if (std::ranges::all_of(next.members, [](const Member& m) { return m.pod_uid.empty(); })) {
      for (Member& member : next.members) {
        if (member.live()) member.released = scratch_.now;
      }
      next.state = AssignmentState::kExpired;
      next.ended = scratch_.now;
    } else {
      rows_.request_eviction(
          id, next,
          {"GangIncomplete", fmt::format("{} of {} pods were not created in time", unused(next), next.members.size()),
           scratch_.now, NodeName(), false});
    }
  }
}

/// A gang whose placed pods have all ended, while others are pending for nodes: it holds quota and is not on
/// the demand list, so no nodes would be launched for it. A later attempt requests nodes.
void Reconciler::evict_if_idle(const AttemptId& id, Assignment& next) {
  const bool idle = next.confirmed && !next.eviction && std::ranges::none_of(next.members, &Member::live) &&
                    attempts_.has_awaited(id, next);
  if (!idle) {
    next.expires = {};
  } else if (next.expires == Instant{}) {
    next.expires = scratch_.now + options_.hold;
  } else if (next.expires <= scratch_.now) {
    next.expires = {};
    std::size_t waiting = 0;
    for (std::size_t set = 0; set < next.pod_sets.size(); ++set)
      waiting += attempts_.awaited_ranks(id, next, set).size();
    rows_.request_eviction(
        id, next,
        {"GangIncomplete", fmt::format("none of its pods runs, and {} are pending because no node fits", waiting),
         scratch_.now, NodeName(), false});
  }
}

/// Releases members without a pod after the deadline, if the gang runs without them.
void Reconciler::release_unused(const AttemptId& id, Assignment& next) const {
  if (!is_elastic(next.pod_sets) || unused(next) == 0) return;
  Assignment fewer = next;
  std::erase_if(fewer.members, [](const Member& m) { return m.live() && m.pod_uid.empty(); });
  if (attempts_.has_minimum(id, fewer)) next = std::move(fewer);
}

void Reconciler::fill_member(const AttemptId& id, Assignment& next, Member& member, Ending ending,
                             const std::vector<const Pod*>& pods) {
  const PodSet& set = next.pod_sets[static_cast<std::size_t>(member.set)];
  // Pods of a Job without indexes are interchangeable, and so are those of a work-queue Job: any pod without
  // a member matches.
  const auto is_rank = [&](const PodFacts& pod) {
    if (pod.index >= 0 && !set.is_work_queue()) return pod.index == member.index;
    return std::ranges::none_of(next.members, [&](const Member& m) { return &m != &member && m.pod_uid == pod.uid; });
  };
  const auto mine = [&](const PodFacts& pod) {
    return is_rank(pod) && (pod.pod_set.empty() ? member.set == 0 : pod.pod_set == set.name);
  };
  const auto release = [&] {
    member.released = scratch_.now;
    member.bind_sent = false;
  };
  if (!member.pod_uid.empty()) {
    const Pod* pod = tables_.pods.find(member.pod_uid);
    if (pod == nullptr || pod->facts.terminal()) {
      if (pod != nullptr && pod->facts.phase == PodPhase::kSucceeded) {
        if (member.bound == Instant{}) member.bound = scratch_.now;
        if (!set.is_work_queue()) return release();  // the rank is finished
      }
      member.pod_uid.clear();  // its replacement gets the same devices
      member.bind_sent = false;
    }
  }
  if (member.pod_uid.empty()) {
    const Workload* workload = tables_.workloads.find(id.uid);
    const bool done = workload != nullptr && workload->done.contains({member.set, member.index});
    const Pod* found = nullptr;
    for (const Pod* pod : pods) {
      if (!mine(pod->facts)) continue;
      if (pod->facts.phase == PodPhase::kSucceeded && !set.is_work_queue()) {
        member.pod = pod->facts.key();
        member.pod_uid = pod->facts.uid;
        if (member.bound == Instant{}) member.bound = scratch_.now;
        return release();
      }
      // A pod that is bound to this node is preferred: it has the devices.
      const bool here = pod->facts.node == member.node;
      if (pod->facts.terminal() || (!here && !pod->facts.node.empty())) continue;
      if (!here && (pod->facts.deleting || ending != Ending::kNone)) continue;
      if (found == nullptr || (here && found->facts.node.empty())) found = pod;
    }
    if (found == nullptr && done && member.bound == Instant{}) member.bound = scratch_.now;
    if (found == nullptr) {
      if (done || ending != Ending::kNone) release();
      return;
    }
    member.pod = found->facts.key();
    member.pod_uid = found->facts.uid;
  }

  const PodFacts& pod = tables_.pods.find(member.pod_uid)->facts;
  if (pod.node == member.node) {
    if (member.bound == Instant{}) member.bound = scratch_.now;
  } else if (!pod.node.empty()) {
    if (ending != Ending::kNone) return release();  // it was never bound here, and is not a member there
    // No eviction would be ordered for it, so the decision of the other scheduler is accepted.
    const Workload* workload = tables_.workloads.find(id.uid);
    if (workload != nullptr && workload->spec.labels.contains(kUnadmitted)) {
      if (member.bound == Instant{}) member.bound = scratch_.now;
      return release();
    }
    rows_.request_eviction(
        id, next,
        {"Misplaced", fmt::format("pod {} runs on node {} instead of {}", pod.key(), pod.node, member.node),
         scratch_.now, pod.node, false});
  } else if (!member.bind_sent && ending == Ending::kNone && !pod.deleting) {
    BindPod bind{id, member.index, pod.ns, pod.name, pod.uid, member.node, {}, ring_of(next, member), {}};
    const Node* node = tables_.nodes.find(member.node);
    if (const auto like = rules::template_of(pod.rules)) {
      auto mounts = mounts_of(tables_, *like, placement::own_claims_of(pod, *like));
      // Claims of the pod itself are created after it: the pod stays pending until they exist and can be used
      // on the node.
      const bool own = !like->rules.own_claims.empty();
      if (own && (!mounts.blocked.empty() || (node != nullptr && !reaches(mounts, member.node, node->facts)))) return;
      bind.claims = std::move(mounts.to_make);
    }
    const auto shares = node == nullptr ? 1 : shares_of(node->facts);
    for (const DeviceRef& device : member.devices) bind.devices.push_back(gpu_of(device, shares));
    tables_.pods.edit(pod.uid).plan = {member.node, bind.devices};
    member.bind_sent = true;
    state_.send(std::move(bind));
  }
}

void Reconciler::order_deletes(const AttemptId& id, const std::vector<const Pod*>& pods) {
  const Workload* workload = tables_.workloads.find(id.uid);
  std::int64_t grace_s = -1;
  if (workload->attempt == id.attempt && workload->phase == WorkloadPhase::kEvicting &&
      workload->order_deadline != Instant{}) {
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(workload->order_deadline - scratch_.now);
    grace_s = std::max<std::int64_t>(left.count(), 0);
  }
  for (const Pod* pod : pods) {
    if (pod->delete_sent || pod->facts.deleting || pod->facts.terminal()) continue;
    DeletePod order{pod->facts.ns, pod->facts.name, pod->facts.uid, grace_s};
    if (grace_s >= 0) order.evict_until = workload->order_deadline;
    // On a node that is gone no kubelet confirms the end of the pod.
    if (!pod->facts.node.empty() && !tables_.nodes.contains(pod->facts.node)) {
      order.grace_s = 0;
      order.evict_until = {};
    }
    tables_.pods.edit(pod->facts.uid).delete_sent = true;
    state_.send(std::move(order));
  }
}

void Reconciler::drop_workload_if_done(const WorkloadUid& uid) {
  const Workload* workload = tables_.workloads.find(uid);
  if (workload == nullptr ||
      (workload->phase != WorkloadPhase::kFinished && workload->phase != WorkloadPhase::kCancelled)) {
    return;
  }
  if (!pods_.pods_of(uid).empty()) return;  // its pods still need this row
  if (!pods_.attempts_of(uid).empty()) return;
  proposals_.forget_row(uid);
  index_.preference.count(workload->spec.pod_sets, -1);
  tables_.workloads.erase(uid);
  rows_.index_workload(uid);
}

}  // namespace qm::placement
