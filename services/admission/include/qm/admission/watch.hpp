#pragma once
#include "qm/admission/watch/checkpoint_policies.hpp"
#include "qm/admission/watch/namespace_owners.hpp"
#include "qm/admission/watch/observed_jobs.hpp"
#include "qm/admission/watch/periodic.hpp"
#include "qm/admission/watch/pod_defaults.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/kube/client.hpp"
#include "qm/kube/config_feed.hpp"
#include "qm/kube/ownership.hpp"
#include "qm/service/host.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::admission {

/// Which jobs and pods admission handles, and which scheduler binds their pods.
struct WatchOptions {
  kube::Ownership* quota = nullptr;                 ///< null: Quartermaster owns every namespace
  kube::Ownership* binding = nullptr;               ///< null: Quartermaster binds pods that name its scheduler
  const CheckpointPolicies* checkpoints = nullptr;  ///< null: only annotations declare how ranks save
  bool placement = true;                            ///< false: no placement service; other schedulers bind all pods
  const PodDefaults* pod_defaults = nullptr;        ///< null: templates are counted without defaults
  bool pods_ready = false;                          ///< pod readiness is observed too
  ObservedJobs* observed = nullptr;                 ///< null: the executor reads each object that it unsuspends
};

/// Puts observations of a watch into the mailbox; blocks while it is full.
class Mailbox {
 public:
  explicit Mailbox(service::Host& host) : host_(host) {}
  void send(std::string name, std::string bytes, const std::string& key = {}, std::string trace_parent = {},
            service::Urgency urgency = service::Urgency::kNow);
  void stop() { stopping_ = true; }
  [[nodiscard]] service::Host& host() { return host_; }

 private:
  service::Host& host_;
  std::atomic<bool> stopping_{false};
};

/// Sends objects of one suspendable kind (Job, JobSet, PyTorchJob, ...) to the host as inputs: those that name a
/// queue or the Quartermaster scheduler, in namespaces whose quota Quartermaster owns. Changes are sent if the
/// engine could act on them. The first list is sent when it is complete, oldest job first, so that no job gets
/// quota before an older one is known. After each complete list it sends the existing uids, so that deletions
/// missed while down are detected. A job that was sent once is followed to its end, even if the namespace gets
/// another owner. A kind that is not served yet is retried periodically.
///
/// Threads  start and stop by one; callbacks on the informer's thread, which blocks while the mailbox is full.
class JobWatch {
 public:
  JobWatch(kube::Client& client, service::Host& host, WatchOptions options = {}, const std::string& kind = "Job");
  ~JobWatch();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return informer_.synced() || informer_.absent(); }
  /// Re-evaluates the skipped jobs. Call when an owner changes; any thread.
  void owners_changed();

 private:
  void changed(const Json& job, bool deleted);
  void offer(const Json& job);
  void offer_left();
  void synced_list();
  [[nodiscard]] bool taken(const std::string& uid);

  const config::WorkloadKind& kind_;
  WatchOptions options_;
  Mailbox mailbox_;
  std::mutex mutex_;
  NamespaceOwners owners_;
  std::map<std::string, std::string> known_;  ///< uid -> what was last sent for it
  std::map<std::string, Json> left_;          ///< uid -> job in a namespace of another owner, or with refused pods
  bool listed_ = false;                       ///< the first list is complete; until then jobs are held back in `left_`
  kube::Informer informer_;
};

/// Summary of a job as far as the engine could act on it; jobs of one summary are equivalent to it. Pod readiness
/// is included where it is awaited.
[[nodiscard]] std::string job_print(const Json& job, bool readiness = false);

