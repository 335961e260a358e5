#pragma once
#include "qm/model/money.hpp"
#include "qm/model/resources.hpp"

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace qm::autoscaler {

enum class Market { kOnDemand, kSpot };
[[nodiscard]] constexpr std::string_view name_of(Market m) { return m == Market::kSpot ? "spot" : "on-demand"; }

/// What a pool's nodes may have as the value of one label, by its requirements on the key together.
struct LabelRule {
  std::string key;
  bool listed = false;                            ///< one of `values`; else any but those
  std::vector<std::string> values;                ///< sorted
  std::optional<std::int64_t> at_least, at_most;  ///< then it is a whole number within
  bool required = false;                          ///< false: a node may be without it
  bool absent = false;                            ///< no node has it
  friend auto operator<=>(const LabelRule&, const LabelRule&) = default;
};
[[nodiscard]] bool allows(const LabelRule& rule, const std::string& value);
/// The value of a node for which nothing asks for one: the lowest that is allowed. None where it may be, or has to be, without.
[[nodiscard]] std::optional<std::string> lowest(const LabelRule& rule);

/// A Karpenter NodePool as the engine needs it: what may be launched, how much of it, and when it goes again.
struct Pool {
  std::string name;
  std::int32_t weight = 0;                  ///< higher is tried first
  std::vector<std::string> instance_types;  ///< allowed, sorted; from the requirements, known types only
  std::vector<Market> markets;              ///< allowed
  std::vector<std::string> zones;           ///< allowed; empty = any
  std::vector<std::string> not_zones;       ///< excluded where any other is allowed, sorted
  Labels labels;
  std::vector<Taint> taints;
  std::int64_t limit_gpus = -1;  ///< of all its nodes together; -1 = no limit
  std::int64_t limit_cpu_milli = -1;
  std::int64_t limit_memory_bytes = -1;
  bool consolidate_empty = true;
  Duration consolidate_after{0};  ///< an empty node goes after so long
  std::string group;              ///< the Auto Scaling group that makes its machines; empty = we do
  std::string node_class;         ///< the EC2NodeClass of its NodeClaims
  std::vector<LabelRule> rules;   ///< for the user's own labels, by key
  std::int64_t limit_nodes = -1;  ///< -1 = no limit
  std::int64_t replicas = -1;     ///< static: so many machines whatever the demand; -1 = as the demand is
  [[nodiscard]] bool is_static() const { return replicas >= 0; }
  friend auto operator<=>(const Pool&, const Pool&) = default;
};

/// One row of the catalog: what a machine of this type offers to pods, and what it costs on demand.
struct InstanceType {
  std::string name;
  std::int64_t gpus = 0;
  std::string gpu_product;                       ///< the value of nvidia.com/gpu.product on its node
  std::int64_t cpu_milli = 0, memory_bytes = 0;  ///< allocatable, after what the kubelet keeps
  HourlyRate on_demand;
  friend auto operator<=>(const InstanceType&, const InstanceType&) = default;
};

// ---- what may happen ----

struct Tick {};
/// All NodePools there are: a pool that is missing here is gone, and its machines go when they are empty.
struct PoolsApplied {
  std::vector<Pool> pools;
};
/// Placement's demand list, always whole: gangs that have quota and no room.
struct DemandHeard {
  struct Item {
    AttemptId id;
    std::vector<PodSet> pod_sets;
    std::int32_t priority = 0;
    Instant since{};
    std::string ns = {};  ///< where it is said; else the workload's own event says
    bool runs = false;    ///< pods of a gang that runs without them: they come after pending gangs, as many as can be had
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  std::vector<Item> items;
};
/// One instance as the cloud describes it.
struct InstanceFact {
  InstanceId id;
  ClaimName claim;   ///< its tag; empty = none
  std::string pool;  ///< its tag; empty where no autoscaler of this cluster made it
  std::string type, zone;
  Market market = Market::kOnDemand;
  NodeName node;  ///< private DNS name
  Instant launched{};
  std::optional<Instant> stopped;  ///< shutting-down or terminated
  std::string group;               ///< the Auto Scaling group that made it; empty = none
  friend auto operator<=>(const InstanceFact&, const InstanceFact&) = default;
};
/// A complete description of the cloud's instances. One that is missing is only held for dead after a while: a cloud's
/// answers lag behind.
struct InstancesSeen {
  std::vector<InstanceFact> instances;
};
struct SpotPricesSeen {
  struct Quote {
    std::string type, zone;
    HourlyRate rate;
    Instant from{};
  };
  std::vector<Quote> quotes;
};
struct NodeHeard {
  NodeName node;
  bool ready = false, cordoned = false, gone = false;
  std::int32_t pods = 0;
  std::optional<Instant> empty_since;
  InstanceId instance;
};
struct AssignmentHeard {
  AttemptId id;
  bool live = false;            ///< reserved or bound; false = released, expired or short
  std::vector<NodeName> nodes;  ///< distinct, sorted
};
struct WorkloadHeard {
  WorkloadUid uid;
  std::int32_t attempt = 1;
  bool checkpoints = false;
  bool ended = false;
  std::string ns = {};
  std::string kind = {};
  std::string name = {};
};
struct SpotNoticeHeard {
  NodeName node;
  Instant at{};       ///< capacity is taken then
  bool over = false;  ///< the node it was for is gone
};
struct AckHeard {
  std::string order;
  NodeName node;
  std::int64_t step = 0;
  std::string uri;
  bool ok = false;
};
/// A device or node is faulty and placement drains it; an autoscaled node is given back when it is empty.
struct HealthHeard {
  NodeName node;
  bool broken = false;
};
struct LaunchEnded {
  ClaimName claim;
  InstanceId instance;  ///< empty = it failed
  std::string error;
};
struct TerminateEnded {
  ClaimName claim;
  std::string error;  ///< empty = done
  bool busy = false;  ///< nothing was ended: work had landed on it
};
/// An Auto Scaling group does not take the size that was asked for.
struct GroupRefused {
  std::string group;
  std::string error;
  std::int64_t granted = 0;  ///< machines that it has or makes all the same; the newest claims beyond them fail
};

/// Placement wants an attempt to save, and to go then; the node is what it is wanted for.
struct SaveAsked {
  AttemptId id;
  NodeName node;
  std::string reason;
  Instant until{};
  bool over = false;  ///< it is asked for no more, or to go at once
};

/// Who decides on machines for the work of each namespace, always whole. Before the first of it everything is ours.
struct OwnersHeard {
  struct Item {
    std::string ns;  ///< empty = wherever a namespace says nothing
    bool ours = true;
    std::string owner;  ///< "quartermaster", "karpenter", "none", ...
  };
  std::vector<Item> owners;
};

using Command = std::variant<Tick, PoolsApplied, DemandHeard, InstancesSeen, SpotPricesSeen, NodeHeard, AssignmentHeard,
                             WorkloadHeard, SpotNoticeHeard, AckHeard, HealthHeard, LaunchEnded, TerminateEnded,
                             GroupRefused, OwnersHeard, SaveAsked>;

}  // namespace qm::autoscaler
