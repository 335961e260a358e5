#pragma once
#include "qm/base/lookup.hpp"
#include "qm/placement/pack/policy.hpp"
#include "qm/placement/policy.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace qm::placement {

/// Scores the nodes that fit a pod, by one of pack's policies, for the known pods and nodes.
///
/// The demand is the pods of all workloads that placement knows: pending, running or recently ended. MIG
/// instances and other counted resources do not count. One pod for each size of node is added, for future
/// pods that use a whole node.
///
/// The scored mix is updated only when it differs from the known mix by a quarter: scores are cached
/// (shortlists.hpp), and each of them depends on the whole mix. The scored mix is a row of the engine, so a
/// restarted engine gives the same scores.
///
/// Bounds   models after the 63rd and node types after the 255th, in the order of their names and sizes,
///          count as one.
/// Threads  one.
/// Cost     weigh(): a fraction of a millisecond for a changed mix, and O(nodes); score(): a fraction of a
///          microsecond.
class Preference {
 public:
  explicit Preference(std::string policy = "quartermaster");  ///< one of pack::policy_names()

  /// Adds pods of these sets to the known demand (1), or removes them (-1).
  void count(const std::vector<PodSet>& pod_sets, int sign);
  /// Adds a node of this hardware shape, or removes it.
  void keep(const NodeName& node, const NodeFacts& facts);
  void drop(const NodeName& node);
  [[nodiscard]] const DemandMix& known() const { return known_; }
  /// Whether the known and the scored mix differ by a quarter, or a node's hardware shape is not in the
  /// scored mix.
  [[nodiscard]] bool has_drifted() const;
  void weigh(const DemandMix& mix);
  /// A copy that scores by the known mix, without the nodes' names.
  [[nodiscard]] Preference scored_by_known_mix() const;
  /// Prepares scoring on these nodes, for a query: on all kept nodes, or if there are none, on any.
  void prepare(const FreeCapacity& free_capacity);

  /// Score of a pod on a node that it fits: larger is better.
  [[nodiscard]] std::int64_t score(const NodeCapacity& capacity, const PodShape& shape) const;
  [[nodiscard]] std::int64_t score(const pack::NodeState& state, const PodShape& shape) const;
  /// Takes one pod of the shape from the free capacity like take(), but a share from the device with the best score.
  std::vector<DeviceRef> take(NodeCapacity& capacity, const NodeName& node, const PodShape& shape) const;

  /// The policy's view of a node, and the policy itself; both by the scored mix.
  [[nodiscard]] pack::NodeState state_of(const NodeCapacity& capacity) const;
  [[nodiscard]] const pack::Policy& policy() const { return *policy_; }
  /// Scores of different epochs are not comparable.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

  friend bool operator==(const Preference& a, const Preference& b) {
    return a.known_ == b.known_ && a.machine_of_ == b.machine_of_;
  }

 private:
  [[nodiscard]] pack::PodClass class_of(const PodSize& size) const;
  [[nodiscard]] pack::NodeState empty(const NodeShape& machine) const;

  std::string name_;
  DemandMix known_, weighed_;
  std::map<NodeName, NodeShape> machine_of_;
  std::map<std::string, std::uint8_t> model_number_;
  struct Alike {  // finds a machine by node facts without constructing one
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::tie(a.model, a.cpu_milli, a.memory_bytes, a.gpus) <
             std::tie(b.model, b.cpu_milli, b.memory_bytes, b.gpus);
    }
  };
  std::map<NodeShape, std::uint8_t, Alike> type_number_;
  std::shared_ptr<const pack::Policy> policy_;
  std::uint64_t epoch_ = 0;
};

/// Preference::score() for pods of one shape, computed once per node state. The shape and the preference must
/// outlive it.
class Scores {
 public:
  Scores(const Preference& preference, const PodShape& shape) : preference_(preference), shape_(shape) {}
  [[nodiscard]] std::int64_t of(const NodeCapacity& capacity);

 private:
  const Preference& preference_;
  const PodShape& shape_;
  Lookup<pack::NodeState, std::int64_t, pack::StateHash> known_;
};

}  // namespace qm::placement
