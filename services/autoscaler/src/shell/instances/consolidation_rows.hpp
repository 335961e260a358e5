#pragma once
#include "qm/autoscaler/tables.hpp"
#include "qm/store/store.hpp"

#include <string>

namespace qm::autoscaler {

/// Rows of the consolidation of nodes in use.
[[nodiscard]] std::string bytes(const ConsolidationRow& row);
[[nodiscard]] std::string bytes(const ConsolidationCheck& row);
/// Whether the row is one of them, which is then in its table.
[[nodiscard]] Result<bool> restore_consolidation(Tables& tables, const store::StateRow& row);

}  // namespace qm::autoscaler
