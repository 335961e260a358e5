// MIG repartition for a workload that has quota, requests MIG instances, and does not fit for a minimum time.
// Nodes with idle GPUs are hypothetically repartitioned to the allowed layouts, the cheapest first, until the
// placement succeeds. Nodes that are not needed are then dropped. The result is orders as in layout_orders.cpp, and
// rows that hold the instances for the workload.
#include "engine/mig/mig_repartitions.hpp"

#include "qm/base/assert.hpp"
#include "qm/placement/disruption/hold_lifecycle.hpp"

#include <algorithm>
#include <tuple>

namespace qm::placement {

void MigRepartitions::repartition() {
  const MigRepartitionOptions& rules = options_.mig_repartition;
  if (!rules.on || !state_.synced() || state_.meta().repartition_searched + rules.every > scratch_.now ||
      search_.budget_left({}) == 0)
    return;
  std::vector<std::tuple<std::int64_t, Instant, WorkloadUid>> positions;  // higher priority first, then longer short
  for (const WorkloadUid& uid : index_.short_of) {
    const auto from = search_.earliest(uid);
    if (!from || *from > scratch_.now) continue;
    const Workload& workload = *tables_.workloads.find(uid);
    positions.emplace_back(-std::int64_t{workload.spec.priority}, workload.short_since, uid);
  }
  if (positions.empty()) return;
  std::ranges::sort(positions);
  tables_.meta.edit(0).repartition_searched = scratch_.now;
  rows_.refresh_scores();
  std::set<PlacementRequest> in_vain;
  std::size_t searches = 0;
  for (const auto& [priority, since, uid] : positions) {
    const PlacementRequest asked = allocator_.request_for(uid);
    if (in_vain.contains(asked)) continue;
    if (searches++ == rules.max_searches) return;
    const MigRepartition found = search_.plan(uid, index_.preference);
    if (found.layouts.empty()) {
      in_vain.insert(asked);
    } else {
      order(uid, found);
    }
  }
}

void MigRepartitions::order(const WorkloadUid& uid, const MigRepartition& found) {
  Meta& meta = tables_.meta.edit(0);
  std::erase_if(meta.repartition, [&](Instant at) { return at + options_.mig_repartition.per <= scratch_.now; });
  for (const auto& [name, layout] : found.layouts) {
    auto order = orders_.order_for(name, layout, tables_.layouts.rows());
    QM_ASSERT(order, "node {} cannot be partitioned as {}", name, layout);
    Repartition next;
    if (const Repartition* repartition = tables_.repartitions.find(name)) next = *repartition;
    next.order = std::move(*order);
    next.written_label.clear();
    next.asked.clear();
    next.by_default = false;
    next.reserved_for = RepartitionHold{uid, {}};
    for (const Member& member : found.members) {
      if (member.node == name) next.reserved_for->places.push_back({member.set, member.index, name, member.devices});
    }
    rows_.store_repartition(name, std::move(next));
    scratch_.nodes.insert(name);
    meta.repartition.push_back(scratch_.now);
    ++scratch_.out.notes.repartition;
  }
  scratch_.demand = true;
}

void MigRepartitions::end(const WorkloadUid& uid) {
  for (const NodeName& name : std::set<NodeName>(index_.reservations.nodes(HoldSource::kRepartition, uid))) {
    Repartition next = *tables_.repartitions.find(name);
    auto released = disruption::release_hold(*next.reserved_for, *next.order);
    next.reserved_for = std::move(released.hold);
    next.order = std::move(released.order);
    rows_.store_repartition(name, std::move(next));
    scratch_.nodes.insert(name);
  }
}

void MigRepartitions::wake(const WorkloadUid& uid) {
  const auto& nodes = index_.reservations.nodes(HoldSource::kRepartition, uid);
  scratch_.nodes.insert(nodes.begin(), nodes.end());
}

}  // namespace qm::placement
