#include "lifecycle/pod_groups.hpp"

#include "quota/run_history.hpp"
#include "state/queue_lookup.hpp"

namespace qm::admission {
namespace {

/// The flavor of each resource, if each has only one; otherwise empty.
std::optional<std::map<std::string, FlavorName>> only_flavors(const Flavors& flavors) {
  std::map<std::string, FlavorName> out;
  for (const auto& [set, chosen] : flavors) {
    for (const auto& [resource, flavor] : chosen) {
      const auto [it, fresh] = out.emplace(resource, flavor);
      if (!fresh && it->second != flavor) return std::nullopt;
    }
  }
  return out;
}
/// The flavors of these pods within the held quota; empty if quota has to be assigned again.
std::optional<Flavors> as_held(const EngineState& state, const Workload& w, const std::vector<PodSet>& sets) {
  WorkloadSpec asked = w.spec;
  asked.pod_sets = sets;
  const auto only = only_flavors(w.flavors);
  if (!only || requests_of(asked) != requests_of(w.running())) return std::nullopt;
  if (only->contains("pods") && asked.total_pods() != w.running_pods()) return std::nullopt;
  Flavors out;
  for (const auto& set : sets) {
    WorkloadSpec alone;
    alone.pod_sets.push_back(set);
    auto resources = requests_of(alone);
    resources["pods"] = set.count;
    for (const auto& [resource, amount] : resources) {
      if (const auto flavor = only->find(resource); flavor != only->end()) out[set.name][resource] = flavor->second;
    }
  }
  if (state.indexes.decisions.refuses(asked, out)) return std::nullopt;
  return out;
}

}  // namespace

void PodGroups::update(const JobUpdated& c) {
  const WorkloadUid uid = c.spec.uid;
  const Workload& w = state_.workload(uid);
  if (w.spec.kind != "PodGroup") return;
  if (w.waiting_time != c.waiting_time) {
    rows_.reshape(uid, [&](Workload& row) { row.waiting_time = c.waiting_time; });
  }
  const bool others = c.pods_expected && c.spec.pod_sets != *w.spec.pod_sets;
  if (c.pods_expected == w.spec.pods_expected && !others) return;
  if (w.phase == Phase::kAdmitted) {
    transitions_.evict(uid, "PodsGone", "its pods were deleted before they were ungated",
                       state_.now + state_.options.eviction_grace);
  }
  // Its usage is counted from the pods that terminate. The next attempt uses the others.
  if (w.phase == Phase::kEvicting)
    return rows_.update(uid, [&](Workload& row) { row.spec.pods_expected = c.pods_expected; });
  std::optional<Flavors> flavors;
  if (w.phase == Phase::kQuotaReserved) {
    if (w.gated) flavors = as_held(state_, w, c.spec.pod_sets);
    if (!flavors)
      transitions_.release(uid, c.pods_expected && !w.spec.pods_expected ? "PodsGone" : "PodsDiffer", Duration{0});
  }
  if (w.ended()) return;
  const Spec seen = c.spec;
  rows_.reshape(uid, [&](Workload& row) {
    row.spec.pods_expected = c.pods_expected;
    row.spec.pod_sets = seen.pod_sets;
    if (flavors) row.flavors = *flavors;
    if (c.pods_expected) return;
    // The pods define what the group left unset.
    row.external_scheduler = c.external_scheduler;
    row.max_execution = c.max_execution;
    row.spec.labels = seen.labels;
    row.spec.expected_runtime = seen.expected_runtime;
    row.spec.checkpoints = seen.checkpoints;
    row.spec.checkpoint = seen.checkpoint;
    if (row.spec.priority_class.empty()) {
      row.spec.priority_class = seen.priority_class;
      const auto priority = priority_of(state_.tables, row.spec);
      row.priority_unknown = !priority;
      row.spec.priority = priority.value_or(0);
    }
    row.planned = planned_run(state_, row);
  });
  if (w.phase == Phase::kPending) rows_.publish(Event::What::kQueued, uid);
}

}  // namespace qm::admission
