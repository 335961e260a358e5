#pragma once
#include "qm/kube_rules/node_set.hpp"
#include "qm/placement/model.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement {

/// Free capacity of a node. A value: a search works on a copy that nothing else reads.
struct NodeCapacity {
  const NodeFacts* facts = nullptr;  ///< outlives this value
  bool usable = false;
  std::string why_not;              ///< "cordoned manually", "cordoned after XID 79 ...", "not ready", "lost"
  std::vector<std::string> faulty;  ///< XID and recovery action of each GPU out of service
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t pods = std::numeric_limits<std::int32_t>::max();  ///< that the node may still run
  std::vector<std::int32_t> free_milli;                          ///< by device; 0 = full, faulty or not available
  std::map<std::string, std::int64_t> extended;
  using Instances = std::vector<std::map<std::string, std::int32_t>>;  ///< by GPU: count of each resource
  Instances instances;  ///< idle MIG instances; empty if no GPU is partitioned, or the layout is unknown
  struct Zone {
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    friend auto operator<=>(const Zone&, const Zone&) = default;
  };
  std::vector<Zone> zones;                   ///< free on each NUMA node, in the order of facts->numa
  bool gpu_pods = false;                     ///< a pod on the node requests GPUs
  bool alone = false;                        ///< used by an exclusive gang: no other GPU pods may be placed there
  std::uint32_t types = 0;                   ///< of Options::apart: bit i = pods of the i-th type run there
  bool slices = false;                       ///< in_slices() of its facts
  std::optional<rules::NodeIndex> number{};  ///< of its node in the engine's rule book
  std::int32_t island = 0;                   ///< size of an NVLink island, in groups from index 0; 0 = the whole node
  [[nodiscard]] std::int64_t idle_gpus() const;  ///< devices without any use
  [[nodiscard]] std::int64_t gpu_milli() const;
};
using FreeCapacity = std::map<NodeName, NodeCapacity>;

/// A hard constraint: a node that fails it does not fit the pod, whatever its score.
///
/// Threads  any; filters have no state.
class Filter {
 public:
  virtual ~Filter() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual bool admits(const NodeCapacity& capacity, const PodShape& shape) const = 0;
  /// Empty = admitted; otherwise the reason, as text after a number of nodes ("3 nodes ...").
  [[nodiscard]] std::string rejects(const NodeCapacity& capacity, const PodShape& shape) const {
    return admits(capacity, shape) ? std::string() : words(capacity, shape);
  }

 private:
  /// For a node that is not admitted.
  [[nodiscard]] virtual std::string words(const NodeCapacity& capacity, const PodShape& shape) const = 0;
};

/// The filters in the order of evaluation: state, selector, taints, device model, exclusive.
[[nodiscard]] std::span<const Filter* const> filters();
/// Nodes with this label set to "true" are reserved for the recovery of gangs that lost a node.
inline constexpr std::string_view kSpareLabel = "quartermaster.dev/spare";
[[nodiscard]] bool is_spare(const NodeFacts& facts);
/// Whether all filters admit the pod.
[[nodiscard]] bool admitted(const NodeCapacity& capacity, const PodShape& shape);
/// Reason of the first filter that rejects the pod; empty = all admit it.
[[nodiscard]] std::string rejected_by(const NodeCapacity& capacity, const PodShape& shape);

/// Requests of the pod for resources that Kubernetes counts by name: `extended`, and MIG instances.
[[nodiscard]] std::map<std::string, std::int64_t> counted(const PodShape& shape);

/// How many pods of the shape fit the node's free CPU, memory, devices and other resources.
[[nodiscard]] std::int64_t pods_that_fit(const NodeCapacity& capacity, const PodShape& shape);

/// How a node's GPUs are connected, the widest parts first: by NVLink, to one socket, under one PCIe switch.
struct Nest {
  std::int32_t island = 0;                 ///< GPUs per NVLink island; 0 = not reported
  std::span<const NumaZone> zones;         ///< empty = not reported
  std::span<const std::int32_t> switches;  ///< by GPU index; empty = not reported
};
[[nodiscard]] Nest nest_of(const NodeCapacity& capacity);

