#pragma once
#include "qm/placement/pack/fragmentation.hpp"
#include "qm/placement/pack/node_state.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace qm::placement::pack {

/// Score of a placement, and the device for a share.
struct Choice {
  std::int64_t score = 0;         ///< larger is better
  std::int32_t device_milli = 0;  ///< free milli of the device for a share; not used for whole devices
};

/// Scores the nodes that a pod fits. A policy reads states, never names: equal nodes have equal scores, and
/// the first of them in fleet order gets the pod.
///
/// Threads  any; policies have no state of their own.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Values that a policy computes once per node, for all pods; a caller may cache them with the state.
  struct NodeScores {
    std::int64_t fragment = 0;
    double rest = 0;
  };
  [[nodiscard]] virtual NodeScores scores_of(const NodeState&) const { return {}; }
  /// Requires that the pod fits the node, and that `scores` belongs to the node.
  [[nodiscard]] virtual Choice weigh(const NodeState& node, const NodeScores& scores, const PodClass& pod) const = 0;
  [[nodiscard]] Choice choose(const NodeState& node, const PodClass& pod) const {
    return weigh(node, scores_of(node), pod);
  }
};

/// Expected fleet and demand, an input of policies.
struct Outlook {
  std::vector<Demand> mix;          ///< all future classes and their frequency, in a fixed order; memory is ignored
  std::vector<NodeState> capacity;  ///< the empty nodes; no other models or types will be added
};

/// The policies by name: fgd, bestfit, dotprod, clustering, packing, spread, quartermaster. Null for any other name.
[[nodiscard]] std::unique_ptr<Policy> make_policy(std::string_view name, const Outlook& outlook);
[[nodiscard]] std::span<const std::string_view> policy_names();

/// Free milli of the fullest device that fits the share.
[[nodiscard]] std::int32_t tightest_device(const NodeState& node, const PodClass& pod);

}  // namespace qm::placement::pack
