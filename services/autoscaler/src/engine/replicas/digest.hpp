#pragma once
#include "qm/autoscaler/replica_scaling.hpp"
#include "qm/base/digest.hpp"

namespace qm::autoscaler {

/// Adds a key or a row about replicas to the digest.
void fold(const ScalerId& id, Digest& digest);
void fold(const TargetId& id, Digest& digest);
void fold(const ScalerRow& row, Digest& digest);
void fold(const TargetRow& row, Digest& digest);
void fold(const ReadingsRow& row, Digest& digest);
void fold(const HistoryRow& row, Digest& digest);
void fold(const DecisionRow& row, Digest& digest);

}  // namespace qm::autoscaler
