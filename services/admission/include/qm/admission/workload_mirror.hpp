#pragma once
#include "qm/admission/pod_defaults.hpp"
#include "qm/admission/watch.hpp"
#include "qm/admission/workload.hpp"
#include "qm/clock/clock.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace qm::admission {

struct MirrorOptions {
  bool mirrors = false;                     ///< --set workload-objects=true: other kinds have Workloads too
  std::chrono::milliseconds period{1'000};  ///< steady time between rounds of writing
  int most = 50;                            ///< writes in a round; the rest waits for the next
};

/// Kueue's Workload objects, both ways: those that nobody owns come in as workloads, and for objects that are suspended as a whole
/// a mirror is made where that is asked for, and its spec follows its workload; answers of admission checks and `spec.active` come in from either; their
/// statuses go back, and `spec.active` = false where admission deactivated one. All of it only where quota is ours, so never
/// beside Kueue's own controller. Pods have no mirrors.
///
/// Writes   are merge patches with the version that was read, so an answer that comes meanwhile is never lost.
/// Threads  start and stop by one; reads on the informer's thread, writes on its own.
class WorkloadMirror {
 public:
  WorkloadMirror(kube::Client& client, service::Host& host, const DomainClock& clock, WatchOptions watch,
                 MirrorOptions options = {});
  ~WorkloadMirror();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return informer_.synced() || informer_.absent(); }
  void owners_changed();
  /// One round of writing; how many objects were written.
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
  void synced_list();
  std::vector<Target> targets();
  Status put(const kube::Resource& at, const Target& target);
  Result<Json> find_or_make(const kube::Resource& at, const Target& target);
  Result<Json> mirrored(const Target& target);
  Result<Json> follow(const kube::Resource& at, const Target& target, Json now);
  void run();

  kube::Client& client_;
  const DomainClock& clock_;
  WatchOptions watch_;
  MirrorOptions options_;
  Mailbox mailbox_;
  std::mutex mutex_;
  std::map<std::string, std::string> known_;  ///< uid -> what was last sent of it
  std::map<std::string, Json> left_;        ///< uid -> one of a namespace that is not ours, or that LimitRanges refuse
  std::map<WorkloadUid, Written> written_;  ///< what was last written
  std::string complained_;
  std::mutex sleep_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
  kube::Informer informer_;
};

}  // namespace qm::admission
