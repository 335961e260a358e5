#pragma once
#include "qm/placement/model.hpp"
#include "qm/placement/rules/node_set.hpp"

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

/// What is free on a node now. A value: a search works on a copy and nothing else sees it.
struct Room {
  const NodeFacts* facts = nullptr;  ///< outlives the room
  bool usable = false;
  std::string why_not;              ///< "cordoned manually", "cordoned after XID 79 ...", "not ready", "lost"
  std::vector<std::string> faulty;  ///< of each GPU out of service, its XID and the recovery action
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t pods = std::numeric_limits<std::int32_t>::max();  ///< that it may run yet
  std::vector<std::int32_t> free_milli;                          ///< by device; 0 = full, faulty or not to be had
  std::map<std::string, std::int64_t> extended;
  using Instances = std::vector<std::map<std::string, std::int32_t>>;  ///< by GPU: how many of each resource
  Instances instances;  ///< of MIG, idle; empty where no GPU is cut, or nobody knows how
  struct Zone {
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    friend auto operator<=>(const Zone&, const Zone&) = default;
  };
  std::vector<Zone> zones;  ///< free on each NUMA node, as facts->numa has them
  bool gpu_pods = false;    ///< some pod there asks for GPUs
  bool alone = false;       ///< a gang has it that shares its nodes with no other pods that ask for GPUs
  std::uint32_t types = 0;  ///< of Options::apart: bit i for pods of the i-th that are there
  bool slices = false;      ///< in_slices() of its facts
  std::optional<rules::NodeIndex> number{};  ///< of its node in the engine's book of rules
  std::int32_t island = 0;  ///< devices that NVLink joins, from index 0 on in groups of so many; 0 = all of the node
  [[nodiscard]] std::int64_t idle_gpus() const;  ///< devices that are free as a whole
  [[nodiscard]] std::int64_t gpu_milli() const;
};
using Rooms = std::map<NodeName, Room>;

/// A hard condition: a node that fails it cannot take the pod, whatever the score.
///
/// Threads  any; filters have no state.
class Filter {
 public:
  virtual ~Filter() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual bool admits(const Room& room, const PodShape& shape) const = 0;
  /// Empty = admitted; otherwise why not, as words that follow a number of nodes ("3 nodes ...").
  [[nodiscard]] std::string rejects(const Room& room, const PodShape& shape) const {
    return admits(room, shape) ? std::string() : words(room, shape);
  }

 private:
  /// Of a node that it does not admit.
  [[nodiscard]] virtual std::string words(const Room& room, const PodShape& shape) const = 0;
};

/// The filters in the order they are asked: state, selector, taints, device model, exclusive.
[[nodiscard]] std::span<const Filter* const> filters();
/// Nodes with the label "true" stay empty for gangs that lost a node.
inline constexpr std::string_view kSpareLabel = "quartermaster.dev/spare";
[[nodiscard]] bool is_spare(const NodeFacts& facts);
/// Whether all of them let the pod onto the node.
[[nodiscard]] bool admitted(const Room& room, const PodShape& shape);
/// By the first of them that does; empty = the node may take such a pod.
[[nodiscard]] std::string rejected_by(const Room& room, const PodShape& shape);

/// What the pod asks of resources that Kubernetes counts by their own name: `extended`, and MIG instances.
[[nodiscard]] std::map<std::string, std::int64_t> counted(const PodShape& shape);

/// How many pods of the shape the node can take now by its free CPU, memory, devices and other resources.
[[nodiscard]] std::int64_t pods_that_fit(const Room& room, const PodShape& shape);

/// What a node tells of how its GPUs are joined, the widest parts first: by NVLink, to one socket, under one PCIe switch.
struct Nest {
  std::int32_t island = 0;                 ///< GPUs to an NVLink island; 0 = not told
  std::span<const NumaZone> zones;         ///< none = not told
  std::span<const std::int32_t> switches;  ///< by index of a GPU; none = not told
};
[[nodiscard]] Nest nest_of(const Room& room);

/// Which idle devices a pod gets that asks for so many whole ones, ascending.
///
/// Order    level by level: a part that has enough of them, the one with the fewest, so that others stay whole; of such the one whose
///          devices are of fewer parts further in. Where none has enough, as few parts as there can be. Lowest index first.
/// Laws     asserts that so many are idle.
[[nodiscard]] std::vector<std::size_t> choose_devices(const std::vector<std::int32_t>& free_milli, const Nest& nest,
                                                      std::int64_t count);

/// How many times the node counts each of its GPUs as a device, by its label nvidia.com/gpu.replicas: pods take shares then, by
/// time or by MPS, and device `gpu * shares + n` is one of them. 1 where GPUs are given as a whole, or shares have a name of
/// their own.
[[nodiscard]] std::int32_t shares_of(const NodeFacts& facts);
/// The index of the GPU that the device is, or is a share of.
[[nodiscard]] std::int32_t gpu_of(const DeviceRef& device, std::int32_t shares);
/// How many devices of the node NVLink joins, by its label gpu.nvidia.com/nvlink-gpus-per-island; 0 where it does not say.
[[nodiscard]] std::int32_t island_of(const Labels& labels);

/// Takes one pod of the shape off the room and says which devices it gets.
///
/// Order    whole devices: choose_devices(); a share: the first device with just `device_milli` free, and where none has
///          it the fullest device that still has room, then lowest index. MIG instances: those of the GPU with the fewest idle
///          ones, so that others may be cut anew, then lowest index.
/// Laws     asserts that the pod fits.
std::vector<DeviceRef> take(Room& room, const NodeName& node, const PodShape& shape, std::int32_t device_milli = 0);

