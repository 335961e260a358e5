#pragma once
#include "cluster.hpp"
#include "kube_api.hpp"
#include "world.hpp"

#include <string>
#include <string_view>

namespace qm::fleet {

/// The script of what goes wrong, by order (POST /fleet/faults) or by file (--faults).
///
/// kind          members                            effect
/// xid           node or random, xid (79), gpu      the GPU reports it; 79 and its like end the pod
/// node_lost     node or random                     the machine dies, EC2 still calls it running
/// heal          node                               as a reboot: XIDs cleared, Ready again
/// terminate     node or random                     the instance ends without notice
/// spot_reclaim  count (1) or node, notice_s (120)  interruption notices, then the end
/// ice           type, market (spot), for_s         no launches of it; until_s means the same
/// capacity      type, market, limit (-1 = none)    at most so many live instances
/// throttle      api ("" = all), for_s              429, RequestLimitExceeded
/// api_5xx       api, share (0.1), for_s            that share of calls fails
/// watch_cut     compact (false)                    open watches end; compact: resumes answer 410
/// metrics_down  node or random, for_s              the exporter does not answer
/// mig           node or random                     mig-manager fails with the next layout of the node
///
/// Seconds are domain seconds from now. `random` takes a live node that runs pods, if there is one.
/// Fails    kInvalid with the member that is wrong.
class Faults {
 public:
  Faults(World& world, Cluster& cluster, KubeApi& api) : world_(world), cluster_(cluster), api_(api) {}
  /// Does it now; says what was struck.
  Result<Json> inject(const Json& fault);
  /// A JSON array of faults with "at_s", counted from now. All of it is checked before anything is
  /// planned.
  Status plan(std::string_view script);

 private:
  [[nodiscard]] Result<std::string> pick_node(const Json& fault);
  Result<Json> spot_reclaim(const Json& fault);

  World& world_;
  Cluster& cluster_;
  KubeApi& api_;
};

}  // namespace qm::fleet
