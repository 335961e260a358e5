#pragma once
#include "offers/offer.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace qm::autoscaler {

/// Queries about single rows: claims, nodes, pools, owners and names of workloads.
class Facts {
 public:
  explicit Facts(const State& state) : state_(state), tables_(state.tables) {}

  /// Null if the catalog does not have it.
  [[nodiscard]] const InstanceType* type(const std::string& name) const;
  /// The node of the claim's instance, once placement has published it. Names of instances are reused: the instance id
  /// decides.
  [[nodiscard]] const NodeRow* node_of(const Claim& claim) const;
  /// The details of that node.
  [[nodiscard]] const NodeDetails* details_of(const Claim& claim) const;
  /// Why the claim's node is not initialized; none = it is.
  [[nodiscard]] std::optional<Condition> start_gap(const Claim& claim) const;
  /// The fault that instances of the type in the pool, with one of its images, had when they were launched recently.
  [[nodiscard]] const LaunchFault* fault(const std::string& type, const Pool& pool) const;
  /// The owner of the instances for this workload, if that is not this autoscaler.
  [[nodiscard]] const OwnerRow* other_owner(const DemandUpdated::Item& item) const;
  /// Whether this autoscaler owns the capacity of any namespace.
  [[nodiscard]] bool scales_somewhere() const;
  /// An instance that will be terminated soon, in any state: nothing is planned on it.
  [[nodiscard]] bool doomed(const Claim& claim) const;
  /// "namespace/name"; its uid and attempt until the name is known
  [[nodiscard]] std::string title_of(const AttemptId& id) const;
  /// The words for a demand item at the start of an explanation.
  [[nodiscard]] std::string subject_of(const DemandUpdated::Item& item) const;
  /// empty if not known
  [[nodiscard]] std::string namespace_of(const WorkloadUid& uid) const;
  /// A group belongs to one pool: the shell refuses two pools with the same group.
  [[nodiscard]] const Pool* pool_of_group(const std::string& group) const;
  /// The launch template of the group determines its instances. An instance of another kind than assumed is still the
  /// requested one: if it were adopted in addition to its claim, the group would grow by one for each such instance.
  [[nodiscard]] std::optional<ClaimName> claim_for(const InstanceFact& fact) const;
  /// How many of the pool's `nodes` may be disrupted at once because they are empty.
  [[nodiscard]] Allowance budget(const Pool& pool, std::int64_t nodes) const;
  /// Interruptions and running time of spot instances, by type and zone, until `now`.
  [[nodiscard]] std::map<std::pair<std::string, std::string>, checkpoint::Hazard> hazards(Instant now) const;
  /// Claims that pending gangs were promised: an empty one waits for the rest of its gang. Also those that are booked.
  [[nodiscard]] std::set<ClaimName> planned() const;
  /// What the instances of each pool use of its limits, `without` some of them.
  [[nodiscard]] std::map<std::string, Usage> usage(const std::set<ClaimName>& without = {}) const;

 private:
  const State& state_;
  const Tables& tables_;
};

}  // namespace qm::autoscaler
