#pragma once
#include "cluster.hpp"
#include "kube_api.hpp"
#include "world.hpp"

#include <string>
#include <string_view>

namespace qm::fleet {

/// Injects faults, on request (POST /fleet/faults) or from a script (--faults).
///
/// kind          members                            effect
/// xid           node or random, xid (79), gpu      the GPU reports it; 79 and similar codes end the pod
/// node_lost     node or random                     the node fails, EC2 still reports the instance as running
/// heal          node                               as a reboot: XIDs cleared, Ready again
/// terminate     node or random                     the instance ends without notice
/// spot_reclaim  count (1) or node, notice_s (120)  interruption notices, then termination
/// maintenance   node or random, code, notice_s     EC2 schedules an instance-retirement or another event
/// ice           type, market (spot), zone, for_s   no launches of it; until_s means the same
/// capacity      type, market, zone, limit          at most `limit` live instances; -1 = no limit
/// throttle      api ("" = all), for_s              429, RequestLimitExceeded
/// api_5xx       api, share (0.1), for_s            that share of calls fails
/// watch_cut     compact (false)                    open watches end; compact: resumes answer 410
/// metrics_down  node or random, for_s              the exporter does not answer
/// mig           node or random                     mig-manager fails with the next layout of the node
///
/// Seconds are domain seconds from now. `random` selects a live node that runs pods, if there is one.
/// Fails    kInvalid with the wrong member.
class Faults {
 public:
  Faults(World& world, Cluster& cluster, KubeApi& api) : world_(world), cluster_(cluster), api_(api) {}
  /// Injects the fault now; returns its target.
  Result<Json> inject(const Json& fault);
  /// A JSON array of faults with "at_s", relative to now. All faults are validated before any is scheduled.
  Status plan(std::string_view script);

 private:
  [[nodiscard]] Result<std::string> pick_node(const Json& fault);
  Result<Json> spot_reclaim(const Json& fault);

  World& world_;
  Cluster& cluster_;
  KubeApi& api_;
};

}  // namespace qm::fleet
