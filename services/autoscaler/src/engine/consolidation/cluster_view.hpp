#pragma once
#include "checkpoints/orders.hpp"
#include "facts.hpp"
#include "instances/disruptions.hpp"
#include "launch/joint.hpp"
#include "offers/offers.hpp"
#include "qm/autoscaler/consolidate/problem.hpp"
#include "state.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qm::autoscaler {

/// The engine's rows as a problem of the library `consolidate`, and what its indices stand for.
struct ClusterView {
  struct Launchable {
    const Pool* pool = nullptr;
    std::vector<JointPlanner::Problem::Type> types;
  };
  consolidate::Problem problem;
  std::vector<ClaimName> claims;        ///< by node; empty = it has none
  std::vector<Launchable> launchables;  ///< by pool of the problem
  std::vector<PodSet> sets;             ///< by kind
  std::vector<Namespace> namespaces;    ///< by kind
  std::optional<Instant> wake_at;       ///< the next time at which the view differs by time alone
  std::uint64_t digest = 0;             ///< of everything but what grows with time alone
};

/// Builds views of the cluster.
///
/// Held     a node that no NodePool may consolidate now, with the reason: policy, consolidateAfter since the last change of
///          its pods, constraints that cannot be read, do-not-disrupt, PodDisruptionBudgets, another disruption, a promise to a pending gang, headroom, a gang
///          on several nodes, GPU pods that cannot save, or pods that share a GPU.
/// Accepts  ready nodes without a taint of disruption whose pods did not change within consolidateAfter, and no empty node
///          that its NodePool terminates.
/// Lost     the time to save of a gang that can; nothing of a service; else all work since the start.
/// Cost     by nodes, pods and offerings.
class ViewBuilder {
 public:
  ViewBuilder(const State& state, const Facts& facts, const Offers& offers, const JointPlanner& joint,
              const CheckpointOrders& orders, const Disruptions& disruptions)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        offers_(offers),
        joint_(joint),
        orders_(orders),
        disruptions_(disruptions) {}

  /// `own`: the consolidation that is being executed; its nodes and replacements are not held by it.
  [[nodiscard]] ClusterView build(const ConsolidationRow* own) const;

 private:
  struct Work;
  void add_nodes(Work& work) const;
  void add_pods(Work& work, const NodeName& name, const NodePods& shown, consolidate::Node& out) const;
  void add_pending(Work& work) const;
  void add_pools(Work& work) const;
  void add_limits(const Pool& pool, consolidate::Pool& out) const;
  void sum_digest(Work& work) const;
  std::size_t kind_of(Work& work, const Namespace& ns, const PodSet& set) const;
  [[nodiscard]] std::string held(Work& work, const ClaimName& name, const NodePods& shown) const;
  [[nodiscard]] std::string held_by_pods(Work& work, const Claim& claim, const NodePods& shown) const;
  [[nodiscard]] std::string held_by_gang(const Work& work, const NodeName& node, const NodePods& shown) const;
  [[nodiscard]] bool accepts(const Work& work, const NodeRow& row, const NodePods& shown, const ClaimName& claim) const;
  [[nodiscard]] std::optional<double> hazard(const Work& work, const Offering& offering) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const Facts& facts_;
  const Offers& offers_;
  const JointPlanner& joint_;
  const CheckpointOrders& orders_;
  const Disruptions& disruptions_;
};

}  // namespace qm::autoscaler
