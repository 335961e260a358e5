#pragma once
#include "qm/store/store.hpp"

#include <string>

namespace qm::store {

/// The schema of a service and shard; kInvalid if it is not a valid name.
Result<std::string> schema_of(const PgOptions& options);

}  // namespace qm::store
