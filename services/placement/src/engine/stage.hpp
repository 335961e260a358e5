#pragma once
#include "engine/beside.hpp"
#include "engine/lift.hpp"
#include "qm/placement/engine.hpp"
#include "qm/placement/plan/plan.hpp"

#include <optional>

namespace qm::placement {

/// How somebody may leave his place for a workload that waits.
struct Engine::Leave {
  bool evicted = false;
  bool moved = false;  ///< to another place, which is kept for him
  [[nodiscard]] bool any() const { return evicted || moved; }
};

/// The nodes and those who may give way, as a scene in which it is searched for who does. Everybody else is part of the nodes.
///
/// Bounds   nodes with more than pack::kMaxDevices devices are left out, and so is whoever has pods there. Nodes are told apart by whom they let
///          in: behind the 47th such group by the wish's own pods alone, and then nobody moves there. Of pods that may move, the eight most common kinds.
/// Cost     O(nodes * (sets of the wish + kinds of pods that may move) + pods of those who may give way).
class Engine::Stage {
 public:
  Stage(const Engine& engine, const WorkloadUid& uid, std::map<AttemptId, Leave> candidates);
  ~Stage();

  /// Nothing where the workload names a level that there is not.
  [[nodiscard]] std::optional<plan::Plan> plan();
  struct Victim {
    AttemptId id;
    std::int64_t gpu_ms = 0, lost_micro_usd = 0;
    bool only_moves = false;  ///< it may not be evicted
    std::vector<HeldPlace> to;
  };
  [[nodiscard]] std::vector<Victim> leaving(const plan::Plan& found) const;
  [[nodiscard]] static std::set<AttemptId> ids(const std::vector<Victim>& victims);
  [[nodiscard]] bool still_holds(const Proposal& row);

 private:
  class Joint;
  void add_nodes();
  void add_gangs();
  void list_kinds();
  void keep_common_kinds();

  const Engine& engine_;
  WorkloadUid uid_;
  std::map<AttemptId, Leave> candidates_;
  Lift lift_;  // whoever may give way, and the room that is kept for them and for it
  Asked asked_;
  Mounted mounted_;
  std::vector<PodSet> kinds_;  // the wish's sets, then what those ask for who may move, each thing once
  std::vector<std::pair<std::uint32_t, GpuPool>> types_;  // of these
  std::map<AttemptId, std::vector<std::size_t>> asks_;    // of who may move, by pod set, which of these
  AskedGang gang_;
  plan::Scene scene_;
  std::unique_ptr<AskedGang> gates_;
  std::map<NodeName, plan::NodeId> numbers_;
  std::vector<NodeName> names_;  // by number
  std::vector<AttemptId> gangs_;
  std::vector<std::vector<std::int32_t>> positions_;  // by gang, of its pod sets as the scene numbers them
  plan::Wish wish_;
  plan::Terms terms_;
  bool valid_ = false;
};

}  // namespace qm::placement
