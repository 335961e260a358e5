#pragma once
#include "engine/allocator/rule_book_constraints.hpp"
#include "engine/allocator/volume_limits.hpp"
#include "engine/disruption/hypothetical_evictions.hpp"
#include "engine/disruption/victims.hpp"
#include "qm/placement/plan/plan.hpp"

#include <optional>

namespace qm::placement {

/// The preemption problem of a workload: the nodes and victim candidates as a cluster model for a search. All other
/// pods are part of the nodes.
///
/// Bounds   nodes with more than pack::kMaxDevices devices are left out, and so are gangs with pods there.
///          Nodes are grouped by the pod sets that they admit: from the 49th group on only by the preemptor's
///          sets, and no gang migrates there. Of the pods that may migrate, the eight most common kinds.
/// Cost     O(nodes * (sets of the workload + kinds of pods that may migrate) + pods of the candidates).
class PreemptionProblem {
 public:
  PreemptionProblem(const State& state, const Allocator& allocator, const Capacities& capacities,
                    const WorkloadUid& uid, std::map<AttemptId, VictimOptions> candidates);
  ~PreemptionProblem();

  /// None if the workload names an unknown topology level.
  [[nodiscard]] std::optional<plan::Plan> plan();
  struct Victim {
    AttemptId id;
    std::int64_t gpu_ms = 0, lost_micro_usd = 0;
    bool migrate_only = false;  ///< it may not be evicted
    std::vector<HeldCapacity> to;
  };
  [[nodiscard]] std::vector<Victim> terminating(const plan::Plan& found) const;
  [[nodiscard]] static std::set<AttemptId> ids(const std::vector<Victim>& victims);
  [[nodiscard]] bool still_holds(const Proposal& row);

 private:
  class CandidateConstraints;
  void add_nodes();
  void add_gangs();
  void list_kinds();
  void keep_common_kinds();

  const State& state_;
  const Allocator& allocator_;
  WorkloadUid uid_;
  std::map<AttemptId, VictimOptions> candidates_;
  HypotheticalEvictions
      evictions_;  // hypothetical eviction of the candidates, and release of holds for them and for the preemptor
  PlacementRequest asked_;
  RequestWithVolumes mounted_;
  std::vector<PodSet> kinds_;  // sets of the preemptor, then distinct sets of the gangs that may migrate
  std::vector<std::pair<std::uint32_t, GpuPool>> types_;  // by kind
  std::map<AttemptId, std::vector<std::size_t>> asks_;    // kinds of a gang that may migrate, by pod set
  GangRequestBuilder gang_;
  plan::ClusterModel model_;
  std::unique_ptr<GangRequestBuilder> gates_;
  std::map<NodeName, plan::NodeId> numbers_;
  std::vector<NodeName> names_;  // by number
  std::vector<AttemptId> gangs_;
  std::vector<std::vector<std::int32_t>> positions_;  // by gang: its pod sets in the model's numbering
  plan::PendingGang pending_;
  plan::CostModel terms_;
  bool valid_ = false;
};

}  // namespace qm::placement
