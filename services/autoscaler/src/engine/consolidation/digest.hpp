#pragma once
#include "qm/autoscaler/tables.hpp"
#include "qm/base/digest.hpp"

namespace qm::autoscaler {

/// Adds the rows of the consolidation to a digest of the tables.
void fold(const ConsolidationRow& row, Digest& digest);
void fold(const ConsolidationCheck& row, Digest& digest);

}  // namespace qm::autoscaler
