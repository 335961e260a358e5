#pragma once
#include "engine/gangs/pods.hpp"
#include "engine/mig/mig_layouts.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::placement {

/// Orders for MIG layouts: accepts them, and advances the order of a node with relayout::advance().
class LayoutOrders {
 public:
  LayoutOrders(State& state, const Pods& pods, const MigLayouts& layouts, Rows& rows)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        pods_(pods),
        layouts_(layouts),
        rows_(rows) {}

  /// The order for a layout; fails with the reason if the node cannot have it.
  [[nodiscard]] Result<relayout::Row> order_for(const NodeName& name, const std::string& layout,
                                                const mig::Definitions& definitions) const;
  /// Advances the order of the node.
  void reconcile(const NodeName& name);
  void order_layouts(const OrderLayouts& asked);

 private:
  [[nodiscard]] std::optional<relayout::Row> default_order(const NodeName& name, const DefaultLayout& fallback,
                                                           const mig::Definitions& definitions,
                                                           std::string* why_not) const;
  void drain_for_layout(const NodeName& name, const std::string& occupant, Repartition& next);
  void request_eviction_for_layout(const AttemptId& id, const NodeName& name, const Repartition& next,
                                   Instant save_until);
  void force_evict(const NodeName& name, const std::string& occupant, const Repartition& next);
  [[nodiscard]] std::vector<relayout::Action> continue_order(const NodeName& name, Repartition& next) const;
  void compare_capacity(const NodeName& name, Repartition& next) const;
  void review_hold(const NodeName& name, Repartition& next) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Pods& pods_;
  const MigLayouts& layouts_;
  Rows& rows_;
};

}  // namespace qm::placement
