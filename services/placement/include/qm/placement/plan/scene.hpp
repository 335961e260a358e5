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

/// A number for each gang that runs, in the order in which ties are decided.
using GangId = std::uint32_t;
/// Devices of a node, bit by index.
using Devices = std::uint16_t;
/// Millionths of a dollar: the one unit in which all costs of a plan are told.
using MicroUsd = std::int64_t;

/// For products of money and time.
__extension__ typedef __int128 Wide;

/// One pod on its node. A share has one device, whole pods as many as they ask for.
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

/// A device that is cut. Whole pods get no place on it, unless it may be made whole for them.
struct Cut {
  std::int32_t device = 0;
  mig::Family family = mig::Family::kSeven;
  mig::StateId layout = mig::StateTable::empty();
  mig::StateId used = mig::StateTable::empty();  ///< those instances that somebody has who is not lifted
  bool offered = false;                          ///< counts as idle for now, for nobody uses it
};

/// A gang that runs: what it asked for, where it is, and what is lost when it must go.
struct Gang {
  std::string name;
  std::int32_t priority = 0;
  gang::Request request;
  std::vector<Seat> seats;     ///< by set and rank
  std::vector<Slice> slices;   ///< that its pods have; their seats ask for no device
  Instant checkpoint;          ///< the last one, or when it began: work since then is lost when it stops
  Duration restart{};          ///< from its stop until it is where it was
  Instant stays_until;         ///< nobody displaces it before, by its minimum run time
  bool touchable = true;       ///< false: nobody displaces it ever
  bool movable = true;         ///< false: it may be evicted but not be put elsewhere by a plan
  bool evictable = true;       ///< false: it leaves only where a plan puts it elsewhere
  MicroUsd waiting_per_s = 0;  ///< what an hour in the queue costs its owner, by the second
};

/// Who holds what in a fleet. A gang's pods are on numbered devices, so what is free once some of them have left is known exactly.
///
/// Threads  one. Plans are found by trying: pods are lifted off their nodes and put back.
/// Memory   100 bytes a node and 16 a pod besides the fleet's own.
class Scene {
 public:
  /// The policy must outlive the scene.
  Scene(std::vector<std::string> levels, const pack::Policy& policy) : fleet_(std::move(levels), policy) {}

  /// `empty` is what the node has for gangs; its devices stand in the order of their indices.
  NodeId add_node(std::span<const std::string> path, std::string name, const pack::NodeState& empty);
  /// Asserts that there is room on the devices that its seats name.
  GangId add(Gang gang);
  void remove(GangId gang);
  /// The same gangs elsewhere: all leave before any comes.
  void move(std::map<GangId, std::vector<Seat>> gangs);
  /// Nothing is placed there any more. Who is there stays until removed or moved.
  void lose(NodeId node);
  /// The device is cut so from now on, or whole again. It must be idle, or nobody may have an instance that the layout has not.
  void cut(NodeId node, std::int32_t device, mig::Family family, mig::StateId layout);
  void make_whole(NodeId node, std::int32_t device);
  /// GPUs of the node can be cut like that.
  void can_be_cut(NodeId node, mig::Family family) { nodes_[node].family = family; }
  /// The node is kept for repairs; ordinary gangs get no place there.
  void keep_spare(NodeId node, bool spare);
  /// Who runs may change his mind: another checkpoint, another priority. Not its seats.
  Gang& at(GangId gang) { return *gangs_[gang]; }

  [[nodiscard]] gang::Fleet& fleet() { return fleet_; }
  [[nodiscard]] const gang::Tree& tree() const { return fleet_.tree(); }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  /// Numbers below it may be gangs.
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
  [[nodiscard]] const Cut* cut_of(NodeId node, std::int32_t device) const;  ///< null where it is whole
  /// Who has the instance and is not lifted.
  [[nodiscard]] std::optional<GangId> holder(const Slice& slice) const;
  /// Gangs with pods there, each once, by number; those that are lifted, too.
  [[nodiscard]] std::vector<GangId> on(NodeId node) const;
  /// Free now, by device index.
  [[nodiscard]] const std::array<std::uint16_t, pack::kMaxDevices>& devices(NodeId node) const {
    return nodes_[node].free;
  }
  /// What is free there now.
  [[nodiscard]] pack::NodeState state(NodeId node) const;

  /// Pods of the kind that the node takes now.
  [[nodiscard]] std::int32_t takes(NodeId node, const gang::Kind& kind, bool even_spare = false) const;
  /// Those that a pod of the class would take there now: the lowest idle ones, or for a share the fullest one. It must fit.
  [[nodiscard]] Devices devices_for(NodeId node, const pack::PodClass& pod) const;

  // ---- trying ----

  /// The gang's pods leave their nodes for now; sync() tells the fleet.
  void lift(GangId gang);
  void put_back(GangId gang);
  [[nodiscard]] bool lifted(GangId gang) const { return lifted_[gang] != 0; }
  /// One pod of a gang, for now.
  void lift(GangId gang, const Seat& seat) { change(gang, seat, -1); }
  void put_down(GangId gang, const Seat& seat) { change(gang, seat, 1); }
  /// The fleet sees what was lifted and put back.
  void sync();
  /// Gangs get no place on the node for now. False where that was so already.
  bool bar(NodeId node, bool barred);
  /// For now, devices whose instances nobody uses count as idle ones; who is seated there has them made whole.
  void offer_cut(bool offered);
  /// Seats on numbered devices for an answer of the fleet's: whole pods the lowest idle devices, a share the lowest that has as much free as
  /// was said. Nothing is taken.
  [[nodiscard]] std::vector<Seat> seats_for(const gang::Request& request, const gang::Answer& answer) const;
  /// Whether these pods could come there now, one with the others. Fails kAborted, with what is in the way.
  [[nodiscard]] Status has_room(const gang::Request& request, std::span<const Seat> seats, bool even_spare = false);
  /// What stands there counts as taken while a wish or a migrant is tried.
  void take(const gang::Request& request, std::span<const Seat> seats, std::int32_t sign = 1);

  /// Asserts that books and fleet are what the gangs' seats give from scratch.
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
  /// Nobody is there; a device that is cut and idle does not matter.
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
  std::vector<NodeId> stale_;  // that the fleet does not know yet
  std::vector<NodeId> cut_;    // nodes with devices that are or were cut
  bool offering_ = false;
};

/// The sets of a request in the order in which members number them.
[[nodiscard]] std::vector<gang::PodSet> sets_of(const gang::Request& request);
/// What the domains in use weigh, as gang::place() counts them with its usual weights.
[[nodiscard]] std::int64_t topology_cost(const gang::Tree& tree, std::span<const Seat> seats);

}  // namespace qm::placement::plan
