#pragma once
#include "qm/placement/commands.hpp"
#include "qm/placement/defrag_input.hpp"
#include "qm/placement/diagnosis.hpp"
#include "qm/placement/options.hpp"
#include "qm/placement/outline.hpp"
#include "qm/placement/placement_request.hpp"
#include "qm/placement/policy.hpp"

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace qm::placement {

/// Use of one device of a node.
struct DeviceUse {
  std::int32_t used_milli = 0;
  bool healthy = true;
  bool parted = false;            ///< a MIG instance of it is in use: it is not allocated as a whole
  std::vector<std::string> pods;  ///< "namespace/pod", or the attempt if no pod is known
};

/// What a node must advertise with the MIG layout of its label nvidia.com/mig.config.
struct PlannedLayout {
  mig::Capacity capacity;
  std::string unknown;  ///< why it cannot be determined
};

struct EngineParts;

/// Decides where gangs run: which nodes, which devices, and when these are released.
///
/// The engine stores observations (nodes, pods, workloads, verdicts) as received. After each batch it
/// evaluates everything affected from the tables alone. The order in which observations of different sources
/// arrive therefore does not matter.
///
/// Laws     no device is planned above 1000 milli; a gang that holds devices is complete; every member fits
///          its node when it is reserved; a device is released only when its pod is gone or has ended, or its
///          node is lost; an attempt is Released once, and only when it has no pod left. Asserted for
///          everything that a step changed; audit() checks all of it.
/// Time     `now` must not decrease. All timers are in wake_at.
/// Threads  one.
/// Cost     a placement reads the nodes that changed since the last request for such pods. With rules, claims
///          or a topology, and where nothing fits, it reads all nodes. Otherwise the cost of a step is
///          proportional to what it changes.
class Engine {
 public:
  using Command = placement::Command;
  using Output = placement::Output;

  explicit Engine(Options options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  Output step(std::span<const Command> batch, Instant now);
  void undo();
  void commit();
  [[nodiscard]] std::uint64_t digest() const;

  [[nodiscard]] const Tables& tables() const;
  /// For the repository: fill the tables with Table::restore, then call rebuild().
  [[nodiscard]] Tables& mutable_tables();
  void rebuild();

  /// The placement request for these pods. For a known workload it includes its type, its GPU pool and the
  /// rules of its pods.
  [[nodiscard]] PlacementRequest request_of(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// The placement that would be decided now; nothing is stored.
  [[nodiscard]] PlacementResult dry_run(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  [[nodiscard]] PlacementResult dry_run(const PlacementRequest& request, const WorkloadUid& uid = {}) const;
  /// Bandwidth of a placed or planned gang, and of alternative nodes that would fit it now: nearness.hpp.
  [[nodiscard]] std::vector<std::string> compared(const std::vector<PodSet>& pod_sets,
                                                  const std::vector<Member>& members) const;
  /// Constraints that prevent a placement of these pods now, and remedies; empty if they fit.
  [[nodiscard]] Diagnosis diagnose(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// The same on a fleet without pods: if not empty, the end of other pods does not help. Only shapes and
  /// topology of the pods count: rules about other pods, volumes and MIG layouts may change meanwhile. Empty
  /// for pods with MIG profiles.
  [[nodiscard]] Diagnosis diagnose_without_pods(const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::vector<DemandItem> demand() const;
  /// Its number of items, without making them.
  [[nodiscard]] std::size_t demand_size() const;
  /// Pending workloads whose pods fit. An item leaves the list when its attempt ends or it gets quota.
  [[nodiscard]] std::vector<RequeueItem> requeue() const;
  /// Nodes and pods as numbers, for calculations outside the engine. One pass over nodes, members and pending
  /// workloads.
  [[nodiscard]] Outline outline() const;
  /// Nodes and migration candidates, to compute a defragmentation plan outside the engine. Capacity held for
  /// `migrating` counts as free. One pass over nodes and members.
  [[nodiscard]] DefragInput defrag_input(const std::set<WorkloadUid>& migrating = {}) const;
  /// Whether the first lists of nodes and pods are complete.
  [[nodiscard]] bool synced() const;
  [[nodiscard]] std::vector<DeviceUse> devices_of(const NodeName& node) const;
  /// MIG layout of the node's GPUs: by its label if the node advertises what that layout has, else by what it
  /// advertises. None if the GPUs cannot be partitioned or their number is unknown.
  [[nodiscard]] std::optional<mig::NodeLayout> layout_of(const NodeName& node) const;
  /// What the node must advertise. None if the node has no such label.
  [[nodiscard]] std::optional<PlannedLayout> planned_of(const NodeName& node) const;
  /// "MIG_CAPACITY_MISMATCH: ..." if the node has long advertised other devices than its labeled layout has;
  /// else empty.
  [[nodiscard]] std::string layout_finding(const NodeName& node) const;
  /// MIG repartition for a workload that needs instances: nodes and progress, or why there is none. Empty if
  /// the workload needs no instances, has no quota, or repartitioning is off.
  [[nodiscard]] std::string repartition_status(const WorkloadUid& uid) const;
  /// Idle MIG instances by GPU and resource: those of the GPU's layout without those that pods hold.
  /// Instances of the attempts in `gone` count as idle.
  [[nodiscard]] NodeCapacity::Instances idle_instances(const NodeName& node,
                                                       const std::set<AttemptId>& gone = {}) const;
  /// Checks every law over the whole state, and the derived indexes against the tables. Aborts on a
  /// violation.
  void audit() const;

 private:
  std::unique_ptr<EngineParts> parts_;
  Instant undo_now_{};
};

}  // namespace qm::placement
