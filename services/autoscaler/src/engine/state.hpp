#pragma once
#include "launch/pod_needs.hpp"
#include "qm/autoscaler/engine.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qm::autoscaler {

/// What the parts of the engine share: options, catalog, rows, and the running step. A part that only reads has a
/// const reference.
struct State {
  explicit State(Options chosen) : options(chosen) {}

  const Options options;
  std::map<std::string, InstanceType> catalog;  ///< by name
  Tables tables;
  mutable NeedsBook needs;              ///< derived from pod sets
  std::uint64_t node_pods_version = 0;  ///< of the table, in memory: a search over equal rows is not repeated
  /// Whether nodes of groups are removed by their utilization.
  [[nodiscard]] bool scales_groups_down() const { return options.scale_down.utilization_milli > 0; }
  // The running step.
  Instant now{};
  Output out;
  std::set<ClaimName> changed_claims;     ///< to publish
  bool more_launches = false;             ///< further instances are launched a moment later
  std::set<ClaimName> headroom;           ///< nodes that cover CapacityBuffers
  std::vector<Overlay> overlays;          ///< of the tables, in the order in which they apply
  std::optional<Instant> disruptions_at;  ///< the next time at which disruptions depend on time alone
};

}  // namespace qm::autoscaler
