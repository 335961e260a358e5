#pragma once
#include "checkpoints/orders.hpp"
#include "consolidation/cluster_view.hpp"
#include "facts.hpp"
#include "instances/claims.hpp"
#include "instances/disruptions.hpp"
#include "qm/autoscaler/consolidate/plan.hpp"
#include "state.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler {

/// Consolidation of nodes in use: the library `consolidate` plans; here a plan is validated and executed.
///
///   search -> validate, 15 s later -> launch -> every replacement is ready -> gangs save -> drain
///
/// One consolidation is executed at a time. It is planned again before each step that cannot be undone, and given up if
/// the nodes may not be removed any more: then its replacements are ordinary nodes.
class Consolidation {
 public:
  Consolidation(State& state, const Facts& facts, Claims& claims, const Offers& offers, const NewNodes& nodes,
                const JointPlanner& joint, CheckpointOrders& orders, Disruptions& disruptions)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        nodes_(nodes),
        orders_(orders),
        disruptions_(disruptions),
        views_(state, facts, offers, joint, orders, disruptions) {}

  /// Goes on with the consolidation that is being executed, and keeps drained nodes on which a pod must stay.
  void follow();
  /// Plans the next one.
  void search();
  /// One line for the consolidation that is being executed.
  void explain(std::vector<std::string>& lines) const;

 private:
  using Phase = ConsolidationRow::Phase;
  [[nodiscard]] bool acts() const;
  [[nodiscard]] std::vector<std::string> keys() const;
  void keep_held();
  void step(const std::string& key);
  [[nodiscard]] std::string broken(const ConsolidationRow& row) const;
  [[nodiscard]] std::string failed_replacement(const ConsolidationRow& row) const;
  [[nodiscard]] Result<consolidate::Plan> plan_again(const ConsolidationRow& row, ClusterView& view);
  void validate(const std::string& key);
  [[nodiscard]] std::string execute(const std::string& key, const ClusterView& view, const consolidate::Plan& plan);
  void await_replacements(const std::string& key);
  void start_saving(const std::string& key);
  void await_saves(const std::string& key);
  void drain(const std::string& key);
  void give_up(const std::string& key, const std::string& why);
  [[nodiscard]] std::vector<AttemptId> saving_attempts(const ConsolidationRow& row) const;
  [[nodiscard]] bool saved_since(const AttemptId& id, Instant since) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  const NewNodes& nodes_;
  CheckpointOrders& orders_;
  Disruptions& disruptions_;
  ViewBuilder views_;
};

}  // namespace qm::autoscaler
