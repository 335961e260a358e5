#pragma once
#include "qm/clock/clock.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/service/host.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace qm::admission {

/// The admission metrics under Kueue's names, so that its dashboards work. Counters follow committed events; gauges are
/// read from the engine at each scrape.
///
/// kueue_pending_workloads{cluster_queue,status}, kueue_reserving_active_workloads{cluster_queue},
/// kueue_admitted_active_workloads{cluster_queue}, kueue_quota_reserved_workloads_total{cluster_queue},
/// kueue_admitted_workloads_total{cluster_queue}, kueue_admission_wait_time_seconds{cluster_queue},
/// kueue_evicted_workloads_total{cluster_queue,reason}, kueue_finished_workloads_total{cluster_queue},
/// kueue_cluster_queue_resource_usage and _nominal_quota{cluster_queue,resource}.
///
/// Of budgets, qm_budget_granted, _spent, _held, _free and _owed{budget,unit}: in GPU-hours, or dollars.
///
/// Units    seconds, and the unit of the resource: cores, GPUs, bytes.
class Metrics {
 public:
  /// Follows the host from now on; all arguments must outlive this object.
  Metrics(metrics::Registry& registry, service::Host& host, const DomainClock& clock);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

 private:
  void count(const service::FeedEvent& event);
  void scrape();

  metrics::Registry& registry_;
  service::Host& host_;
  const DomainClock& clock_;
  std::uint64_t handle_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::pair<std::int32_t, int>> last_;  ///< uid -> attempt and phase already counted
};

}  // namespace qm::admission
