#pragma once
#include "qm/pg/connection.hpp"

#include <span>
#include <string>

namespace qm::pg {

/// One forward-only step of a schema: applied in order of version, in a transaction each, with its checksum stored.
/// A changed text of an applied step is refused with both checksums.
struct Migration {
  int version = 0;
  std::string name;
  std::string sql;  ///< "{schema}" is replaced by the schema's quoted name
};

/// Migrates a schema to the last of `steps`, which are numbered 1, 2, 3, ... `origin` distinguishes sets of steps
/// that share a schema. Several processes may call this at once: one applies, the others wait and find the steps
/// applied.
///
/// Fails    kFailedPrecondition: an applied step has another text, or the schema is newer than the program;
///          kInvalid: the numbers are not dense, or a step's SQL is refused (with its version and name).
Status migrate(Connection& connection, const std::string& schema, const std::string& origin,
               std::span<const Migration> steps);

/// Checks whether a schema has exactly these steps; changes nothing.
///
/// Fails    kFailedPrecondition: it is older (or missing), newer, or an applied step has another text; the message
///          has the actual version and the required one, the remedy has the action.
Status check_migrations(Connection& connection, const std::string& schema, const std::string& origin,
                        std::span<const Migration> steps);

}  // namespace qm::pg
