#pragma once
#include "checkpoints/orders.hpp"
#include "facts.hpp"
#include "instances/claims.hpp"
#include "state.hpp"

#include <map>

namespace qm::autoscaler {

/// Stores the observations of a batch as received. Nothing is decided here.
class Observations {
 public:
  Observations(State& state, const Facts& facts, Claims& claims, CheckpointOrders& orders)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        orders_(orders) {}

  void apply(const Tick&) {}
  void apply(const PoolsApplied& c);
  void apply(const DemandUpdated& c);
  void apply(const InstancesListed& c);
  void apply(const SpotPricesUpdated& c);
  void apply(const NodeUpdated& c);
  void apply(const AssignmentUpdated& c);
  void apply(const WorkloadUpdated& c);
  void apply(const SpotNoticeUpdated& c);
  void apply(const AckUpdated& c);
  void apply(const HealthUpdated& c);
  void apply(const LaunchEnded& c);
  void apply(const OfferingsRefused& c);
  void apply(const ReservationsListed& c);
  void apply(const ProvisioningApplied& c);
  void apply(const TerminateEnded& c);
  void apply(const GroupRefused& c);
  void apply(const GroupsListed& c);
  void apply(const NodePodsUpdated& c);
  void apply(const OwnersUpdated& c);
  void apply(const SaveRequested& c);
  void apply(const DaemonSetsUpdated& c);
  void apply(const InstanceNoticeUpdated& c);
  void apply(const NodeDetailsUpdated& c);
  void apply(const BuffersApplied& c);
  void apply(const OverlaysApplied& c);

 private:
  void adopt(const InstanceFact& fact, std::map<InstanceId, ClaimName>& by_instance);
  void keep_unclaimed(const InstanceFact& fact);
  [[nodiscard]] bool launch_is_open(const InstanceFact& fact) const;
  void settle_owed(const std::string& group);

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  CheckpointOrders& orders_;
};

}  // namespace qm::autoscaler
