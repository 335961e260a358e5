#pragma once
#include "facts.hpp"
#include "state.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The extended resources that the pods request, of those that a node of the type has.
[[nodiscard]] std::vector<std::string> requested_resources(const std::vector<PodSet>& pods, const InstanceType& type);

/// The life of a claim: requested, launched, drained, terminated. The only writer of its state.
class Claims {
 public:
  Claims(State& state, const Facts& facts)
      : state_(state), options_(state.options), tables_(state.tables), facts_(facts) {}

  /// Publishes the claim at the end of the step.
  void mark_changed(const ClaimName& claim) { state_.changed_claims.insert(claim); }
  /// Changes the state of the claim.
  void enter(const ClaimName& claim, ClaimState state, const std::string& reason);
  /// Deletes the row.
  void forget_claim(const ClaimName& claim);
  /// The row of a node for writing, also of a node that placement has not published yet.
  NodeRow& mark(const NodeName& node);
  /// Records a notice for a node. Of one kind the first counts, of several kinds the earliest deadline.
  void note(const NodeName& node, NoticeKind kind, Instant at);
  /// Deletes the row of the node, and its drain.
  void forget_node(const NodeName& node);
  /// Stores the claim and sends the request to launch its instance. The cloud may choose one of `others` for it.
  void launch(const ClaimName& name, const Claim& claim, const Pool& pool, std::vector<LaunchOption> others = {});
  /// The instance of a claim came: its type and zone are known, and an outage of its offering is over.
  void settle(const ClaimName& name, const std::string& type, const std::string& zone);
  /// Reverts a drain: the instance stays in service.
  void keep(const ClaimName& name, const std::string& reason);
  /// Sends the request to terminate the instance.
  void terminate(const ClaimName& name, const std::string& reason);
  /// Publishes the drain of the node.
  void drain(const NodeName& node, const std::string& reason, std::optional<Instant> deadline);
  /// Withdraws the drain.
  void end_drain(const NodeName& node);
  /// Whether the instance ends with the pods on it: its spot capacity is reclaimed, or the deadline of its drain is over.
  [[nodiscard]] bool is_forced(const Claim& claim) const;
  /// The claim failed. An offering that does not launch now will not launch immediately either: the next one is tried.
  void give_up(const ClaimName& name, const std::string& reason, Refusal refusal = Refusal::kOffering);
  /// What the refusal of the offering concerns is not requested for a while.
  void hold(const Offering& offering, Refusal refusal);
  /// Its offering has launched an instance: an outage of it is over.
  void note_launch(const Claim& claim);
  /// The launch of its gang failed: its instance is terminated, after a drain if its node is ready, or not awaited any
  /// more.
  void roll_back(const ClaimName& name, const std::string& reason);

 private:
  [[nodiscard]] std::vector<std::string> resources_of(const Claim& claim) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
};

}  // namespace qm::autoscaler
