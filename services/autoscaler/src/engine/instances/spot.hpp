#pragma once
#include "checkpoints/orders.hpp"
#include "facts.hpp"
#include "instances/claims.hpp"
#include "state.hpp"

#include <optional>

namespace qm::autoscaler {

/// Notices of the cloud, and requests of placement to save: drains, and orders to save before an eviction.
class Spot {
 public:
  Spot(State& state, const Facts& facts, Claims& claims, CheckpointOrders& orders)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        orders_(orders) {}

  /// Joins notices that name an instance with its node, and marks claims that are interrupted.
  void join_notices();
  /// Drains nodes with a notice, and orders their gangs to save.
  void answer_notices();
  /// Answers requests of placement to save and evict.
  void answer_saves();
  /// The next time that a notice is acted on.
  [[nodiscard]] std::optional<Instant> next() const;
  /// When the gangs of a node with a notice get their orders: at once, or `notice_lead` before a maintenance.
  [[nodiscard]] Instant orders_from(const NodeRow& node) const;

 private:
  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  CheckpointOrders& orders_;
};

}  // namespace qm::autoscaler
