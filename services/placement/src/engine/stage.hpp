#pragma once
#include "engine/beside.hpp"
#include "engine/lift.hpp"
#include "qm/placement/engine.hpp"
#include "qm/placement/plan/plan.hpp"

#include <optional>

namespace qm::placement {

/// The nodes and those who may give way, as a scene in which it is searched for who does. Everybody else is part of the nodes.
///
/// Bounds   nodes with more than pack::kMaxDevices devices are left out, and so is whoever has pods there.
/// Cost     O(nodes + pods of those who may give way).
class Engine::Stage {
 public:
  Stage(const Engine& engine, const WorkloadUid& uid, std::set<AttemptId> candidates);

  /// Nothing where the workload names a level that there is not.
  [[nodiscard]] std::optional<plan::Plan> plan();
  struct Victim {
    AttemptId id;
    std::int64_t gpu_ms = 0, lost_micro_usd = 0;
  };
  [[nodiscard]] std::vector<Victim> leaving(const plan::Plan& found) const;
  [[nodiscard]] static std::set<AttemptId> ids(const std::vector<Victim>& victims);
  [[nodiscard]] bool still_holds(const Proposal& row);

 private:
  void add_nodes();
  void add_gangs();

  const Engine& engine_;
  WorkloadUid uid_;
  Lift lift_;  // whoever may give way, and the room that is kept for it
  Asked asked_;
  Mounted mounted_;
  AskedGang gang_;
  plan::Scene scene_;
  std::map<NodeName, plan::NodeId> numbers_;
  std::vector<AttemptId> gangs_;
  plan::Wish wish_;
  plan::Terms terms_;
  bool valid_ = false;
};

}  // namespace qm::placement
