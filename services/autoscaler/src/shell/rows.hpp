#pragma once
#include <string>

#include "qm/autoscaler/tables.hpp"
#include "qm/service/shell.hpp"

namespace qm::autoscaler {

/// Changed rows of all tables as state rows, and state rows back into tables.
void append_changes(const Tables& tables, std::vector<store::StateRow>& out);
Status restore(Tables& tables, const store::StateRow& row);

/// All pools as the payload of one input.
std::string pools_bytes(const std::vector<Pool>& pools);
Result<std::vector<Pool>> pools_from_bytes(const std::string& bytes);

}  // namespace qm::autoscaler
