#pragma once
#include "checkpoints/orders.hpp"
#include "facts.hpp"
#include "instances/claims.hpp"
#include "offers/offers.hpp"
#include "qm/autoscaler/disrupt/disrupt.hpp"
#include "state.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Disruptions of nodes of NodePools: expiry, repair, empty nodes, drift. The library `disrupt` decides; here its
/// decision becomes replacements, drains, checkpoint orders and evictions.
class Disruptions {
 public:
  Disruptions(State& state, const Facts& facts, Claims& claims, const Offers& offers, CheckpointOrders& orders)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        offers_(offers),
        orders_(orders) {}

  /// Drains nodes whose replacement is ready; a failed replacement pauses drift in its NodePool.
  void follow_replacements();
  /// Starts the disruptions that are due, and records when the next ones are.
  void disrupt();
  /// Signals and evicts the gangs on nodes that are emptied.
  void empty_nodes();
  /// One line for each node that has a reason to be disrupted and is held.
  void explain_held(std::vector<std::string>& lines, Instant now) const;
  /// The nodes that have a voluntary reason now, disrupted or held, by reason in lower case.
  [[nodiscard]] std::map<std::string, std::int64_t> eligible_nodes(Instant now) const;
  /// Drains the node; the cause is the reason of its disruption.
  void drain(const ClaimName& name, const std::string& cause);
  /// Whether the claim is kept for the pods of the node that it replaces.
  [[nodiscard]] bool awaits_pods(const Claim& claim, Instant now) const;
  /// The nodes on which budgets and disruptions are judged, by claim.
  [[nodiscard]] DisruptionProblem problem(Instant now, std::vector<ClaimName>& names) const;
  /// Time-dependent decisions about disruptions are due at this time.
  void wake(Instant at);

 private:
  [[nodiscard]] DisruptionNode node_of(const ClaimName& name, const Claim& claim) const;
  bool start_replacement(const ClaimName& name, DisruptionCause cause);
  void empty_node(const Claim& claim);
  void back_off(const std::string& pool, const std::string& reason);

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  const Offers& offers_;
  CheckpointOrders& orders_;
};

}  // namespace qm::autoscaler