/// Chooses idle devices for a pod that requests `count` whole ones, ascending.
///
/// Order    level by level: the part with the fewest idle devices that has enough, so that larger parts stay
///          free; of equal parts the one whose devices are in fewer parts of the next level. If no part has
///          enough, as few parts as possible. Lowest index first.
/// Laws     asserts that `count` devices are idle.
[[nodiscard]] std::vector<std::size_t> choose_devices(const std::vector<std::int32_t>& free_milli, const Nest& nest,
                                                      std::int64_t count);

/// Replicas of each GPU that the node advertises, by its label nvidia.com/gpu.replicas. Pods then get shares,
/// by time-slicing or MPS, and device `gpu * shares + n` is one share. 1 if GPUs are allocated as a whole, or
/// shares have a resource name of their own.
[[nodiscard]] std::int32_t shares_of(const NodeFacts& facts);
/// Index of the GPU that the device is, or is a share of.
[[nodiscard]] std::int32_t gpu_of(const DeviceRef& device, std::int32_t shares);
/// GPUs per NVLink island, by the label gpu.nvidia.com/nvlink-gpus-per-island; 0 if the label is absent.
[[nodiscard]] std::int32_t island_of(const Labels& labels);

/// Takes one pod of the shape from the free capacity and returns its devices.
///
/// Order    whole devices: choose_devices(). A share: the first device with exactly `device_milli` free, else
///          the fullest device that fits, then lowest index. MIG instances: from the GPU with the fewest idle
///          ones, so that other GPUs can be repartitioned, then lowest index.
/// Laws     asserts that the pod fits.
std::vector<DeviceRef> take(NodeCapacity& capacity, const NodeName& node, const PodShape& shape,
                            std::int32_t device_milli = 0);

/// Minimum number of pods with which the set may run: all of them, or `min_count` rounded up to whole slices.
[[nodiscard]] std::int32_t minimum_of(const PodSet& set);
/// Whether a set may run with fewer pods than it requests.
[[nodiscard]] bool is_elastic(const std::vector<PodSet>& pod_sets);
/// The same sets with the minimum of each as their count.
[[nodiscard]] std::vector<PodSet> minimum_of(std::vector<PodSet> pod_sets);

struct Plan {
  std::vector<Member> members;  ///< ordered by set and index; of an elastic set the first ranks
};
struct Unschedulable {
  std::string reason;  ///< computed: how many pods fit, and what prevents the rest
};
struct PlacementResult {
  std::optional<Plan> plan;  ///< none = see `shortfall`
  Unschedulable shortfall;
};

/// A part of the fleet that a search is limited to.
struct TopologyPart {
  std::string name;  ///< as text after "outside"
  std::function<bool(const NodeName&, const NodeFacts&)> has;
};

class Preference;
class Shortlists;

/// GPUs for a workload type whose pods name no model: whole GPUs; or first MIG instances and shares that
/// count as GPUs.
enum class GpuPool : std::uint8_t { kAny, kWhole, kSlices };
/// Whether the devices that the node counts as GPUs are shares of them, or MIG instances.
[[nodiscard]] bool in_slices(const NodeFacts& facts);

/// Shortlists of all nodes (shortlists.hpp), for workloads of this type, see NodeCapacity::types, on GPUs of this
/// pool.
struct ShortlistView {
  Shortlists& lists;
  std::uint32_t type = 0;
  GpuPool pool = GpuPool::kAny;
};

/// Inter-pod constraints that pods of the gang on other nodes change, too: for all nodes at once, by number.
/// Valid until the next pod is placed.
class DynamicConstraints {
 public:
  virtual ~DynamicConstraints() = default;
  [[nodiscard]] virtual rules::NodeIndex number(const NodeName& node, const NodeCapacity& capacity) const = 0;
  /// Nodes that admit one more pod of the set.
  [[nodiscard]] virtual const rules::NodeSet& open(std::size_t set) const = 0;
  /// Scores of the open nodes by the set's soft rules, by number: more is better. Null if all are equal.
  [[nodiscard]] virtual const std::vector<std::int64_t>* worth(std::size_t set) const = 0;
};

