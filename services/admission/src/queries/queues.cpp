#include "qm/admission/queries/queues.hpp"

#include "state/engine_state.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {

std::vector<ResourceGroup> current_groups(const EngineState& state, const ClusterQueue& queue) {
  return groups_at(queue, state.now);
}

QueueView queue_view(const EngineState& state, const ClusterQueue& queue) {
  QueueView v;
  v.queue = &queue;
  if (auto it = state.indexes.waiting.find(queue.name); it != state.indexes.waiting.end()) {
    v.pending_ready = it->second.ready;
    v.pending_backed_off = static_cast<std::int64_t>(it->second.all.size()) - v.pending_ready;
  }
  if (auto it = state.indexes.holders.find(queue.name); it != state.indexes.holders.end()) {
    v.holding = static_cast<std::int64_t>(it->second.size());
    for (const auto& uid : it->second)
      v.admitted += state.tables.workloads.find(uid)->phase == Phase::kAdmitted ? 1 : 0;
  }
  if (const auto share = state.indexes.decisions.pool_share(queue.name)) {
    v.nominal = share->deserved;
    v.used = share->used;
    v.dominant_share = share->dominant_share;
    for (const auto& [resource, used] : v.used) {
      v.borrowed[resource] = std::max<std::int64_t>(0, used - v.nominal[resource]);
    }
    return v;
  }
  const auto held = held_in(state, queue.name);
  for (const auto& group : current_groups(state, queue)) {
    for (const auto& flavor : group.flavors) {
      for (const auto& [resource, quota] : flavor.resources) {
        const auto found = held.find({flavor.flavor, resource});
        const auto used = found == held.end() ? 0 : found->second;
        v.nominal[resource] += quota.nominal;
        v.used[resource] += used;
        v.borrowed[resource] += borrowed(queue, used, quota.nominal);
      }
    }
  }
  return v;
}

std::set<QueueName> queues_of_tree(const EngineState& state, const QueueName& queue) {
  std::set<QueueName> out{queue};
  const int tree = state.indexes.decisions.tree_of(queue);
  for (const auto& [name, row] : state.tables.cluster_queues) {
    if (tree >= 0 && state.indexes.decisions.tree_of(name) == tree) out.insert(name);
  }
  return out;
}

}  // namespace qm::admission
