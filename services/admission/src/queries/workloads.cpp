#include "qm/admission/queries/workloads.hpp"

#include "state/engine_state.hpp"

namespace qm::admission {

int queue_position(const EngineState& state, const Workload& workload) {
  if (workload.phase != Phase::kPending || workload.cluster_queue.empty()) return 0;
  const auto queue = state.indexes.waiting.find(workload.cluster_queue);
  const auto order = QueueOrder::of(workload);
  if (queue == state.indexes.waiting.end() || !queue->second.all.contains(order)) return 0;
  return static_cast<int>(queue->second.all.before(order)) + 1;
}

std::vector<QuotaShortfall> shortfalls(const EngineState& state, const Workload& w) {
  return state.indexes.decisions.shortfalls(w);
}

std::vector<QuotaRemedy> quota_remedies(const EngineState& state, const Workload& w) {
  return state.indexes.decisions.quota_remedies(w);
}

bool awaits(const Tables& tables, const Namespace& ns, const std::string& name, const std::string& intent) {
  const auto* row = tables.submissions.find({ns, name});
  return row != nullptr && row->intent == intent;
}

}  // namespace qm::admission