/// Inter-pod constraints of a gang during its placement: toward other pods on the nodes, and among its own.
/// Pod sets go by position, nodes by name and current free capacity.
class InterPodConstraints {
 public:
  virtual ~InterPodConstraints() = default;
  /// Whether a pod of the set changes where the next one may go. Such pods are placed one by one.
  [[nodiscard]] virtual bool one_by_one(std::size_t set) const = 0;
  /// Whether the node admits a pod of the set, by the rules that pods of the gang on other nodes do not
  /// change.
  [[nodiscard]] virtual bool suits(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const = 0;
  /// The rules that they change; null = none.
  [[nodiscard]] virtual const DynamicConstraints* dynamic(std::size_t set) const = 0;
  [[nodiscard]] bool admits(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const {
    if (!suits(set, node, capacity)) return false;
    const DynamicConstraints* shifts = dynamic(set);
    return shifts == nullptr || shifts->open(set).contains(shifts->number(node, capacity));
  }
  /// How many pods of the set the node may get one after another, if it admits any.
  [[nodiscard]] virtual std::int64_t most(std::size_t /*set*/, const NodeName& /*node*/) const {
    return std::numeric_limits<std::int32_t>::max();
  }
  /// Empty = admitted; otherwise the reason, as text after a number of nodes ("3 nodes ...").
  [[nodiscard]] virtual std::string rejects(std::size_t set, const NodeName& node,
                                            const NodeCapacity& capacity) const = 0;
  /// Whether the node has data that the set's pods will read. Such a node precedes equal ones.
  [[nodiscard]] virtual bool has_data(std::size_t set, const NodeCapacity& capacity) const = 0;
  /// Counts one more pod of the set on the node during the lifetime of this object.
  virtual void take(std::size_t set, const NodeName& node) = 0;
};

/// Requested parts of the result.
enum class ResultDetail : std::uint8_t {
  kReason,   ///< the plan, or the reason why there is none, which requires a pass over all nodes
  kPlan,     ///< the plan; a shortfall has no reason
  kWhether,  ///< only whether there is a plan: it may lack members
};

/// Chooses nodes and devices for a whole gang, or reports the constraint that prevents it. Elastic sets get
/// the minimum of every set first, then as many more pods of each as fit. To get all pods where all fit, the
/// caller first requests all of them.
///
/// Sketch   pod sets from the largest GPU request to the smallest. Per set: while pods remain, a node that
///          fits all of them is preferred, the best by score (nodes that the gang already uses first). If
///          none fits all, the node that fits most. For one pod set this uses the fewest nodes possible, and
///          fails only if no placement exists. With several sets it is a heuristic: it may return Short where
///          a search would fit. Pods with inter-pod rules are placed one by one, each on the node with the
///          highest score of its soft rules, then by score. That is a heuristic, too.
/// Order    fewest nodes, then devices of one NVLink island, then the preference's score, then nodes with the
///          data, then node name. The same free capacity and mix give the same plan.
/// Threads  any; reads only its arguments. `free_capacity` changes only if a plan is found.
/// Cost     O(sets * nodes * log nodes). A pod that is placed by itself adds O(nodes / 64), or O(nodes) if
///          soft rules give nodes different scores.
/// `constraints`: null if the pods have no known rules.
///
/// `kept`: shortlists of `free_capacity`, for pods without inter-pod rules other than their type. The result is
/// the same.
[[nodiscard]] PlacementResult place_gang(const std::vector<PodSet>& pod_sets, FreeCapacity& free_capacity,
                                         const Preference& preference, InterPodConstraints* constraints = nullptr,
                                         const ShortlistView* kept = nullptr,
                                         ResultDetail wanted = ResultDetail::kReason);

}  // namespace qm::placement