/// Sends pods with the admission scheduling gate to the host: single pods, or groups. A group by the label
/// kueue.x-k8s.io/pod-group-name is complete when it has as many pods as its annotation
/// kueue.x-k8s.io/pod-group-total-count. A group by the annotation scheduling.k8s.io/group-name is complete when it has
/// minMember pods of that PodGroup of Volcano. Pods without the gate are ignored. The first list is sent when it is
/// complete, oldest group first. The PodGroup supplies the queue
/// or the priority class where its pods name none.
///
/// A step of a run (Argo Workflows, Tekton, Kubeflow Pipelines) is pending since the first known pod of its run
/// appeared. So a retried step keeps its queue position.
///
/// A PodGroup with minResources and a known queue is pending before any of its pods exists; its pods then belong to
/// that workload. After an eviction it is pending in the same way. Its phase is written: Pending while it is
/// pending, Inqueue once it has quota, at which controllers create its pods, then Running, and Completed. A
/// PodGroup without minResources is Inqueue at once, as in Volcano. One with an unsupported field gets the
/// condition Unschedulable. One that is part of a suspendable object is ignored.
///
/// Threads  as JobWatch; writes on its own thread.
class PodWatch {
 public:
  PodWatch(kube::Client& client, service::Host& host, WatchOptions options = {});
  ~PodWatch();
  void start();
  void stop();
  [[nodiscard]] bool synced() const {
    return informer_.synced() && (volcano_informer_.synced() || volcano_informer_.absent());
  }
  void owners_changed();
  /// One round of the loop of start(): re-evaluates groups without pods, and writes phases. Returns the number of
  /// writes.
  int write();

 private:
  struct Group {
    std::map<std::string, Json> pods;  ///< by uid
    std::string uid, print;            ///< as last sent; no uid = incomplete
    bool ungated = false;              ///< a pod of it was observed without the gate
    bool expected = false;             ///< last sent without its pods
    std::int64_t total = 0;            ///< number of pods when it was complete, if a PodGroup defines that
  };
  /// A PodGroup of Volcano.
  struct Gang {
    Json object, conditions;
    std::string uid, phase;
    bool whole = false;  ///< it is part of a suspendable object
    bool over = false;   ///< the workload of its uid has ended: later pods are another workload
  };
  void changed(const Json& pod, bool deleted);
  void group_changed(const Json& group, bool deleted);
  void update_group(const std::string& key, Group& group);
  void forget(Group& group, Gang* gang);
  void synced_list();
  void list_uids();
  // pod_groups.cpp
  struct Row;
  [[nodiscard]] bool groups_known() const { return groups_listed_ || volcano_informer_.absent(); }
  [[nodiscard]] Gang* gang_of(const std::string& key, const std::vector<const Json*>& pods);
  [[nodiscard]] std::optional<Row> row_of(const std::string& uid);
  [[nodiscard]] bool leads(const Gang& gang);
  [[nodiscard]] bool stays(const Group& group, const Gang& gang);
  [[nodiscard]] std::string uid_for(Gang* gang, const Json& oldest);
  bool update_without_pods(Gang& gang, Group& group);
  [[nodiscard]] std::string print_of_gang(const Gang& gang);
  [[nodiscard]] std::string wanted_phase(const Gang& gang);
  [[nodiscard]] Json wanted_conditions(const Gang& gang);
  void look_again();
  void update_oldest_first(std::vector<std::string> keys);

  WatchOptions options_;
  Mailbox mailbox_;
  NamespaceOwners owners_;
  kube::Client& client_;
  std::mutex mutex_;
  std::map<std::string, Group> groups_;
  std::map<std::string, Gang> volcano_;      ///< by "namespace/group"
  std::map<std::string, std::string> runs_;  ///< "namespace/run" -> when its first pod appeared
  bool pods_listed_ = false, groups_listed_ = false;
  bool list_due_ = false;  ///< pods were listed, and PodGroups were not yet
  std::string complained_;
  Periodic writer_;
  kube::Informer volcano_informer_, informer_;
};

/// Reads queues, cohorts, flavors, priority classes and namespace labels from the API server, and keeps those of the
/// engine equal, like a kube::ConfigFeed. An object that cannot be parsed gets an Event and, if its kind has a
/// status, a condition.
class ConfigWatch {
 public:
  ConfigWatch(kube::Client& client, service::Host& host);
  ~ConfigWatch();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return feed_.synced(); }  ///< each kind was listed, or is not served
  [[nodiscard]] static const std::vector<kube::ConfigFeed::Kind>& kinds();
  /// The resource of a kind that is served now; kNotFound while it is not.
  [[nodiscard]] Result<kube::Resource> resource(const std::string& kind) const { return feed_.resource(kind); }
  /// Objects of a kind whose newest version could not be parsed, and why.
  [[nodiscard]] std::map<kube::ConfigFeed::Key, std::string> refused(const std::string& kind) const {
    return feed_.refused(kind);
  }

 private:
  Mailbox mailbox_;
  kube::ConfigFeed feed_;
};

}  // namespace qm::admission
