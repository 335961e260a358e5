// Preemption for MIG instances: the rules around the search of mig_victim_search.cpp. Once the victims have left,
// repartitions are ordered as in mig_repartitions.cpp.
#include "engine/disruption/mig_preemption.hpp"

#include "engine/disruption/mig_victim_search.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

constexpr int kGrown = 10;  // the cost of a proposal may grow by a tenth

/// Whether it also requests GPUs, whole or in shares.
bool wants_gpus_too(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets,
                             [](const PodSet& set) { return set.shape.gpu.mig_count == 0 && !set.shape.gpu.none(); });
}

}  // namespace

bool MigPreemption::fits_idle(const WorkloadUid& uid) const {
  const MigRepartition idle = search_.plan(uid, index_.preference);
  return idle.in_progress || (options_.mig_repartition.on && !idle.layouts.empty());
}

std::optional<SearchResult> MigPreemption::plan(const WorkloadUid& uid, const std::set<AttemptId>& terminating) const {
  const Workload& workload = *tables_.workloads.find(uid);
  if (!requests_instances(workload.spec.pod_sets)) return std::nullopt;
  const Instant now = state_.scratch.now, later = now + options_.preemption.answer;
  const auto none = [&](std::string reason, Instant retry) -> std::optional<SearchResult> {
    if (wants_gpus_too(workload.spec.pod_sets)) return std::nullopt;
    return NoPlan{std::move(reason), retry};
  };
  // A repartition without victims is cheaper and in progress soon.
  if (fits_idle(uid)) return none("MigRepartitioned", later);
  MigVictimSearch search(state_, victims_, search_, capacities_, layouts_, uid, terminating);
  if (search.has_no_candidates()) return none("NoPreemptionCandidates", later);
  const auto found = search.cheapest(options_.mig_repartition.on && search_.budget_left(uid) > 0);
  if (!found || found->repartitions.size() > search_.budget_left(uid)) return none("NoSufficientVictims", later);
  if (const Instant from = workload.short_since + options_.mig_repartition.after;
      !found->repartitions.empty() && from > now)
    return none("MigRepartitionDelayed", from);

  DisruptionPlan out;
  for (const AttemptId& id : found->victims) out.victims.push_back({id, search.loss(id).gpu_ms, {}});
  out.places = places_of(found->members);
  out.repartitions = found->repartitions;
  out.micro_usd = found->cost();
  out.lost_micro_usd = found->lost;
  return out;
}

bool MigPreemption::is_valid(const WorkloadUid& uid) const {
  const Proposal& row = *tables_.proposals.find(uid);
  std::set<AttemptId> victims;
  std::int64_t lost = 0;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    if (there == nullptr || !victims_.may_preempt(victim.id, *there, uid, true)) return false;
    victims.insert(victim.id);
    lost += MigVictimSearch::loss_of(state_, victim.id).micro_usd;
  }
  if (lost - row.lost_micro_usd > row.micro_usd / kGrown || row.repartitions.size() > search_.budget_left(uid))
    return false;
  if (fits_idle(uid) || !victims_.placed_with_layouts(uid, victims, row.repartitions).plan) return false;
  return std::ranges::none_of(row.victims, [&](const Proposal::Victim& victim) {
    auto fewer = victims;
    fewer.erase(victim.id);
    return victims_.placed_with_layouts(uid, fewer, row.repartitions).plan ||
           victims_.placed_with_layouts(uid, fewer, {}).plan;
  });
}

}  // namespace qm::placement
