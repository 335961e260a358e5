#pragma once
#include "qm/autoscaler/replica_scaling.hpp"
#include "qm/autoscaler/replicas/scaler.hpp"

#include <map>
#include <string>

namespace qm::autoscaler {

/// A scaler's manifest as read.
struct ReadScaler {
  std::string manifest;  ///< that it was read from
  replicas::Scaler scaler;
};

/// Evaluates single scalers. Keeps manifests that were read: a cache of what the rows have.
class ScalerEvaluation {
 public:
  explicit ScalerEvaluation(const ReplicaOptions& options) : options_(options) {}

  /// Null if the manifest cannot be read: its row has the reason.
  const replicas::Scaler* read(const ScalerId& id, const ScalerRow& row);
  void forget(const ScalerId& id) { cache_.erase(id); }

  /// How a sample of the target is evaluated.
  struct Sample {
    const TargetRow& target;
    const ReadingsRow& readings;
    Instant now{};
    bool exact_rules = false;
  };
  /// Whether a sync or a poll is due.
  [[nodiscard]] bool due(const replicas::Scaler& scaler, const HistoryRow& history, Instant now) const;
  /// The instant at which the next one is.
  [[nodiscard]] Instant next_due(const replicas::Scaler& scaler, const HistoryRow& history) const;
  /// Evaluates what is due. `decision` is the last one: a poll that changes nothing keeps the result of the sync.
  void evaluate(const replicas::Scaler& scaler, const Sample& sample, HistoryRow& history, DecisionRow& decision) const;
  /// Replaces the change that an evaluation stored by the one that happened.
  static void record(const replicas::Scaler& scaler, Instant now, std::int32_t before, std::int32_t after,
                     const HistoryRow& earlier, HistoryRow& history);

 private:
  void evaluate_hpa(const replicas::Scaler& scaler, const Sample& sample, HistoryRow& history,
                    DecisionRow& decision) const;
  void evaluate_object(const replicas::Scaler& scaler, const Sample& sample, HistoryRow& history,
                       DecisionRow& decision) const;

  const ReplicaOptions& options_;
  std::map<ScalerId, ReadScaler> cache_;
};

/// Why the manifest cannot be evaluated; empty if it can.
[[nodiscard]] std::string refusal_of(const ScalerId& id, const std::string& manifest);

}  // namespace qm::autoscaler
