// Groups whose pods come later. A PodGroup waits with what it says that it needs at least, gets quota for that, and stands behind the
// gate until its pods are there; then they are what it asks for, and it keeps what it holds if that is as much.
#include "update.hpp"

namespace qm::admission {
namespace {

/// Under which flavor each resource is held, where that is one; nothing where it is not.
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

}  // namespace

/// The flavors that these pods would have of the quota that is held; nothing where it has to be had anew.
std::optional<Flavors> Engine::as_held(const Workload& w, const std::vector<PodSet>& sets) const {
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
  if (indexes_.decisions.refuses(asked, out)) return std::nullopt;
  return out;
}

/// News of a group that is known and has not ended.
void Engine::hear_group(const JobSeen& c) {
  const WorkloadUid uid = c.spec.uid;
  const Workload& w = *tables_.workloads.find(uid);
  if (w.spec.kind != "PodGroup") return;
  if (w.waiting_time != c.waiting_time) {
    reshape(uid, [&](Workload& row) { row.waiting_time = c.waiting_time; });
  }
  const bool others = c.pods_to_come && c.spec.pod_sets != *w.spec.pod_sets;
  if (c.pods_to_come == w.spec.pods_to_come && !others) return;
  if (w.phase == Phase::kAdmitted) {
    evict(uid, "PodsGone", "its pods went before they were let go", now_ + options_.eviction_grace);
  }
  // What it holds is counted from those that go. The next attempt is told of the others.
  if (w.phase == Phase::kEvicting) return update(uid, [&](Workload& row) { row.spec.pods_to_come = c.pods_to_come; });
  std::optional<Flavors> flavors;
  if (w.phase == Phase::kQuotaReserved) {
    if (w.gated) flavors = as_held(w, c.spec.pod_sets);
    if (!flavors) release(uid, c.pods_to_come && !w.spec.pods_to_come ? "PodsGone" : "PodsDiffer", Duration{0});
  }
  if (w.ended()) return;
  const Spec seen = c.spec;
  reshape(uid, [&](Workload& row) {
    row.spec.pods_to_come = c.pods_to_come;
    row.spec.pod_sets = seen.pod_sets;
    if (flavors) row.flavors = *flavors;
    if (c.pods_to_come) return;
    // What the group left open its pods say.
    row.others_place = c.others_place;
    row.max_execution = c.max_execution;
    row.spec.labels = seen.labels;
    row.spec.expected_runtime = seen.expected_runtime;
    row.spec.checkpoints = seen.checkpoints;
    if (row.spec.priority_class.empty()) {
      row.spec.priority_class = seen.priority_class;
      const auto priority = priority_of(row.spec);
      row.priority_unknown = !priority;
      row.spec.priority = priority.value_or(0);
    }
    row.planned = planned_run(row);
  });
  if (w.phase == Phase::kPending) say(Event::What::kQueued, uid);
}

}  // namespace qm::admission
