#pragma once
#include "qm/autoscaler/shell.hpp"
#include "qm/clock/clock.hpp"
#include "qm/kube/config_feed.hpp"
#include "qm/kube/ownership.hpp"

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

/// How the autoscaler stands to the other controllers of a cluster, from --set.
struct ClusterSettings {
  std::string scaling = "auto";  ///< owner where a namespace is silent: auto, quartermaster, karpenter, none, ...
  bool alone = false;            ///< observe=cluster: pods and nodes are read here, no other service speaks
  Driver driver = Driver::kEc2;  ///< driver=karpenter: machines are NodeClaims that somebody else makes
  static Result<ClusterSettings> parse(const std::map<std::string, std::string>& extra);
};

/// The NodePools there are: those of files, and those of the API server, which count where the names are the same.
///
/// Fails    a pool that cannot be read, or that a rule refuses, gets an Event `NotTaken`; it stays as it was.
class PoolWatch {
 public:
  struct Options {
    std::vector<Pool> files;
    bool groups = true;  ///< false: there is no AWS to ask, so a pool of an Auto Scaling group is refused
  };
  PoolWatch(kube::Client& client, Options options);
  void start() { feed_.start(); }
  void stop() { feed_.stop(); }
  [[nodiscard]] bool synced() const { return feed_.synced(); }
  /// All of them; nullopt until everything was listed, since a pool that is not told of is one that has gone.
  [[nodiscard]] std::optional<std::vector<Pool>> pools() const;

 private:
  Status take(const Json& object);
  [[nodiscard]] std::map<std::string, Pool> merged() const;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::string, Pool> seen_;
  kube::ConfigFeed feed_;
};

/// NodeClaims that others turn into machines, as the look at the cloud would tell of their instances.
class ClaimWatch {
 public:
  /// `shard`: claims of other owners are only reported.
  ClaimWatch(kube::Client& client, const DomainClock& clock, std::string shard, std::function<void()> on_change);
  void start() { informer_.start(); }
  void stop() { informer_.stop(); }
  [[nodiscard]] bool synced() const { return informer_.synced() || informer_.absent(); }
  /// nullopt until they were listed.
  [[nodiscard]] std::optional<std::vector<Json>> machines();
  /// Claims of ours that were deleted before they had a machine, each once.
  [[nodiscard]] std::vector<std::string> lost();

 private:
  void changed(const Json& claim, bool deleted);
  const DomainClock& clock_;
  const std::string shard_;
  const std::function<void()> on_change_;
  std::mutex mutex_;
  std::map<std::string, Json> machines_;  ///< by instance
  std::vector<std::string> lost_;
  kube::Informer informer_;
};

/// Pods that a scheduler found no room for, and nodes with what holds them, for a cluster where no service of ours
/// places. Pods of one group (as docs/adoption.md names them) are one gang once as many are there as it needs.
///
/// A cordon is told only after a second, and after the API server was asked once more which pods are there: a scheduler
/// that had not seen it yet may have bound one.
class PodObserver {
 public:
  PodObserver(kube::Client& client, const DomainClock& clock, std::function<void()> on_new_node = {});
  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  /// What the engine knew of nodes before a restart: how long they are empty.
  void restore(const Tables& tables);
  /// Inputs for what has changed since the last call, nodes first: who got a place does not leave an empty node behind.
  [[nodiscard]] std::vector<service::Input> changes();
  /// "pod research/train-0"; empty where nothing is known of the uid.
  [[nodiscard]] std::string subject(const std::string& uid) const;

 private:
  struct Pod {
    std::string ns, name, node, group;
    bool works = false, waits = false;
    std::int64_t size = 0;  ///< of its group, where it says so
    PodShape shape;
    std::int32_t priority = 0;
    Instant since{};
  };
  struct Node {
    std::string instance, drain, told;
    bool there = false, ready = false, cordoned = false, confirmed = false;
    std::optional<Instant> empty_since;
    SteadyInstant looked{};  ///< at a cordoned node, or when its cordon was seen
    std::set<std::string> pods;
    std::int64_t late = 0;  ///< pods that only the second look has shown
  };
  void on_pod(const Json& pod, bool deleted);
  void on_node(const Json& node, bool deleted);
  void on_group(const Json& group, bool deleted);
  void leave(const std::string& uid);
  void confirm_cordons();
  [[nodiscard]] std::vector<DemandHeard::Item> waiting() const;

  kube::Client& client_;
  const DomainClock& clock_;
  const std::function<void()> on_new_node_;
  mutable std::mutex mutex_;
  std::map<std::string, Pod> pods_;
  std::map<std::string, Node> nodes_;
  std::map<std::string, std::int64_t> sizes_;  ///< "namespace/group" -> minMember
  std::optional<std::string> told_;            ///< the demand as it was told last
  kube::Informer pod_informer_, node_informer_, volcano_informer_, group_informer_;
};

/// Everything that the autoscaler reads from the API server, and how it gets to the engine.
class Cluster {
 public:
  struct Options {
    ClusterSettings settings;
    PoolWatch::Options pools;
    std::string shard;
    std::function<void()> on_machines;  ///< NodeClaims have changed, or a node has come: look
  };
  Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, Options options);
  ~Cluster();
  /// Between the host's open and its start: nothing is ours before it is known who else is at work.
  static Status begin(service::Host& host);
  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  /// For CloudWatch, where NodeClaims are left to others.
  [[nodiscard]] std::optional<std::vector<Json>> machines() { return claims_->machines(); }

 private:
  void run(const std::stop_token& stop);
  void tell(service::Input input, const std::stop_token& stop);
  void tell_owners(const std::stop_token& stop);
  void report();

  service::Host& host_;
  const Options options_;
  kube::Ownership scaling_;
  PoolWatch pools_;
  std::unique_ptr<ClaimWatch> claims_;
  std::unique_ptr<PodObserver> observer_;
  std::string told_owners_, told_pools_;
  std::jthread thread_;
};

}  // namespace qm::autoscaler
