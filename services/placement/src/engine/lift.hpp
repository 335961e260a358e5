#pragma once
#include "engine/asked_gang.hpp"
#include "qm/placement/engine.hpp"
#include "qm/placement/plan/scene.hpp"

namespace qm::placement {

/// The nodes without some of those who run there, and these as gangs of a scene.
///
/// Bounds   who has pods on nodes with more than pack::kMaxDevices devices, or on devices of which others use a part that is not theirs, stays where he is: he is not
///          among attempts().
class Engine::Lift {
 public:
  /// Also without the room that is kept for these, and for moves that nobody was asked for yet.
  Lift(const Engine& engine, std::set<AttemptId> attempts, std::set<WorkloadUid> holds);

  [[nodiscard]] const std::set<AttemptId>& attempts() const { return lifted_.attempts; }
  [[nodiscard]] bool touches(const NodeName& node) const { return there_.contains(node); }
  [[nodiscard]] Room room(const NodeName& node) const;
  /// As the scene wants it: devices by their indexes.
  [[nodiscard]] static pack::NodeState state_of(const Room& room, const Preference& preference);
  /// Where it is and what its going would cost. Its request asks for nothing but its pods.
  [[nodiscard]] plan::Gang gang(const AttemptId& id, const std::map<NodeName, plan::NodeId>& numbers) const;

  /// Gives everybody who moves in the step his place by the decision as it would be, on the nodes that were chosen for him, in rooms in which those who came before
  /// have theirs; they are lifted, too. False where one finds none.
  [[nodiscard]] static bool seat(const Engine& engine, Winning& step, Lifted& lifted, Rooms& rooms);
  /// Since when its work would be lost.
  [[nodiscard]] static Instant work_since(const Engine& engine, const AttemptId& id);

 private:
  void drop_misfits();

  const Engine& engine_;
  Lifted lifted_;
  std::map<NodeName, std::vector<MemberRef>> there_;  // their members
};

[[nodiscard]] plan::Devices mask_of(const std::vector<DeviceRef>& devices);
/// The other way round; of each `milli` thousandths.
[[nodiscard]] std::vector<DeviceRef> devices_in(const NodeName& node, plan::Devices mask, std::int32_t milli);
/// What is kept for members that are to be.
[[nodiscard]] std::vector<HeldPlace> places_of(const std::vector<Member>& members);
/// GPU-milliseconds that are lost when it goes.
[[nodiscard]] std::int64_t lost_gpu_ms(const plan::Scene& scene, plan::GangId gang, Instant now);

}  // namespace qm::placement
