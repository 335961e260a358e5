#pragma once
#include "qm/admission/watch.hpp"
#include "qm/admission/watch/periodic.hpp"
#include "qm/admission/watch/pod_defaults.hpp"
#include "qm/admission/workload.hpp"
#include "qm/clock/clock.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace qm::admission {

struct MirrorOptions {
  bool mirrors = false;                     ///< --set workload-objects=true: other kinds get Workloads too
  std::chrono::milliseconds period{1'000};  ///< steady time between rounds of writing
  int most = 50;                            ///< writes per round; the rest is left for the next
};

/// Synchronizes Kueue's Workload objects in both directions. Workloads without an owner become workloads of the engine.
/// For suspendable objects a mirror is created where requested, and its spec follows its workload. Answers of admission
/// checks and `spec.active` are read from both. Statuses are written back, and `spec.active` = false where admission
/// deactivated a workload. Only namespaces whose quota Quartermaster owns are handled, so never together with
/// Kueue's own controller. Pods have no mirrors.
///
/// Writes   are merge patches with the version that was read, so a concurrent answer is never lost.
/// Threads  start and stop by one; reads on the informer's thread, writes on its own thread.
class WorkloadMirror {
 public:
  WorkloadMirror(kube::Client& client, service::Host& host, const DomainClock& clock, WatchOptions watch,
                 MirrorOptions options = {});
  ~WorkloadMirror();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return informer_.synced() || informer_.absent(); }
  void owners_changed();
  /// One round of writes; returns the number of objects written.
  int write();

 private:
  struct Target {
    std::string print;
    bool mirror = false, pods_changed = false;
    Workload workload;
  };
  struct Written {
    std::string print;
    Shared<std::vector<PodSet>> pod_sets;
  };
  void changed(const Json& object, bool deleted);
  void offer(const Json& object);
  void offer_left();
  void synced_list();
  std::vector<Target> targets();
  Status put(const kube::Resource& at, const Target& target);
  Result<Json> find_or_create(const kube::Resource& at, const Target& target);
  Result<Json> mirrored(const Target& target);
  Result<Json> follow(const kube::Resource& at, const Target& target, Json now);

  kube::Client& client_;
  const DomainClock& clock_;
  WatchOptions watch_;
  MirrorOptions options_;
  Mailbox mailbox_;
  std::mutex mutex_;
  NamespaceOwners owners_;
  bool listed_ = false;  ///< the first list is complete; until then objects are held back in `left_`
  std::map<std::string, std::string> known_;  ///< uid -> what was last sent for it
  std::map<std::string, Json> left_;          ///< uid -> object in a namespace of another owner, or refused by limits
  std::map<WorkloadUid, Written> written_;    ///< what was last written
  std::string complained_;
  Periodic writer_;
  kube::Informer informer_;
};

}  // namespace qm::admission
