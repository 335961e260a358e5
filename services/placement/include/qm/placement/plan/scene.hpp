#pragma once
#include "qm/base/time.hpp"
#include "qm/placement/gang/request.hpp"
#include "qm/placement/mig/table.hpp"

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
struct Seat {
  std::int32_t set = 0, rank = 0;  ///< as in gang::Member
  NodeId node = 0;
  Devices devices = 0;
  friend auto operator<=>(const Seat&, const Seat&) = default;
};

/// One MIG instance.
struct Slice {
  NodeId node = 0;
  std::int32_t device = 0;
  mig::SpotId spot = 0;
  friend auto operator<=>(const Slice&, const Slice&) = default;
};

/// A MIG-partitioned device. Pods that request whole devices do not fit it, unless the plan may unpartition
/// it.
struct Cut {
  std::int32_t device = 0;
  mig::Family family = mig::Family::kSeven;
  mig::StateId layout = mig::StateTable::empty();
  mig::StateId used = mig::StateTable::empty();  ///< instances in use by gangs that are not evicted hypothetically
  bool offered = false;                          ///< counts as idle for now, since no gang uses it
};

/// A running gang: its request, its seats, and its losses when it must leave.
struct Gang {
  std::string name;
  std::int32_t priority = 0;
  gang::Request request;
  std::vector<Seat> seats;     ///< by set and rank
  std::vector<Slice> slices;   ///< MIG instances of its pods; their seats have no devices
  Instant checkpoint;          ///< the last one, or its start: later work is lost when it stops
  Duration restart{};          ///< from its stop until it is back at its former progress
  Instant stays_until;         ///< it may not be displaced earlier, by its minimum run time
  bool touchable = true;       ///< false: it may never be displaced
  bool movable = true;         ///< false: a plan may evict it but not migrate it
  bool evictable = true;       ///< false: a plan may only migrate it
  MicroUsd waiting_per_s = 0;  ///< price of a second in the queue to its owner
};

/// The allocation of a fleet for a search. Pods hold numbered devices, so the free capacity after
/// hypothetical evictions is exact.
///
/// Threads  one. The search applies hypothetical evictions and reverts them.
/// Memory   100 bytes a node and 16 a pod in addition to the fleet's own.
class Scene {
 public:
  /// The policy must outlive the scene.
  Scene(std::vector<std::string> levels, const pack::Policy& policy) : fleet_(std::move(levels), policy) {}

  /// `empty` is the capacity of the node for gangs, with devices in the order of their indexes.
  NodeId add_node(std::span<const std::string> path, std::string name, const pack::NodeState& empty);
  /// Asserts that its seats fit their devices.
  GangId add(Gang gang);
  void remove(GangId gang);
  /// Moves gangs to other seats: all leave before any arrives.
  void move(std::map<GangId, std::vector<Seat>> gangs);
  /// Nothing is placed on the node any more. Gangs on it stay until removed or moved.
  void lose(NodeId node);
  /// Sets the MIG layout of a device that is idle, or whose used instances the layout contains.
  void cut(NodeId node, std::int32_t device, mig::Family family, mig::StateId layout);
  void make_whole(NodeId node, std::int32_t device);
  /// GPUs of the node can be partitioned like this family.
  void can_be_cut(NodeId node, mig::Family family) { nodes_[node].family = family; }
  /// Reserves the node for repairs; other gangs are not placed there.
  void keep_spare(NodeId node, bool spare);
  /// A running gang may change: a newer checkpoint, another priority. Not its seats.
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
  [[nodiscard]] bool lost(NodeId node) const { return nodes_[node].lost; }
  [[nodiscard]] bool spare(NodeId node) const { return nodes_[node].spare; }
  [[nodiscard]] const pack::NodeState& empty(NodeId node) const { return nodes_[node].empty; }
  [[nodiscard]] std::optional<mig::Family> family(NodeId node) const { return nodes_[node].family; }
  [[nodiscard]] std::span<const Cut> cuts(NodeId node) const { return nodes_[node].cuts; }
  [[nodiscard]] const Cut* cut_of(NodeId node, std::int32_t device) const;  ///< null if it is whole
  /// The gang that holds the instance, unless it is evicted hypothetically.
  [[nodiscard]] std::optional<GangId> holder(const Slice& slice) const;
  /// Gangs with pods on the node, each once, by number; including hypothetically evicted ones.
  [[nodiscard]] std::vector<GangId> on(NodeId node) const;
  /// Free milli by device index.
  [[nodiscard]] const std::array<std::uint16_t, pack::kMaxDevices>& devices(NodeId node) const {
    return nodes_[node].free;
  }
  /// Free capacity of the node.
  [[nodiscard]] pack::NodeState state(NodeId node) const;

