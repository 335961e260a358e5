#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "instances/scale_down_delay.hpp"
#include "launch/static_pools.hpp"
#include "state.hpp"

namespace qm::autoscaler {

/// Instances that start late or not at all, and those that are not needed.
class Retirement {
 public:
  Retirement(State& state, const Facts& facts, Claims& claims, const StaticPools& static_pools)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        static_pools_(static_pools) {}

  /// Events about claims and nodes arrive independently, in any order: every step joins them from the tables.
  void join_nodes();
  /// Ends claims that are late, lost or over.
  void time_out();
  /// A draining node is terminated once its drain is confirmed, or stays in service if a workload was bound to it before.
  void end_drained();
  /// Drains faulty nodes, and empty ones that no NodePool needs: it was deleted, or has more than its replicas.
  void retire_surplus();

 private:
  /// Whether the group may still launch the claim that was given up.
  [[nodiscard]] bool is_owed(const Claim& c) const;
  [[nodiscard]] std::string late_because(const Claim& claim) const;
  void remember_fault(const Claim& claim, const std::string& reason);

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  const StaticPools& static_pools_;
};

}  // namespace qm::autoscaler
