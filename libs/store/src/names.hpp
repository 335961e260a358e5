#pragma once
#include "qm/store/store.hpp"

#include <string>

namespace qm::store {

/// The schema of a service and shard; kInvalid where it cannot be a name.
Result<std::string> schema_of(const PgOptions& options);

}  // namespace qm::store
