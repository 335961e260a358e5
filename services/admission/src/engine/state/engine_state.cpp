#include "state/engine_state.hpp"

#include <iterator>

namespace qm::admission {

const Workload* EngineState::find(const Namespace& ns, const std::string& name) const {
  const auto [first, last] = indexes.names.equal_range(WorkloadName(ns, name));
  if (first == last) return nullptr;
  // Kubernetes stores the creation in seconds: of two in the same second the one that was deleted is older.
  const Workload* newest = *std::prev(last);
  for (auto it = last; it != first && (*std::prev(it))->spec.submitted == newest->spec.submitted; --it) {
    if (!(*std::prev(it))->ended()) return *std::prev(it);
  }
  return newest;
}

const Workload* EngineState::current_attempt(const WorkloadUid& uid, std::int32_t attempt) {
  const Workload* w = tables.workloads.find(uid);
  if (w == nullptr) {
    ++counters.unknown;
    return nullptr;
  }
  if (w->attempt != attempt || w->ended()) {
    ++counters.stale;
    return nullptr;
  }
  return w;
}

void EngineState::reschedule_all() {
  for (const auto& [name, queue] : tables.cluster_queues) reschedule(name);
}

}  // namespace qm::admission
