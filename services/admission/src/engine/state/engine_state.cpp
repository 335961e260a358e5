#include "state/engine_state.hpp"

#include <iterator>

namespace qm::admission {

const Workload* EngineState::find(const Namespace& ns, const std::string& name) const {
  const auto [first, last] = indexes.names.equal_range(WorkloadName(ns, name));
  return first == last ? nullptr : *std::prev(last);
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
