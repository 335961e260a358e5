#pragma once
#include "qm/autoscaler/capacity_objects.hpp"
#include "qm/autoscaler/group_watch.hpp"
#include "qm/autoscaler/node_groups.hpp"
#include "qm/autoscaler/nodes/node_lifecycle.hpp"
#include "qm/autoscaler/nodes/node_watch.hpp"
#include "qm/autoscaler/pool_status.hpp"
#include "qm/autoscaler/provisioning_watch.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/clock/clock.hpp"
#include "qm/kube/config_feed.hpp"
#include "qm/kube/ownership.hpp"
#include "qm/kube_objects/default_spread.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace qm::autoscaler {

/// The responsibilities of the autoscaler relative to other controllers of a cluster.
struct ClusterSettings {
  std::string scaling = "auto";   ///< owner if the namespace names none: auto, quartermaster, karpenter, none, ...
  bool alone = false;             ///< observe=cluster: pods and nodes are read here, no other service publishes them
  bool strict_min_values = true;  ///< min-values=strict: minValues of a NodePool are not relaxed
  Money node_price{};             ///< node-price: added to the price of each instance where launches are compared
  Driver driver = Driver::kEc2;   ///< driver=karpenter: another controller launches instances for NodeClaims
  /// default-spread: what the scheduler of the cluster applies to pods without constraints; with observe=cluster
  kube_objects::DefaultSpread default_spread = kube_objects::system_spread();
};

class HeldNodes;
class Nominator;
class PodSelectors;
class RunningNodes;

/// The NodePools: those of files, and those of the API server, which have precedence for equal names.
///
/// Fails    a pool that cannot be parsed, or that a rule refuses, gets an Event `NotAccepted`; its previous version
///          remains.
class PoolWatch {
 public:
  struct Options {
    std::vector<Pool> files;
    bool groups = true;  ///< false: there is no AWS client, so a pool with an Auto Scaling group is refused
  };
  PoolWatch(kube::Client& client, Options options);
  void start() { feed_.start(); }
  void stop() { feed_.stop(); }
  [[nodiscard]] bool synced() const { return feed_.synced(); }
  /// All of them; nullopt until everything was listed, because a pool that is missing here is deleted.
  [[nodiscard]] std::optional<std::vector<Pool>> pools() const;
  /// False for a pool that only a file has.
  [[nodiscard]] bool is_object(const std::string& pool) const;

 private:
  Status take(const Json& object);
  [[nodiscard]] std::map<std::string, Pool> merged() const;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::string, Pool> seen_;
  kube::ConfigFeed feed_;
};

/// The DaemonSets of the cluster, as pod sets with requests, node selector, required node affinity and tolerations: what
/// they use of a new node is not free for workloads.
class DaemonSetWatch {
 public:
  explicit DaemonSetWatch(kube::Client& client);
  void start() { informer_.start(); }
  void stop() { informer_.stop(); }
  /// nullopt until they were listed.
  [[nodiscard]] std::optional<std::vector<PodSet>> sets() const;

 private:
  void changed(const Json& object, bool deleted);
  mutable std::mutex mutex_;
  std::map<std::string, PodSet> sets_;  ///< by "namespace/name"
  kube::Informer informer_;
};
/// The pod set of a DaemonSet object; kInvalid if its requests or scheduling constraints cannot be read.
[[nodiscard]] Result<PodSet> daemon_set_from(const Json& object);

/// NodeClaims for which other controllers launch instances, in the format of the cloud's instances.
class ClaimWatch {
 public:
  /// `shard`: claims of other owners are only reported.
  ClaimWatch(kube::Client& client, const DomainClock& clock, std::string shard, std::function<void()> on_change);
  void start() { informer_.start(); }
  void stop() { informer_.stop(); }
  [[nodiscard]] bool synced() const { return informer_.synced() || informer_.absent(); }
  /// nullopt until they were listed.
  [[nodiscard]] std::optional<std::vector<Json>> listed_instances();
  /// Own claims that were deleted before they had an instance, each once.
  [[nodiscard]] std::vector<std::string> lost();

 private:
  void changed(const Json& claim, bool deleted);
  const DomainClock& clock_;
  const std::string shard_;
  const std::function<void()> on_change_;
  std::mutex mutex_;
  std::map<std::string, Json> node_claims_;  ///< by instance
  std::vector<std::string> lost_;
  kube::Informer informer_;
};

/// Pods that a scheduler found unschedulable, and nodes with their pods, for a cluster without
/// the placement service. Pods of one group (as in docs/adoption.md) are one gang once the required number of them
/// exists.
///
/// A cordon is published only after a second, and after the API server was queried again for the pods: a scheduler
/// that had not seen the cordon yet may have bound one.
class PodObserver {
 public:
  struct Options {
    SystemPods system_pods = SystemPods::kKeepNodes;
    kube_objects::DefaultSpread default_spread = {};  ///< of pods without constraints
  };
  PodObserver(kube::Client& client, const DomainClock& clock, std::function<void()> on_new_node, Options options);
  PodObserver(kube::Client& client, const DomainClock& clock, std::function<void()> on_new_node = {});
  ~PodObserver();
  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  /// Restores the state of nodes from before a restart: since when they are empty.
  void restore(const Tables& tables);
  /// Inputs for the changes since the last call, nodes first: a gang that got a place must not appear to leave an
  /// empty node.
  [[nodiscard]] std::vector<service::Input> changes();
  /// Sets the room of items on running nodes.
  void find_room(std::vector<DemandUpdated::Item>& items);
  /// For pending pods and the nodes of plans.
  [[nodiscard]] Nominator& nominator() { return *nominator_; }
  /// "pod research/train-0"; empty if the uid is not known.
  [[nodiscard]] std::string subject(const std::string& uid) const;

