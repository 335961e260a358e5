#include "names.hpp"

#include <algorithm>

namespace qm::store {

/// Names become the application_name, which the server truncates at 63 bytes.
Result<std::string> schema_of(const PgOptions& options) {
  const auto schema = options.shard == "default" ? options.service : options.service + "_" + options.shard;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  if (schema.empty() || schema.size() > 48 || !std::ranges::all_of(schema, plain))
    return fail(Error{Code::kInvalid, "\"" + schema + "\" cannot be a schema's name", "shard",
                      "use at most 48 lower-case letters, digits, _ and - for service and shard together"});
  return schema;
}

}  // namespace qm::store
