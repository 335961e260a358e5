#pragma once
#include "qm/base/time.hpp"
#include "qm/placement/gang/request.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::placement::plan {

using gang::Domain;
using gang::Level;
using pack::NodeId;

/// A number for each running gang, in the order that breaks ties.
using GangId = std::uint32_t;
/// Devices of a node, one bit per index.
using Devices = std::uint16_t;
/// Millionths of a dollar: the unit of all costs of a plan.
using MicroUsd = std::int64_t;

/// For products of money and time.
__extension__ typedef __int128 Wide;

/// One pod on its node. A share has one device, other pods as many as they request.
struct PodPlacement {
  std::int32_t set = 0, rank = 0;  ///< as in gang::Member
  NodeId node = 0;
  Devices devices = 0;
  friend auto operator<=>(const PodPlacement&, const PodPlacement&) = default;
};

/// A running gang: its request, its placements, and its losses when it is displaced.
struct Gang {
  std::string name;
  std::int32_t priority = 0;
  gang::Request request;
  std::vector<PodPlacement> placements;  ///< by set and rank
  Instant checkpoint;                    ///< the last one, or its start: later work is lost when it stops
  Duration restart{};                    ///< from its stop until it is back at its former progress
  Instant min_runtime_until;             ///< it may not be displaced earlier, by its minimum run time
  bool preemptible = true;               ///< false: it may never be displaced
  bool movable = true;                   ///< false: a plan may evict it but not migrate it
  bool evictable = true;                 ///< false: a plan may only migrate it
  MicroUsd waiting_per_s = 0;            ///< price of a second in the queue to its owner
};

/// The allocation of a fleet for a search. Pods hold numbered devices, so the free capacity after
/// hypothetical evictions is exact.
///
/// Threads  one. The search applies hypothetical evictions and reverts them.
/// Memory   100 bytes a node and 16 a pod in addition to the fleet's own.
class ClusterModel {
 public:
  /// The policy must outlive the model.
  ClusterModel(std::vector<std::string> levels, const pack::Policy& policy) : fleet_(std::move(levels), policy) {}

  /// `empty` is the capacity of the node for gangs, with devices in the order of their indexes.
  NodeId add_node(std::span<const std::string> path, std::string name, const pack::NodeState& empty);
  /// Asserts that its placements fit their devices.
  GangId add(Gang gang);
  void remove(GangId gang);
  /// Moves gangs to other placements: all are removed before any is placed.
  void move(std::map<GangId, std::vector<PodPlacement>> gangs);
  /// No gang is placed on the node from now on. Gangs on it stay until they are removed or moved.
  void close(NodeId node);
  /// A running gang may change: a newer checkpoint, another priority. Not its placements.
  Gang& at(GangId gang) { return *gangs_[gang]; }

  [[nodiscard]] gang::Fleet& fleet() { return fleet_; }
  [[nodiscard]] const gang::Tree& tree() const { return fleet_.tree(); }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  /// Upper limit of gang numbers; not all of them are in use.
  [[nodiscard]] GangId gangs() const { return static_cast<GangId>(gangs_.size()); }
  [[nodiscard]] bool runs(GangId gang) const { return gang < gangs_.size() && gangs_[gang].has_value(); }
  [[nodiscard]] const Gang& gang(GangId gang) const { return *gangs_[gang]; }
  [[nodiscard]] const pack::PodClass& pod(GangId gang, std::int32_t set) const {
    return sets_[gang][static_cast<std::size_t>(set)];
  }
  [[nodiscard]] std::int64_t gpu_milli(GangId gang) const { return gpu_milli_[gang]; }  ///< of all its pods
  [[nodiscard]] bool closed(NodeId node) const { return nodes_[node].closed; }
  [[nodiscard]] const pack::NodeState& empty(NodeId node) const { return nodes_[node].empty; }
  /// Gangs with pods on the node, each once, by number; including hypothetically evicted ones.
  [[nodiscard]] std::vector<GangId> on(NodeId node) const;
  /// Free capacity of the node.
  [[nodiscard]] pack::NodeState state(NodeId node) const;

  /// Pods of the kind that fit the node now.
  [[nodiscard]] std::int32_t pods_that_fit(NodeId node, const gang::Kind& kind) const;
  /// Devices that a pod of the class would get there now: the lowest idle ones, or for a share the fullest
  /// one. It must fit.
  [[nodiscard]] Devices devices_for(NodeId node, const pack::PodClass& pod) const;

  // ---- hypothetical changes ----

  /// Applies the hypothetical eviction of all pods of the gang, and reverts it; sync() updates the fleet.
  void apply_eviction(GangId gang);
  void revert_eviction(GangId gang);
  /// Removes and adds one pod of a gang.
  void remove_pod(GangId gang, const PodPlacement& placement) { change(gang, placement, -1); }
  void add_pod(GangId gang, const PodPlacement& placement) { change(gang, placement, 1); }
  /// Updates the fleet with the hypothetical changes.
  void sync();
  /// Excludes the node temporarily. False if it was excluded already.
  bool exclude(NodeId node, bool excluded);
  /// Placements on numbered devices for an answer of the fleet: for whole devices the lowest idle ones, for a
  /// share the lowest device with exactly the free milli of the answer. Nothing is reserved.
  [[nodiscard]] std::vector<PodPlacement> placements_for(const gang::Request& request,
                                                         const gang::Answer& answer) const;
  /// Whether these pods fit there now, all together. Fails kAborted, with the reason.
  [[nodiscard]] Status has_capacity(const gang::Request& request, std::span<const PodPlacement> placements);
  /// Reserves these placements temporarily, while the preemptor or a migration is tried.
  void reserve(const gang::Request& request, std::span<const PodPlacement> placements);
  void unreserve(const gang::Request& request, std::span<const PodPlacement> placements);

  /// Asserts that all counters and the fleet match a recount from the placements of the gangs.
  void audit();

 private:
  struct Node {
    pack::NodeState empty;
    std::array<std::uint16_t, pack::kMaxDevices> free{};
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    std::int32_t pods = 0;
    std::array<std::uint8_t, pack::kMaxDevices + 1> kinds{};  // pods of each bit of NodeState::kinds
    std::int16_t owners = 0;                                  // pods of exclusive gangs
    bool closed = false, excluded = false, stale = false;
    std::vector<GangId> tenants;  // one for each pod
  };
  void change(GangId gang, const PodPlacement& placement, std::int32_t sign);
  void change(const pack::PodClass& pod, bool exclusive, const PodPlacement& placement, std::int32_t sign);
  void change(const gang::Request& request, std::span<const PodPlacement> placements, std::int32_t sign);
  void mark_stale(NodeId node);
  void update_fleet(NodeId node);
  void allocate(GangId gang);
  void release(GangId gang);

  gang::Fleet fleet_;
  std::vector<Node> nodes_;
  std::vector<std::optional<Gang>> gangs_;
  std::vector<std::vector<pack::PodClass>> sets_;  // by gang
  std::vector<std::int64_t> gpu_milli_;
  std::vector<std::uint8_t> evicted_;  // by gang: its hypothetical eviction is applied
  std::vector<NodeId> stale_;          // not yet updated in the fleet
};

/// The sets of a request in the order of Member::set.
[[nodiscard]] std::vector<gang::PodSet> sets_of(const gang::Request& request);
/// Weight of the domains in use, with the default weights of gang::place().
[[nodiscard]] std::int64_t topology_cost(const gang::Tree& tree, std::span<const PodPlacement> placements);

}  // namespace qm::placement::plan
