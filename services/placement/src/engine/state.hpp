#pragma once
#include "engine/index.hpp"
#include "qm/placement/engine.hpp"

#include <utility>

namespace qm::placement {

/// What the parts of the engine share: options, rows, their index, and the running step. A part that only reads
/// has a const reference.
struct State {
  explicit State(Options chosen) : options(std::move(chosen)) {}

  [[nodiscard]] const Meta& meta() const;
  [[nodiscard]] const DefragRun& defrag_run() const;
  [[nodiscard]] bool synced() const { return meta().nodes_synced && meta().pods_synced; }
  /// Whether the workload is its own victim: its proposal is a migration.
  [[nodiscard]] bool is_migrating(const WorkloadUid& uid) const;
  /// Adds an effect to the output of the step.
  void send(Effect what);

  const Options options;
  Tables tables;
  Index index;
  Scratch scratch;
  Instant last_now{};  ///< of the last step
};

/// Hypothetical changes: these attempts are evicted, and the capacity held for these workloads is released.
struct HypotheticalState {
  std::set<AttemptId> attempts;
  std::set<WorkloadUid> holds;
  bool spares = false;            ///< spare nodes, reserved for gangs that lost a node, may be used
  bool defrag = false;            ///< including capacity held for migrations that are not requested yet
  std::set<NodeName> launched{};  ///< nodes kept for pods that they were launched for, which may be used
};

/// The bit of a workload type that must not share nodes with others; 0 for other types.
[[nodiscard]] std::uint32_t type_of(const Options& options, std::string_view workload_type);

}  // namespace qm::placement
