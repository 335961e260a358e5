#pragma once
#include "checkpoints/orders.hpp"
#include "facts.hpp"
#include "state.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Checkpoints of gangs on spot capacity that continue: at regular intervals, and after a recommendation to move.
class Schedules {
 public:
  Schedules(State& state, const Facts& facts, CheckpointOrders& orders)
      : state_(state), options_(state.options), tables_(state.tables), facts_(facts), orders_(orders) {}

  /// One schedule for each attempt that can save and has a node on spot capacity; none for others.
  void keep_schedules();
  /// Orders the saves that are due.
  void order_due();
  /// Orders a save for each gang on a node with a recommendation, once the work at risk is worth more than the save.
  void answer_recommendations();
  /// The next time that a save may be due.
  [[nodiscard]] std::optional<Instant> next() const;

  /// For each gang with a schedule: its interval and the one that Daly's formula advises for the observed hazard.
  void explain(std::vector<std::string>& lines, std::size_t most, const Sees& sees) const;

 private:
  [[nodiscard]] std::set<NodeName> spot_nodes() const;
  /// Start of the work that an interruption loses now.
  [[nodiscard]] Instant unsaved_since(const AttemptId& id, const AttemptRow& attempt) const;
  [[nodiscard]] Instant due(const AttemptId& id, const ScheduleRow& row) const;
  /// When a save pays for a gang on a node with a recommendation; nullopt = it has been ordered since then.
  [[nodiscard]] std::optional<Instant> pays_at(const AttemptId& id, const AttemptRow& attempt) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  CheckpointOrders& orders_;
};

}  // namespace qm::autoscaler
