#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/allocator/gang_request_builder.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"
#include "qm/placement/plan/cluster_model.hpp"

namespace qm::placement {

/// Hypothetical evictions: the nodes without these attempts, and the attempts as gangs of a cluster model.
///
/// Bounds   an attempt with pods on nodes with more than pack::kMaxDevices devices, or on devices that other
///          pods use beyond their share, stays in place and is not among attempts().
class HypotheticalEvictions {
 public:
  /// Also releases the capacity held for these workloads, and for migrations that are not requested yet.
  HypotheticalEvictions(const State& state, const Capacities& capacities, std::set<AttemptId> attempts,
                        std::set<WorkloadUid> holds);

  [[nodiscard]] const std::set<AttemptId>& attempts() const { return hypothetical_.attempts; }
  [[nodiscard]] bool touches(const NodeName& node) const { return there_.contains(node); }
  [[nodiscard]] NodeCapacity capacity(const NodeName& node) const;
  /// In the format of the cluster model: devices by index.
  [[nodiscard]] static pack::NodeState state_of(const NodeCapacity& capacity, const Preference& preference);
  /// Its seats and the cost of its eviction. Its request has only its pods, without constraints.
  [[nodiscard]] plan::Gang gang(const AttemptId& id, const std::map<NodeName, plan::NodeId>& numbers) const;

  /// Places every migrated gang of the step on its chosen nodes by the engine's own placement, each with the
  /// earlier ones in place. The gangs are evicted hypothetically, too. False if one does not fit.
  [[nodiscard]] static bool seat(const State& state, const Capacities& capacities, const Allocator& allocator,
                                 DefragStep& step, HypotheticalState& hypothetical, FreeCapacity& free_capacity);
  /// Start of the work that would be lost.
  [[nodiscard]] static Instant work_since(const Tables& tables, const AttemptId& id);

 private:
  void drop_misfits();

  const State& state_;
  const Capacities& capacities_;
  HypotheticalState hypothetical_;
  std::map<NodeName, std::vector<MemberRef>> there_;  // members of the attempts
};

[[nodiscard]] plan::Devices mask_of(const std::vector<DeviceRef>& devices);
/// The inverse of mask_of(); `milli` of each device.
[[nodiscard]] std::vector<DeviceRef> devices_in(const NodeName& node, plan::Devices mask, std::int32_t milli);
/// Held capacity for planned members.
[[nodiscard]] std::vector<HeldCapacity> places_of(const std::vector<Member>& members);
/// GPU-milliseconds lost by its eviction.
[[nodiscard]] std::int64_t lost_gpu_ms(const plan::ClusterModel& model, plan::GangId gang, Instant now);

}  // namespace qm::placement
