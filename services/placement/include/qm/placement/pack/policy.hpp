#pragma once
#include "qm/placement/pack/fragmentation.hpp"
#include "qm/placement/pack/node_state.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace qm::placement::pack {

/// How good a place is, and which device a share would take there.
struct Choice {
  std::int64_t score = 0;         ///< larger is better
  std::int32_t device_milli = 0;  ///< free on the device that a share takes; without meaning for whole devices
};

/// A preference among the nodes that a pod fits. It sees states, never names: nodes that are alike are equally good, and among
/// those the first in the fleet's order gets the pod.
///
/// Threads  any; policies have no state of their own.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// What a policy finds out of a node once, whatever pod comes; whoever asks often keeps it with the state.
  struct Standing {
    std::int64_t fragment = 0;
    double rest = 0;
  };
  [[nodiscard]] virtual Standing stand(const NodeState&) const { return {}; }
  /// The pod fits the node, and `standing` is the node's.
  [[nodiscard]] virtual Choice weigh(const NodeState& node, const Standing& standing, const PodClass& pod) const = 0;
  [[nodiscard]] Choice choose(const NodeState& node, const PodClass& pod) const {
    return weigh(node, stand(node), pod);
  }
};

/// What a policy may know beforehand of the fleet and of what it will be asked for.
struct Outlook {
  std::vector<Demand> mix;  ///< all classes to come and how often, in a fixed order; memory does not tell them apart
  std::vector<NodeState> capacity;  ///< the nodes when they are empty; no other model or type will come
};

/// The policies by name: fgd, bestfit, dotprod, clustering, packing, spread, quartermaster. Null for any other name.
[[nodiscard]] std::unique_ptr<Policy> make_policy(std::string_view name, const Outlook& outlook);
[[nodiscard]] std::span<const std::string_view> policy_names();

/// The fullest device that has room for the share: its free milli.
[[nodiscard]] std::int32_t tightest_device(const NodeState& node, const PodClass& pod);

}  // namespace qm::placement::pack
