#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "launch/fit.hpp"
#include "qm/autoscaler/gang_launch/launch.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Launches of gangs with several nodes: all members in one zone, or none. A launch is the claims with one launch id;
/// what is left to do follows from their rows, so that a restart continues.
class GangLaunches {
 public:
  GangLaunches(State& state, const Facts& facts, Claims& claims)
      : state_(state), options_(state.options), tables_(state.tables), facts_(facts), claims_(claims) {}

  /// Matches instances of launches that have ended to their claims; one without a claim gets its own.
  void match_unclaimed();
  /// Rolls back launches of which a member was refused or is late. An instance that a launch left without a claim is
  /// terminated as well.
  void roll_back_partial();
  /// The gang cannot be completed in the zone of its instances: they are terminated. Returns the claims; those that
  /// another gang was promised stay.
  std::vector<ClaimName> roll_back(const WorkloadUid& uid);
  /// The capacities by zone, because a gang is not split over zones; the pods that a running gang lacks are.
  [[nodiscard]] static std::vector<CapacityByClaim> by_zone(const Tables& tables, const DemandUpdated::Item& item,
                                                            CapacityByClaim all);
  /// The pods that its own instances do not fit, in the zone of these.
  [[nodiscard]] std::vector<PodSet> rest_together(const DemandUpdated::Item& item, const Fit& own) const;
  /// The id of a launch of `nodes` claims for the gang; empty if its nodes are launched one by one.
  [[nodiscard]] static std::string id_for(const DemandUpdated::Item& item, const Fit& own, const Pool& pool,
                                          const ClaimName& first, std::int64_t nodes);
  /// When an incomplete launch is refused.
  [[nodiscard]] std::optional<Instant> next_timer() const;

 private:
  [[nodiscard]] std::map<std::string, std::vector<ClaimName>> launches() const;
  [[nodiscard]] LaunchMember member(const Claim& claim) const;
  [[nodiscard]] std::optional<Instant> refused_at(const std::vector<ClaimName>& members) const;
  [[nodiscard]] bool has_pods(const Claim& claim) const;
  void refuse_late_members(const std::vector<ClaimName>& members);

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
};

}  // namespace qm::autoscaler