/// With how many of its pods the set may run: all of them, or `min_count`, in whole slices.
[[nodiscard]] std::int32_t least_of(const PodSet& set);
/// Whether some set may run with fewer pods than it asks for.
[[nodiscard]] bool is_elastic(const std::vector<PodSet>& pod_sets);
/// The same sets with the least of each, and no fewer.
[[nodiscard]] std::vector<PodSet> least_of(std::vector<PodSet> pod_sets);

struct Plan {
  std::vector<Member> members;  ///< in order of set and index; of an elastic set the first so many ranks
};
struct Shortfall {
  std::string reason;  ///< computed: how many fit, and what is in the way of the rest
};
struct Placed {
  std::optional<Plan> plan;  ///< none = `shortfall` says why
  Shortfall shortfall;
};

/// Nodes among which somebody looks.
struct Part {
  std::string name;  ///< as words follow "outside"
  std::function<bool(const NodeName&, const NodeFacts&)> has;
};

class Preference;
class Shortlists;

/// Which GPUs work of a type is for where its pods name none: whole ones; or MIG instances and shares that count as GPUs first.
enum class GpuPool : std::uint8_t { kAny, kWhole, kSlices };
/// What the node counts as GPUs are shares of them, or MIG instances.
[[nodiscard]] bool in_slices(const NodeFacts& facts);

/// Shortlists of all rooms (shortlists.hpp), for work of this type, see Room::types, on GPUs of this pool.
struct Kept {
  Shortlists& lists;
  std::uint32_t type = 0;
  GpuPool pool = GpuPool::kAny;
};

/// What of a neighbourhood is changed by pods of the gang on other nodes, too: for all nodes at once, by number. Good until the next pod is taken.
class Shifting {
 public:
  virtual ~Shifting() = default;
  [[nodiscard]] virtual rules::NodeIndex number(const NodeName& node, const Room& room) const = 0;
  /// Nodes that let one more pod of the set in.
  [[nodiscard]] virtual const rules::NodeSet& open(std::size_t set) const = 0;
  /// What the set's soft rules make of the open ones, by number: more is better. Null where it is the same of all.
  [[nodiscard]] virtual const std::vector<std::int64_t>* worth(std::size_t set) const = 0;
};

/// What the pods of a gang ask of whoever runs beside them, and others of them, while it is placed. Pod sets go by position, nodes by name
/// and the room that they have now.
class Neighbourhood {
 public:
  virtual ~Neighbourhood() = default;
  /// Whether a pod of the set changes where the next of it may go: then they are placed one by one.
  [[nodiscard]] virtual bool one_by_one(std::size_t set) const = 0;
  /// Whether the node lets a pod of the set in by all that pods of the gang on other nodes do not change.
  [[nodiscard]] virtual bool suits(std::size_t set, const NodeName& node, const Room& room) const = 0;
  /// What they do change; null = nothing.
  [[nodiscard]] virtual const Shifting* shifting(std::size_t set) const = 0;
  [[nodiscard]] bool admits(std::size_t set, const NodeName& node, const Room& room) const {
    if (!suits(set, node, room)) return false;
    const Shifting* shifts = shifting(set);
    return shifts == nullptr || shifts->open(set).contains(shifts->number(node, room));
  }
  /// How many pods of the set the node may take one after another, as far as it admits any.
  [[nodiscard]] virtual std::int64_t most(std::size_t /*set*/, const NodeName& /*node*/) const {
    return std::numeric_limits<std::int32_t>::max();
  }
  /// Empty = admitted; otherwise why not, as words that follow a number of nodes ("3 nodes ...").
  [[nodiscard]] virtual std::string rejects(std::size_t set, const NodeName& node, const Room& room) const = 0;
  /// Whether the node holds data that the set's pods will read: it goes before others that are as good.
  [[nodiscard]] virtual bool has_data(std::size_t set, const Room& room) const = 0;
  /// One more pod of the set is on the node, as long as this lives.
  virtual void take(std::size_t set, const NodeName& node) = 0;
};

/// What of an answer is wanted.
enum class Wanted : std::uint8_t {
  kReason,   ///< the plan, or why there is none, which takes a look at all nodes
  kPlan,     ///< a shortfall has no reason
  kWhether,  ///< nor has the plan all members: that there is one is all that it says
};

/// Picks nodes and devices for a whole gang, or says what is in the way. Where some sets are elastic: the least of every set first, then
/// of each of those as many as fit. Whoever wants all of them, where all fit, asks for all first.
///
/// Sketch   pod sets from the largest GPU demand to the smallest. Per set: while pods remain, a node that takes all
///          of them is preferred, the best by score (nodes that the gang already uses first); if none does, the node
///          that takes most. For one pod set this uses the fewest nodes there are, and fails only if no placement
///          exists. With several sets it is a heuristic: it may call Short what a search would fit. Pods with rules
///          about their neighbours go one by one, each to the node that its soft rules value most, then by score; that
///          is a heuristic, too.
/// Order    fewest nodes, then devices of one NVLink island, then the preference's score, then where data is, then node name: the same rooms and mix give the same plan.
/// Threads  any; reads only its arguments. Rooms are changed only where a plan is found.
/// Cost     O(sets * nodes * log nodes); a pod that goes by itself O(nodes / 64) more, or O(nodes) where soft rules tell nodes apart.
/// `beside`: null where nothing is known of the pods' rules.
///
/// `kept`: lists that are kept of these rooms, for pods whose neighbours do not matter but for their type. The answer is the same.
[[nodiscard]] Placed place_gang(const std::vector<PodSet>& pod_sets, Rooms& rooms, const Preference& preference,
                                Neighbourhood* beside = nullptr, const Kept* kept = nullptr,
                                Wanted wanted = Wanted::kReason);

}  // namespace qm::placement
