#pragma once
#include "qm/autoscaler/replica_scaling.hpp"
#include "qm/base/result.hpp"
#include "qm/store/store.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler {

/// Converts changed rows about replicas to state rows.
void append_changes(const ReplicaTables& tables, std::vector<store::StateRow>& out);
/// Restores a row about replicas; false if the row is of another kind.
Result<bool> restore(ReplicaTables& tables, const store::StateRow& row);

// ---- inputs ----
[[nodiscard]] std::string scaler_bytes(const ScalerUpdated& update);
[[nodiscard]] Result<ScalerUpdated> scaler_from_bytes(const std::string& bytes);
[[nodiscard]] std::string scalers_bytes(const ScalersListed& list);
[[nodiscard]] Result<ScalersListed> scalers_from_bytes(const std::string& bytes);
[[nodiscard]] std::string sample_bytes(const ReplicasObserved& sample);
[[nodiscard]] Result<ReplicasObserved> sample_from_bytes(const std::string& bytes);

}  // namespace qm::autoscaler
