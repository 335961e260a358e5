#pragma once
#include "qm/pg/connection.hpp"
#include "qm/store/store.hpp"

namespace qm::store {

/// A batch as the arguments of the function write_batch, each key named once (its last row).
[[nodiscard]] pg::Params batch_params(const Commit& batch, std::uint64_t epoch);
/// Topics and keys as two arrays.
[[nodiscard]] pg::Params key_params(const std::vector<KeyRow>& keys);

}  // namespace qm::store
