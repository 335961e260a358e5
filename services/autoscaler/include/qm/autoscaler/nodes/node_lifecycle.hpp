#pragma once
#include "qm/autoscaler/condition_writer.hpp"
#include "qm/autoscaler/disrupt/conditions.hpp"
#include "qm/autoscaler/disrupt/drain.hpp"
#include "qm/autoscaler/engine.hpp"
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace qm::autoscaler {

/// The conditions of a claim, from the engine's rows.
[[nodiscard]] std::vector<Condition> claim_conditions(const Engine& engine, const Claim& claim);

/// The pod as the steps of a drain see it.
[[nodiscard]] DrainPod drain_pod_of(const Json& pod);

/// Brings the API server to what the engine has decided about claims: the status of NodeClaims, the taints and labels of
/// their nodes, and the eviction of pods from nodes that are emptied.
///
/// Level    each pass compares with the rows of the engine, so a lost or repeated call changes nothing. Unchanged
///          objects are not written.
/// Evicted  pods without a gang that the engine knows: gangs are evicted by admission after their checkpoint. A bare pod
///          ends with its eviction, and pods of DaemonSets stay. At the deadline of a drain all pods are deleted, each in
///          time for its own grace period; at that of a notice of the cloud all but those of gangs.
/// Errors   are logged; the next pass tries again. A pod that a PodDisruptionBudget protects is tried again.
/// Threads  start and stop by one; pass() by one, without start().
class NodeLifecycle {
 public:
  struct Options {
    bool writes_status = true;  ///< false: another controller launches instances, and owns the status and the taints
    Duration most_grace = std::chrono::minutes(10);  ///< of pods that leave a node of a group that is scaled down
    SteadyDuration period = std::chrono::seconds(1), drain_period = std::chrono::seconds(5);
  };
  /// Calls its argument with the engine, which does not change meanwhile.
  using ReadEngine = std::function<void(const std::function<void(const Engine&)>&)>;
  NodeLifecycle(kube::Client& client, ReadEngine read, const DomainClock& clock, Options options);
  ~NodeLifecycle();
  void start();
  void stop();
  void pass();

 private:
  struct Wanted {
    ClaimName claim;
    std::string node, image;
    std::vector<Condition> conditions;
    bool registers = false;               ///< its node still has the taint of an unregistered one
    Labels labels;                        ///< that its kubelet may not set; written once, as the node registers
    bool starts = false;                  ///< its node is not initialized yet
    std::string launched_for;             ///< while it starts: uids of workloads whose pods are planned on it
    bool initialized = false;             ///< its node gets the label
    std::optional<bool> disrupted_taint;  ///< if the node differs: whether it must have it
  };
  /// A node whose pods leave.
  struct Leaving {
    std::string node;
    std::optional<Instant> deadline;
    bool taken = false;           ///< by the cloud; otherwise other pods stay until the gangs have left
    bool scaled_down = false;     ///< of a group, by its utilization
    std::set<std::string> gangs;  ///< uids of workloads with pods there
  };
  [[nodiscard]] std::vector<Wanted> wanted() const;
  [[nodiscard]] std::vector<Leaving> leaving() const;
  void write_node(const Wanted& want);
  void drain(const Leaving& from);

  kube::Client& client_;
  const ReadEngine read_;
  const DomainClock& clock_;
  const Options options_;
  ConditionWriter status_;
  std::set<ClaimName> labeled_;                    ///< claims whose node has the label of an initialized one
  std::map<ClaimName, std::string> launched_for_;  ///< as written last
  std::map<std::string, SteadyInstant> drained_;   ///< last pass over a node
  std::jthread thread_;
};

}  // namespace qm::autoscaler
