#pragma once
#include "replicas/scaler_evaluation.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Replicas of workloads, as HorizontalPodAutoscalers and ScaledObjects ask for: a part of the engine with tables of
/// its own, which reads and writes no others.
///
/// Evaluated   each scaler of an observed target, at the instants at which the original would: every `sync`, and a
///             ScaledObject at its pollingInterval. An evaluation needs a sample that is newer than the last one.
/// Scaled      a target with the annotation, once every scaler of it is suspended: the largest result of its scalers
///             within the largest lower and the smallest upper bound. A scaler without valid metrics holds the size, as
///             an invalid metric does in an autoscaler. If the bounds contradict each other, the upper one counts.
/// Left        a target with a scaler that cannot be evaluated: its scalers are given back to the other controller.
/// Faults      an exception ends the evaluation of one scaler: its rows stay as they were, and its target is not
///             scaled. No other row of the engine depends on it.
/// Cost        a step costs by targets; an evaluation as in the library.
class ReplicaScaling {
 public:
  explicit ReplicaScaling(State& state) : state_(state), tables_(state.tables.replicas) {}

  void apply(const ScalerUpdated& c);
  void apply(const ScalersListed& c);
  void apply(const ReplicasObserved& c);
  void apply(const ReplicasChanged& c);
  /// Evaluates what is due, and sets the intents of the output.
  void run();
  /// The next instant at which an evaluation or a repetition is due.
  [[nodiscard]] std::optional<Instant> next();

 private:
  using Members = std::vector<ScalerId>;
  using Groups = std::map<TargetId, Members>;
  [[nodiscard]] Groups groups() const;  ///< the scalers of each target, the oldest first
  void evaluate(const TargetId& id, const Members& members);
  void evaluate_one(const ScalerId& id, const TargetRow& target, bool scales);
  void decide(const TargetId& id, const Members& members, const std::map<ScalerId, HistoryRow>& earlier);
  [[nodiscard]] std::string conflict_of(const TargetRow& target, const Members& members) const;
  /// Whether this autoscaler takes the scalers of the target over.
  [[nodiscard]] bool takes(const TargetRow& target, const Members& members) const;
  /// Whether no other controller acts on the target.
  [[nodiscard]] bool alone(const Members& members) const;
  void switch_scalers(const TargetRow* target, const Members& members);
  void erase(const ScalerId& id);

  State& state_;
  ReplicaTables& tables_;
  ScalerEvaluation scalers_{state_.options.replicas};
};

}  // namespace qm::autoscaler
