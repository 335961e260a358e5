#pragma once
#include "gang_clock.hpp"
#include "object_store.hpp"
#include "text.hpp"
#include "world.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::fleet {

struct Device {
  int minor = 0;
  std::string uuid, pci_bus_id;
  std::string pod;                         ///< uid of the pod that holds it; empty = free
  int xid = 0;                             ///< the last one; the exporter never clears it
  bool healthy = true;                     ///< as the device plugin reports it to the kubelet
  double energy_mj = 0, nvlink_total = 0;  ///< counters, brought up to `counted`
  Instant counted{};
};

struct NodeState {
  std::string name, instance;
  InstanceType type;
  std::vector<Device> devices;
  std::set<std::string> pods;    ///< uids of pods that run here
  bool up = true;                ///< false: the instance is gone or failed
  Instant metrics_down_until{};  ///< the exporter does not answer until then
  std::string profile;           ///< MIG profile that all its GPUs are partitioned into, if any
  int instances = 0;             ///< of each GPU; 0 = whole GPUs
  bool layout_fails = false;     ///< mig-manager fails to apply the next layout
};

/// A pod that holds its devices.
struct PodState : GangClock::Rank {
  enum class Phase { kStarting, kRunning };
  std::string ns, name, node, container, owner, job, team;
  std::int64_t attempt = 0, run_s = 60, exit_code = 0;
  std::vector<int> devices;
  std::int64_t instances = 0;  ///< MIG instances that it holds
  double utilization = 0.9;    ///< share of tensor work while the gang makes progress
  Phase phase = Phase::kStarting;
  bool stopping = false, hung = false;
  std::optional<World::TimerId> end;
};

/// The nodes and their kubelets: which pods run where, on which devices, and how they end.
///
/// A booted instance registers a Node. A bound pod gets devices: those in its annotation, unless the kubelet decides
/// otherwise. It runs after two seconds, and makes steps while its whole gang runs. It ends after its number of
/// steps, by deletion with grace, with a failed GPU, or with its node. The history records all of this.
///
/// Threads  under the world's lock; acts in timers, soon after the change that it observed.
class Cluster {
 public:
  struct Options {
    double kubelet_differs = 0;  ///< share of pods that get other free devices than assigned
    Duration start_delay = std::chrono::seconds(2);
    Duration loss_detected = std::chrono::seconds(40);  ///< time until a failed node is reported
    Duration node_gone = std::chrono::seconds(5);       ///< time until the Node of a stopped instance is deleted
    Duration partial_gang = std::chrono::minutes(5);
    Duration layout_delay = std::chrono::seconds(20);  ///< time that mig-manager needs to repartition GPUs
  };
  Cluster(World& world, ObjectStore& store, Options options);

  [[nodiscard]] const NodeState* node(const std::string& name) const { return find_in(nodes_, name); }
  [[nodiscard]] NodeState* node(const std::string& name) { return find_in(nodes_, name); }
  [[nodiscard]] const std::map<std::string, NodeState>& nodes() const { return nodes_; }
  [[nodiscard]] const PodState* pod(const std::string& uid) const { return find_in(pods_, uid); }
  [[nodiscard]] const GangClock& gangs() const { return gangs_; }

  /// The rank's answer to a checkpoint order; 404 if it makes no checkpoints, 409 if it does not run.
  Answered<Json> checkpoint(const std::string& ns, const std::string& pod, const Json& order);

  // Faults: kNotFound for an unknown or dead node.
  Status xid(const std::string& node, int code, std::optional<int> gpu);
  Status lose_node(const std::string& node);
  Status heal_node(const std::string& node);  ///< as after a reboot: XIDs cleared, Ready again

  void heartbeat();                    ///< renews every live node's lease; called in steady time
  [[nodiscard]] Json summary() const;  ///< devices and utilization now, for /fleet/state

 private:
  // cluster_nodes.cpp
  void on_instance(const Instance& instance, InstanceEvent event);
  void boot(const Instance& instance);
  void take_down(const std::string& name);
  void remove_node(const std::string& name);
  void show_loss(const std::string& name);
  void show_devices(const NodeState& node);
  [[nodiscard]] std::vector<ObjectPtr> pods_on(const std::string& node) const;
  // cluster_mig.cpp
  void on_layout(const ObjectPtr& before, const ObjectPtr& after);
  void set_layout_label(const std::string& node, std::string_view state);
  void apply_layout(const std::string& node, const std::string& layout);
  // cluster_pods.cpp
  void on_change(const Kind& kind, const ObjectPtr& before, const ObjectPtr& after);
  void sync(const std::string& ns, const std::string& name, const std::string& uid);
  void accept(const Json& pod);
  void refuse_pod(const Json& pod, const std::string& resource, std::int64_t wanted, std::int64_t available);
  [[nodiscard]] std::vector<int> pick_devices(std::vector<int> free, const Json& pod, std::size_t wanted);
  void describe_gang(PodState& state, const Json& pod) const;
  void run(const std::string& uid);
  void finish(const std::string& uid, std::int64_t exit_code, std::string_view reason);
  void stop(const std::string& uid);
  void leave_gang(PodState& state, bool succeeded);
  void schedule(const std::string& gang);
  void watch_partial(const PodState& state);
  void end(const std::string& uid, std::string_view reason);
  void fail_lost(const ObjectPtr& pod);
  [[nodiscard]] std::int64_t step_of(const PodState& state) const;
  /// The step that all ranks of a gang save for the order with this fence: ranks of one training step agree on it.
  std::int64_t save_step(const PodState& state, const std::string& fence);
  void hold_drain(const std::string& node);

  World& world_;
  ObjectStore& store_;
  Options options_;
  const Kind& pods_kind_;
  const Kind& nodes_kind_;
  std::map<std::string, NodeState> nodes_;  // by name
  std::map<std::string, PodState> pods_;    // by uid
  std::map<std::string, int> gang_pods_;    // live pods of a gang
  std::set<std::string> partial_;           // gangs already watched
  GangClock gangs_;
  std::map<std::string, std::pair<std::string, std::int64_t>> saves_;  ///< gang -> fence of its last order, and step
  std::uint32_t next_pod_ip_ = 0;
};

/// GPUs, or instances, that the pod's containers request.
[[nodiscard]] std::int64_t gpus_wanted(const Json& pod_spec, std::string_view resource = words::kGpuResource);

}  // namespace qm::fleet
