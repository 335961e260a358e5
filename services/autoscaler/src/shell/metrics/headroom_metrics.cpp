// Headroom as metrics: what it costs, and what it attained.
#include "qm/autoscaler/metrics/headroom_metrics.hpp"

namespace qm::autoscaler {

std::vector<metrics::Family> headroom_families(const Engine& engine) {
  using Kind = metrics::Family::Kind;
  metrics::Family nodes{
      "qm_autoscaler_headroom_nodes", "Free and starting nodes of a CapacityBuffer or an SLO", Kind::kGauge, {}};
  metrics::Family price{"qm_autoscaler_headroom_usd_per_hour", "Price of those nodes", Kind::kGauge, {}};
  metrics::Family arrivals{"qm_autoscaler_headroom_arrivals_total",
                           "Workloads that needed nodes of a NodePool with an SLO",
                           Kind::kCounter,
                           {}};
  metrics::Family in_time{
      "qm_autoscaler_headroom_in_time_total", "Those of them that were pending within the SLO", Kind::kCounter, {}};
  constexpr double kNano = 1e9;
  for (const auto& [name, one] : engine.buffers()) {
    nodes.series.push_back({{{"buffer", name}}, static_cast<double>(one.nodes)});
    price.series.push_back({{{"buffer", name}}, static_cast<double>(one.per_hour.nano()) / kNano});
  }
  for (const auto& [pool, row] : engine.tables().headroom.pools) {
    arrivals.series.push_back({{{"nodepool", pool}}, static_cast<double>(row.total.arrivals)});
    in_time.series.push_back({{{"nodepool", pool}}, static_cast<double>(row.total.covered)});
  }
  return {nodes, price, arrivals, in_time};
}

}  // namespace qm::autoscaler
