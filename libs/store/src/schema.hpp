#pragma once
#include "qm/pg/migration.hpp"

#include <vector>

namespace qm::store {

/// The tables that every service has.
const std::vector<pg::Migration>& common_migrations();

}  // namespace qm::store
