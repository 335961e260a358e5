#pragma once
#include "qm/config/manifest.hpp"

#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A finding about objects that are valid and do not do what is meant, or cost more than is meant.
struct PoolFinding {
  std::string code;    ///< stable, in capitals
  std::string object;  ///< "NodePool gpu-spot", "Job ml/train"
  std::string source;  ///< "pools.yaml:14"
  std::string field, message, remedy;
  friend auto operator<=>(const PoolFinding&, const PoolFinding&) = default;
};

/// Lints NodePools, and the workloads and scalers that use them, together:
///   - NODEPOOL_NOT_READY: nothing can be launched from the pool;
///   - SPOT_NARROW: a pool with spot capacity alone allows fewer than 3 instance types or 2 zones;
///   - TRAINING_CONSOLIDATED_SOONER: a training pool has a shorter consolidateAfter than an inference pool;
///   - SPEND_UNLIMITED: no limit bounds the cost of a pool;
///   - TRAINING_NOT_PROTECTED: a GPU workload of more than an hour, without do-not-disrupt, fits a pool that consolidates
///     nodes in use;
///   - GPU_SCALED_ON_CPU: the replicas of a GPU workload follow CPU, memory or a schedule alone;
///   - NAME_REUSED: two objects of one kind have the same name and different content.
///
/// A pool is for training or inference by its name or a label of its nodes. An undeclared run time is more than an hour
/// for training operators and for the label workload-type "training".
///
/// Order    by object as listed, then as above.
/// Threads  any; reads only its arguments.
/// Fails    never: objects of other kinds are ignored.
/// Cost     workloads x pools, and the summary of each pool.
[[nodiscard]] std::vector<PoolFinding> lint_pools(std::span<const config::Object> objects);

}  // namespace qm::autoscaler
