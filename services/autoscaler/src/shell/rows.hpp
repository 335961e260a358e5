#pragma once
#include <string>

#include "qm/autoscaler/tables.hpp"
#include "qm/service/shell.hpp"

namespace qm::autoscaler {

/// Changed rows of all tables as state rows, and state rows back into tables.
void append_changes(const Tables& tables, std::vector<store::StateRow>& out);
Status restore(Tables& tables, const store::StateRow& row);

std::string pool_bytes(const Pool& pool);
Result<Pool> pool_from_bytes(const std::string& bytes);
std::string claim_bytes(const Claim& claim);
Result<Claim> claim_from_bytes(const std::string& bytes);

}  // namespace qm::autoscaler
