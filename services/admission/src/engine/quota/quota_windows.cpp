#include "quota/quota_windows.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace qm::admission {

void QuotaWindows::apply() {
  if (!state_.indexes.quota_changes || *state_.indexes.quota_changes > state_.now) return;
  state_.windows_changed = true;
  build_indexes(state_, state_.indexes);
  state_.reschedule_all();
}

void QuotaWindows::drain() {
  std::set<int> trees;
  for (const auto& name : state_.indexes.draining) {
    if (state_.indexes.decisions.beyond(name)) trees.insert(state_.indexes.decisions.tree_of(name));
  }
  for (const int tree : trees) {
    std::vector<const Workload*> leaving, holding;
    for (const auto& [name, holders] : state_.indexes.holders) {
      if (state_.indexes.decisions.tree_of(name) != tree) continue;
      const bool drains = std::ranges::binary_search(state_.indexes.draining, name);
      for (const auto& uid : holders) {
        const auto* w = state_.tables.workloads.find(uid);
        if (w->phase == Phase::kEvicting) {
          leaving.push_back(w);
        } else if (drains) {
          holding.push_back(w);
        }
      }
    }
    std::ranges::sort(holding, {}, [](const Workload* w) {
      return std::tuple(w->spec.priority, -micros(w->quota_reserved), w->spec.uid);
    });
    for (const auto* w : state_.indexes.decisions.surplus(tree, leaving, holding)) {
      transitions_.evict(w->spec.uid, "QuotaWindowClosed",
                         fmt::format("ClusterQueue {} has less quota now and drains the excess", w->cluster_queue),
                         state_.now + state_.options.eviction_grace);
    }
  }
}

}  // namespace qm::admission
