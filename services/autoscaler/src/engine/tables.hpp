#pragma once
#include "qm/autoscaler/engine.hpp"

#include <cstdint>

namespace qm::autoscaler {

/// Calls fn on every table: the only list of them.
template <class T, class Fn>
void for_each_table(T& t, Fn&& fn) {
  fn(t.pools), fn(t.claims), fn(t.nodes), fn(t.attempts), fn(t.workloads), fn(t.demand), fn(t.plans), fn(t.orders),
      fn(t.saves), fn(t.spot_prices), fn(t.blocked), fn(t.counters), fn(t.group_sizes), fn(t.daemon_sets), fn(t.owners),
      fn(t.unclaimed);
  fn(t.checkpoints), fn(t.schedules), fn(t.hazards), fn(t.instance_notices);
  fn(t.node_details), fn(t.launch_faults), fn(t.drift_back_offs), fn(t.buffers), fn(t.overlays);
  auto& r = t.replicas;
  fn(r.scalers), fn(r.targets), fn(r.readings), fn(r.histories), fn(r.decisions);
  fn(t.scaling_groups), fn(t.hook_waits);
  auto& d = t.scale_down;
  fn(d.unneeded), fn(d.last), fn(d.protected_by_us);
  fn(t.reservations), fn(t.provisioning), fn(t.node_pods);
  fn(t.consolidations), fn(t.consolidation_checks);
  fn(t.headroom.pools), fn(t.headroom.days);
}

/// Digest of all rows, to compare two histories. One pass over the tables.
[[nodiscard]] std::uint64_t digest_of(const Tables& tables);

}  // namespace qm::autoscaler
