#pragma once
#include "qm/autoscaler/engine.hpp"
#include "qm/metrics/metrics.hpp"

#include <vector>

namespace qm::autoscaler {

/// Metrics of headroom: of CapacityBuffers, and of the free nodes that NodePools keep for an SLO.
///
///   qm_autoscaler_headroom_nodes{buffer}          free and starting nodes
///   qm_autoscaler_headroom_usd_per_hour{buffer}   price of those nodes
///   qm_autoscaler_headroom_arrivals_total{nodepool}, qm_autoscaler_headroom_in_time_total{nodepool}
///
/// The counters are those of the stored state, so they survive a restart. They start at 0 with a new SLO.
/// Threads  any; reads only its arguments.
[[nodiscard]] std::vector<metrics::Family> headroom_families(const Engine& engine);

}  // namespace qm::autoscaler