 private:
  struct Pod {
    std::string ns, name, node, group, type;
    bool works = false, waits = false;
    std::int64_t size = 0;  ///< of its group, if specified
    PodShape shape;
    std::string rules;
    Labels labels;                            ///< of one that is pending without constraints of topology spread
    std::string controller, controller_name;  ///< likewise
    std::int32_t priority = 0;
    Instant since{};
  };
  struct Node {
    std::string instance, drain, published;
    bool there = false, ready = false, cordoned = false, confirmed = false;
    std::optional<Instant> empty_since;
    SteadyInstant looked{};  ///< last read of a cordoned node, or when its cordon was seen
    std::set<std::string> pods;
    std::int64_t late = 0;  ///< pods that only the second read showed
  };
  void on_pod(const Json& pod, bool deleted);
  void on_node(const Json& node, bool deleted);
  void on_group(const Json& group, bool deleted);
  void leave(const std::string& uid);
  void confirm_cordons();
  [[nodiscard]] std::vector<DemandUpdated::Item> waiting();
  [[nodiscard]] std::string rules_of(const Pod& pod) const;

  kube::Client& client_;
  const DomainClock& clock_;
  const std::function<void()> on_new_node_;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::string, Pod> pods_;
  std::map<std::string, Node> nodes_;
  std::unique_ptr<RunningNodes> running_;
  std::unique_ptr<Nominator> nominator_;
  std::unique_ptr<PodSelectors> selectors_;    ///< if pods are spread by default with DoNotSchedule
  std::map<std::string, std::int64_t> sizes_;  ///< "namespace/group" -> minMember
  std::optional<std::string> published_;       ///< the last published demand
  kube::Informer pod_informer_, node_informer_, volcano_informer_, group_informer_;
};

/// Reads the API server for the autoscaler, and passes it to the engine.
class Cluster {
 public:
  struct Options {
    ClusterSettings settings;
    PoolWatch::Options pools;
    std::string shard;
    const NodeClassWatch* classes = nullptr;  ///< if set, a NodePool whose class is not ready is not used
    std::function<void()> on_node_claims;  ///< called when NodeClaims have changed, or a node was added: poll the cloud
    NodeGroupSettings groups;
    const PriorityWatch* priorities = nullptr;  ///< if set, pools are ranked by it
    const GroupWatch* discovered = nullptr;     ///< if set, its groups are pools
    bool node_pods = false;                     ///< the pods of each node are published: Options::needs_node_pods
  };
  Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, Options options);
  ~Cluster();
  /// Between the host's open and its start: nothing is owned before the activity of other controllers is known.
  static Status begin(service::Host& host);
  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  /// The metrics of nodes and pods, under the names of Karpenter.
  void export_metrics(metrics::Registry& registry) const;
  /// For CloudWatch, if other controllers handle NodeClaims.
  [[nodiscard]] std::optional<std::vector<Json>> listed_instances() { return claims_->listed_instances(); }

 private:
  void run(const std::stop_token& stop);
  void submit_input(service::Input input, const std::stop_token& stop);
  void publish_owners(const std::stop_token& stop);
  void publish_pools(const std::stop_token& stop);
  void publish_capacity_objects(const std::stop_token& stop);
  void add_room(std::vector<ProvisioningRequest>& requests);
  void write_status();
  void nominate();
  [[nodiscard]] bool add_discovered(std::vector<Pool>& pools) const;
  void report();

  service::Host& host_;
  const DomainClock& clock_;
  const Options options_;
  kube::Ownership scaling_;
  PoolWatch pools_;
  DaemonSetWatch daemon_sets_;
  NodeWatch nodes_;
  NodeLifecycle lifecycle_;
  OverlayWatch overlays_;
  BufferWatch buffers_;
  ProvisioningWatch provisioning_;
  PoolStatus pool_status_;
  std::map<std::string, PoolFaults> pool_faults_;
  std::string published_overlays_, published_buffers_, published_reservations_, published_provisioning_;
  std::unique_ptr<ClaimWatch> claims_;
  std::unique_ptr<PodObserver> observer_;
  std::unique_ptr<HeldNodes> held_;
  std::uint64_t decided_ = 0;  ///< batches of the host at the last pass of nominate()
  bool nominating_ = true;     ///< there were nominations or held nodes
  std::string published_owners_;
  std::optional<std::string> published_pools_;
  std::optional<std::string> published_daemon_sets_;
  std::jthread thread_;
};

}  // namespace qm::autoscaler