  /// Pods of the kind that fit the node now.
  [[nodiscard]] std::int32_t takes(NodeId node, const gang::Kind& kind, bool even_spare = false) const;
  /// Devices that a pod of the class would get there now: the lowest idle ones, or for a share the fullest
  /// one. It must fit.
  [[nodiscard]] Devices devices_for(NodeId node, const pack::PodClass& pod) const;

  // ---- hypothetical changes ----

  /// Hypothetically evicts the gang's pods; sync() updates the fleet.
  void lift(GangId gang);
  void put_back(GangId gang);
  [[nodiscard]] bool lifted(GangId gang) const { return lifted_[gang] != 0; }
  /// The same for one pod of a gang.
  void lift(GangId gang, const Seat& seat) { change(gang, seat, -1); }
  void put_down(GangId gang, const Seat& seat) { change(gang, seat, 1); }
  /// Updates the fleet with the hypothetical changes.
  void sync();
  /// Excludes the node temporarily. False if it was excluded already.
  bool bar(NodeId node, bool barred);
  /// Temporarily counts partitioned devices without used instances as idle; a gang that gets one has it made
  /// whole.
  void offer_cut(bool offered);
  /// Seats on numbered devices for an answer of the fleet: for whole devices the lowest idle ones, for a
  /// share the lowest device with exactly the free milli of the answer. Nothing is booked.
  [[nodiscard]] std::vector<Seat> seats_for(const gang::Request& request, const gang::Answer& answer) const;
  /// Whether these pods fit there now, all together. Fails kAborted, with the reason.
  [[nodiscard]] Status has_room(const gang::Request& request, std::span<const Seat> seats, bool even_spare = false);
  /// Temporarily books these seats while the preemptor or a migration is tried.
  void take(const gang::Request& request, std::span<const Seat> seats, std::int32_t sign = 1);

  /// Asserts that all counters and the fleet match a recount from the gangs' seats.
  void audit();

 private:
  struct Node {
    pack::NodeState empty;
    std::array<std::uint16_t, pack::kMaxDevices> free{};
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    std::int32_t pods = 0;
    std::array<std::uint8_t, pack::kMaxDevices + 1> kinds{};  // pods of each bit of NodeState::kinds
    std::int16_t owners = 0;                                  // pods of exclusive gangs
    bool lost = false, spare = false, barred = false, stale = false;
    std::vector<GangId> tenants;  // one for each pod
    std::optional<mig::Family> family;
    std::vector<Cut> cuts;
  };
  void change(GangId gang, const Seat& seat, std::int32_t sign);
  void change(const pack::PodClass& pod, bool exclusive, const Seat& seat, std::int32_t sign);
  void change(const Slice& slice, bool used);
  /// No pods are on the node; a partitioned idle device does not matter.
  [[nodiscard]] bool vacant(NodeId node) const;
  void offer(NodeId node, Cut& cut);
  Cut& cut_at(NodeId node, std::int32_t device);
  void touch(NodeId node);
  void tell(NodeId node);
  void enlist(GangId gang);
  void strike(GangId gang);

  gang::Fleet fleet_;
  std::vector<Node> nodes_;
  std::vector<std::optional<Gang>> gangs_;
  std::vector<std::vector<pack::PodClass>> sets_;  // by gang
  std::vector<std::int64_t> gpu_milli_;
  std::vector<std::uint8_t> lifted_;
  std::vector<NodeId> stale_;  // not yet updated in the fleet
  std::vector<NodeId> cut_;    // nodes with devices that are or were partitioned
  bool offering_ = false;
};

/// The sets of a request in the order of Member::set.
[[nodiscard]] std::vector<gang::PodSet> sets_of(const gang::Request& request);
/// Weight of the domains in use, with the default weights of gang::place().
[[nodiscard]] std::int64_t topology_cost(const gang::Tree& tree, std::span<const Seat> seats);

}  // namespace qm::placement::plan
