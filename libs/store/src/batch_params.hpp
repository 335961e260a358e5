#pragma once
#include "qm/pg/connection.hpp"
#include "qm/store/store.hpp"

namespace qm::store {

/// A batch as the arguments of the function write_batch, each key once (its last row).
[[nodiscard]] pg::Params batch_params(const Commit& batch, std::uint64_t epoch);
/// Topics and keys as two arrays.
[[nodiscard]] pg::Params key_params(const std::vector<KeyRow>& keys);

/// Writes the anchors of a batch: they change far less often than their cursors. The other columns of a new row are
/// written by write_batch, later in the transaction.
Status put_anchors(pg::Connection& session, const std::string& schema, const Commit& batch);

}  // namespace qm::store
