#pragma once
#include "qm/admission/workload.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::admission {

struct EngineState;

/// One reason for the state of a workload or of a queue. The code is CamelCase; the remedy may be empty.
struct Cause {
  std::string code, message, resource, remedy;
  std::int64_t requested = 0, available = 0;
};

/// Why a workload is in its state. The first cause is the reason that lists show.
struct Explanation {
  std::string summary;
  std::vector<Cause> causes;
  Duration waiting{0};
  bool may_have_remedies = false;  ///< only quota or queue order blocks it: remedies() may know what admits it
};

/// Computes the explanation from rows and indexes, as of `now`.
///
/// Threads  that of the engine.
/// Cost     as shortfalls(); with backfill also the reserved starts of its queue.
[[nodiscard]] Explanation explain(const EngineState& state, const Workload& w, Instant now);

}  // namespace qm::admission
