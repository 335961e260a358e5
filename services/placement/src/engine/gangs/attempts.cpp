// Ranks that are present, missing or awaited.
#include "engine/gangs/attempts.hpp"

#include <algorithm>

namespace qm::placement {

Ending Attempts::ending_of(const AttemptId& id) const {
  const Workload* workload = tables_.workloads.find(id.uid);
  if (workload == nullptr || workload->attempt < id.attempt) return Ending::kNone;
  if (workload->attempt > id.attempt) return Ending::kOrdered;
  switch (workload->phase) {
    case WorkloadPhase::kEvicting:
    case WorkloadPhase::kCancelled:
      return Ending::kOrdered;
    case WorkloadPhase::kPending:  // quota was revoked without a new attempt
    case WorkloadPhase::kFinished:
      return Ending::kAwaited;
    case WorkloadPhase::kQuotaReserved:
    case WorkloadPhase::kAdmitted:
      return Ending::kNone;
  }
  return Ending::kNone;
}

bool Attempts::awaits_nodes(const WorkloadUid& uid) const {
  const Workload* workload = tables_.workloads.find(uid);
  if (workload == nullptr || ending_of({uid, workload->attempt}) == Ending::kOrdered) return false;
  if (workload->phase == WorkloadPhase::kFinished) return false;
  const Assignment* row = tables_.assignments.find({uid, workload->attempt});
  return row == nullptr || !row->holds() || !workload->unplaced.by_set.empty();
}

std::set<std::int32_t> Attempts::missing_ranks(const AttemptId& id, const Assignment& row, std::size_t set) const {
  std::set<std::int32_t> out;
  for (std::int32_t rank = 0; rank < row.pod_sets[set].count; ++rank) out.insert(out.end(), rank);
  for (const Member& member : row.members) {
    if (static_cast<std::size_t>(member.set) == set && !member.lost) out.erase(member.index);
  }
  if (const Workload* workload = tables_.workloads.find(id.uid)) {
    for (const auto& [done, rank] : workload->done) {
      if (static_cast<std::size_t>(done) == set) out.erase(rank);
    }
  }
  return out;
}

bool Attempts::has_missing(const AttemptId& id, const Assignment& row) const {
  for (std::size_t set = 0; set < row.pod_sets.size(); ++set) {
    if (!missing_ranks(id, row, set).empty()) return true;
  }
  return false;
}

bool Attempts::has_minimum(const AttemptId& id, const Assignment& row) const {
  if (row.members.empty()) return false;
  if (!is_elastic(row.pod_sets) && std::ranges::none_of(row.members, &Member::lost)) {
    std::ptrdiff_t pods = 0;
    for (const PodSet& set : row.pod_sets) pods += set.count;
    return std::ssize(row.members) == pods;  // complete, the common case
  }
  for (std::size_t set = 0; set < row.pod_sets.size(); ++set) {
    const PodSet& asked = row.pod_sets[set];
    if (asked.count - std::ssize(missing_ranks(id, row, set)) < minimum_of(asked)) return false;
  }
  return true;
}

std::vector<std::int32_t> Attempts::awaited_ranks(const AttemptId& id, const Assignment& row, std::size_t set) const {
  auto missing = missing_ranks(id, row, set);
  if (missing.empty()) return {};
  std::vector<std::int32_t> out;
  std::ptrdiff_t alike = 0;
  for (const Pod* pod : pods_.pods_of(id)) {
    const PodFacts& facts = pod->facts;
    const bool mine = facts.pod_set.empty() ? set == 0 : facts.pod_set == row.pod_sets[set].name;
    if (!mine || !facts.node.empty() || facts.deleting || facts.terminal()) continue;
    if (std::ranges::any_of(row.members, [&](const Member& m) { return m.live() && m.pod_uid == facts.uid; })) continue;
    if (facts.index < 0 || row.pod_sets[set].is_work_queue()) {
      ++alike;
    } else if (missing.erase(facts.index) > 0) {
      out.push_back(facts.index);
    }
  }
  for (auto rank = missing.begin(); rank != missing.end() && alike > 0; ++rank, --alike) out.push_back(*rank);
  std::ranges::sort(out);
  return out;
}

bool Attempts::has_awaited(const AttemptId& id, const Assignment& row) const {
  for (std::size_t set = 0; set < row.pod_sets.size(); ++set) {
    if (!awaited_ranks(id, row, set).empty()) return true;
  }
  return false;
}

}  // namespace qm::placement
