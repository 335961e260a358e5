#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/pg/connection.hpp"
#include "qm/service/shell.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace qm::replay {

/// One batch of a journal.
struct Batch {
  std::uint64_t sequence = 0;
  Instant now{};
  std::vector<service::Input> inputs;
  std::uint64_t digest = 0;  ///< of the state after it; 0 = not recorded
};

/// Calls fn for each batch of the journal in `schema`, in order, until it returns false.
///
/// Fails    kFailedPrecondition: a batch is missing. kInternal: a batch cannot be read. Or the error of fn.
[[nodiscard]] Status for_each_batch(pg::Connection& session, const std::string& schema,
                                    const std::function<Result<bool>(const Batch&)>& fn);

}  // namespace qm::replay
