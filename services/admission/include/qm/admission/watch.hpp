#pragma once
#include "qm/admission/checkpoint_policies.hpp"
#include "qm/admission/pod_defaults.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/kube/client.hpp"
#include "qm/kube/config_feed.hpp"
#include "qm/kube/ownership.hpp"
#include "qm/service/host.hpp"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace qm::admission {

/// What decides which jobs and pods are taken, and who binds their pods.
struct WatchOptions {
  kube::Ownership* quota = nullptr;                 ///< null: every namespace is ours
  kube::Ownership* binding = nullptr;               ///< null: pods that name our scheduler are bound by ours
  const CheckpointPolicies* checkpoints = nullptr;  ///< null: only annotations say how ranks save
  bool placement = true;                            ///< false: no placement service; whatever is admitted others bind
  const PodDefaults* pod_defaults = nullptr;        ///< null: templates are counted as they stand
  bool pods_ready = false;                          ///< whether pods are ready is looked at too
};

/// Puts what a watch saw into the mailbox, and waits while that is full.
class Mailbox {
 public:
  explicit Mailbox(service::Host& host) : host_(host) {}
  void send(std::string name, std::string bytes, const std::string& key = {}, std::string trace_parent = {});
  void stop() { stopping_ = true; }
  [[nodiscard]] service::Host& host() { return host_; }

 private:
  service::Host& host_;
  std::atomic<bool> stopping_{false};
};

/// Brings objects of one kind that is suspended as a whole (Job, JobSet, PyTorchJob, ...) to the host as inputs: those that
/// name a queue or our scheduler in a namespace whose quota is ours, and of their changes those that the engine could act on.
/// The first list is sent when it is complete, the oldest job first, so that no job gets quota before an older one is known.
/// After each complete list it says which exist, so that deletions missed while down are noticed. A job that was taken is
/// followed to its end, whoever owns the namespace then. A kind that is not served yet is looked for now and then.
///
/// Threads  start and stop by one; the callbacks run on the informer's thread, which waits while the mailbox is full.
class JobWatch {
 public:
  JobWatch(kube::Client& client, service::Host& host, WatchOptions options = {}, const std::string& kind = "Job");
  ~JobWatch();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return informer_.synced() || informer_.absent(); }
  /// Looks again at what was left alone. To be called when an owner changes; any thread.
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
  std::map<std::string, std::string> known_;  ///< uid -> what was last sent of it
  std::map<std::string, Json> left_;  ///< uid -> a job of a namespace that is not ours, or whose pods would be refused
  bool listed_ = false;               ///< the first list has ended; until then jobs are left
  kube::Informer informer_;
};

/// What the engine could act on in a job; two jobs of one print are the same to it. Readiness of its pods counts where that is
/// waited for.
[[nodiscard]] std::string job_print(const Json& job, bool readiness = false);

/// Brings pods with our scheduling gate to the host: each alone, or a group by the label kueue.x-k8s.io/pod-group-name
/// once as many exist as its annotation kueue.x-k8s.io/pod-group-total-count says, or by the annotation
/// scheduling.k8s.io/group-name once they are minMember of that PodGroup of Volcano. Pods without the gate are not ours. Where the
/// pods do not say queue or priority class themselves, the PodGroup does.
///
/// A step of a run (Argo Workflows, Tekton, Kubeflow Pipelines) waits since the first pod of its run came that is known here, so
/// that one tried anew keeps its place.
///
/// A PodGroup that says what it needs at least (minResources) and leads to a queue that is known here waits before any of its pods
/// exists, and its pods belong to that workload once they are there; whoever is evicted waits so again. Its phase is written: Pending
/// while it waits, Inqueue when it has what it needs, at which controllers make its pods, then Running, and Completed. One that
/// says nothing of the kind is Inqueue at once, as in Volcano. One with a field that is not supported has the condition Unschedulable. One that is part of an object that is let go as a whole is left alone.
///
/// Threads  as JobWatch; writes on its own.
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
  /// One round of what start() does again and again: looks at groups without pods again, and writes phases. How many were written.
  int write();

 private:
  struct Group {
    std::map<std::string, Json> pods;  ///< by uid
    std::string uid, print;            ///< as last sent; no uid = not whole yet
    bool let_go = false;               ///< a pod of it was seen without the gate
    bool to_come = false;              ///< last sent without its pods
    std::int64_t total = 0;            ///< pods that it was whole with, where a PodGroup says what that is
  };
  /// A PodGroup of Volcano's.
  struct Gang {
    Json object, conditions;
    std::string uid, phase;
    bool whole = false;  ///< it is part of an object that is let go as a whole
    bool over = false;   ///< the workload of its uid has ended: pods that come are another
  };
  void changed(const Json& pod, bool deleted);
  void group_changed(const Json& group, bool deleted);
  void settle(const std::string& key, Group& group);
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
  bool settle_without_pods(Gang& gang, Group& group);
  [[nodiscard]] std::string print_of_gang(const Gang& gang);
  [[nodiscard]] std::string wanted_phase(const Gang& gang);
  [[nodiscard]] Json wanted_conditions(const Gang& gang);
  void look_again();
  void run();

  WatchOptions options_;
  Mailbox mailbox_;
  kube::Client& client_;
  std::mutex mutex_;
  std::map<std::string, Group> groups_;
  std::map<std::string, Gang> volcano_;      ///< by "namespace/group"
  std::map<std::string, std::string> runs_;  ///< "namespace/run" -> when the first of its pods came
  bool pods_listed_ = false, groups_listed_ = false;
  bool list_due_ = false;  ///< pods were listed, and PodGroups were not yet
  std::string complained_;
  std::mutex sleep_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
  kube::Informer volcano_informer_, informer_;
};

/// Reads queues, cohorts, flavors, priority classes, and the labels of namespaces, from the API server and keeps the engine's the same, as a
/// kube::ConfigFeed does. An object that cannot be read gets an Event and, where its kind has a status, a condition.
class ConfigWatch {
 public:
  ConfigWatch(kube::Client& client, service::Host& host);
  ~ConfigWatch();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return feed_.synced(); }  ///< each kind was listed, or is not served
  [[nodiscard]] static const std::vector<kube::ConfigFeed::Kind>& kinds();
  /// Where a kind is served now; kNotFound while it is not.
  [[nodiscard]] Result<kube::Resource> resource(const std::string& kind) const { return feed_.resource(kind); }
  /// Objects of a kind whose newest version could not be read, and why.
  [[nodiscard]] std::map<kube::ConfigFeed::Key, std::string> refused(const std::string& kind) const {
    return feed_.refused(kind);
  }

 private:
  Mailbox mailbox_;
  kube::ConfigFeed feed_;
};

}  // namespace qm::admission
