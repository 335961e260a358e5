#pragma once
#include "qm/pg/migration.hpp"

#include <vector>

namespace qm::bus {

/// The tables and functions of the bus in PostgreSQL, in the schema "bus".
const std::vector<pg::Migration>& bus_migrations();

}  // namespace qm::bus
