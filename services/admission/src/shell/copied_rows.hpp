#pragma once
#include "qm/admission/engine.hpp"
#include "qm/service/host.hpp"

#include <optional>

namespace qm::admission {

/// The engine's rows, copied in slices between batches, so that each holds the engine's thread for less than a millisecond. Rows
/// change meanwhile, each as a whole: what comes while they are copied may be in or not.
struct CopiedRows {
  Engine::Tables rows;
  Options options;
};

/// What has not ended, of all queues.
/// Threads  any but the engine's. Blocks.
[[nodiscard]] CopiedRows copy_rows(service::Host& host);
/// The workload with its quota tree: what has not ended there, what was submitted since then, ended or not; and what was learned
/// for forecasts.
[[nodiscard]] CopiedRows copy_tree(service::Host& host, const WorkloadUid& uid, Instant since);

}  // namespace qm::admission
