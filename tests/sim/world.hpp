#pragma once
#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"
#include "random.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::sim {

/// A bug that is planted to prove that the laws detect it.
enum class Bug {
  kNone,
  kLaunchTwice,       ///< a repeated launch creates a second instance
  kCreateTwice,       ///< a repeated creation creates a second job
  kSkipMessages,      ///< a consumer sometimes loses a message, and the offsets do not show it
  kOldAttemptRuns,    ///< a deleted pod keeps running for a while
  kWrongDevices,      ///< binding assigns the first devices of its node to each pod
  kCostLosesStops,    ///< cost never receives the end of some instances
  kHalfGang,          ///< some pods of a gang are never created
  kRowNotWritten,     ///< some state rows of a batch are lost
  kUndoForgotten,     ///< a failed batch stays applied
  kClockBack,         ///< a restarted service reads an older time
  kJumpAccepted,      ///< the host's clock is not compared with the database's
  kOneInstance,       ///< a kubelet allocates the same MIG instance to every pod
  kRetriesForEver,    ///< an input whose effects the database rejects is not isolated
  kRollbackUnseen,    ///< writes continue on a database that lost commits: only the epoch is compared
  kNotObservedAgain,  ///< reports in commits that the database lost are not made again
  kUnfenced,          ///< a replica raises the epoch without the lease
  kClaimsEarly,       ///< a standby claims before the leader's proof has expired
  kCallsOverlap,      ///< a reload does not wait for calls in progress
  kNoTombstones,      ///< a snapshot omits the deleted keys
  kSnapshotSkipped,   ///< a topic is read on although its snapshot failed
  kGapUnseen,         ///< missing messages are not recognized as a gap
  kHistoryUnseen,     ///< consumers do not compare the terms of events
  kForgedPod,         ///< the namespace of a pod that names a workload is not compared
  kGivesUp,           ///< a call that the API server refused counts as done
  kRelayAhead,        ///< after a restore the relay continues after the events of the lost history
  kRequeueUnheard,    ///< admission does not receive which pending workloads fit
};

/// The layout that partitions GPUs 0 and 1 into seven instances each, and the pool of its node.
inline constexpr const char* kLayout = "two-in-sevens";
inline constexpr const char* kLayoutPool = "cuttable";

/// The environment of the suite in miniature: jobs and their controller, pods and kubelets, nodes, and the cloud.
///
/// Its own actions (start, end, register, vanish) happen in advance(); requested actions happen at once. Each change
/// of a Kubernetes object is passed to the listener as the API server would show it.
///
/// Laws     checked after each action, reported to `broken`: a device serves one live pod; a MIG instance serves one
///          live pod, so that tenants share a GPU only in distinct instances; no GPU is repartitioned under a pod;
///          the pods of a node request no more CPU than it has (S-012); a job's attempts do not overlap; an index
///          succeeds once; one instance per client token; no pod of a foreign namespace is bound for a job.
class World {
 public:
  enum class Kind { kJob, kPod, kNode };
  struct Job {
    std::string uid, ns, name, intent;
    Json body;                          ///< as the API server has it
    int pods = 1, least = 1;            ///< number of pods, and the minimum to run
    int at_once = 1;                    ///< fewer than `pods`: a new pod is created when another has succeeded
    int gpus = 1, slices = 0, cpu = 0;  ///< of a pod: whole GPUs, or MIG instances; CPUs
    std::int64_t run_s = 60;
    bool checkpoints = false, checked_in = false;
    Instant sync_at{};  ///< the next run of the controller
    bool sync = false;
    std::map<int, int> succeeded;  ///< index -> number of successes
    bool complete = false, deleting = false;
    std::int64_t saved_step = 0;
    Instant partial_since{};
  };
  struct Pod {
    std::string uid, ns, name, job, node;
    int index = 0, attempt = 0, gpus = 0, slices = 0, cpu = 0;
    std::vector<int> devices;
    std::vector<std::pair<int, int>> instances;  ///< MIG instances: GPU, and index among its seven
    Json body;
    enum class Phase { kPending, kRunning, kSucceeded, kFailed } phase = Phase::kPending;
    Instant start_at{}, started{}, gone_at{};
    std::int64_t left_us = 0, start_step = 0, ran_us = 0;
    bool deleting = false;
    bool forged = false;  ///< of another tenant, with the names of a workload in it
    [[nodiscard]] bool terminal() const { return phase == Phase::kSucceeded || phase == Phase::kFailed; }
  };
  struct Instance {
    std::string id, claim, pool, type, zone, node;
    bool spot = false, sliced = false, cuttable = false;
    Instant launched{}, visible{}, register_at{}, vanish_at{};
    std::optional<Instant> stopped, taken_at;
    Labels labels;
    bool registered = false;
  };
  struct Node {
    std::string name, instance;
    Json body;
    int gpus = 8;
    bool alive = true, ready = true;
    bool sliced = false;    ///< GPUs 0 and 1 are partitioned into seven instances each
    bool cuttable = false;  ///< or may be, by the layout kLayout
    std::string layout;     ///< that mig-manager applies
    Instant cut_at{};
    Instant back_at{};
  };

  using Listener = std::function<void(Kind, const std::string& key, const Json& object, bool deleted)>;
  World(Random& random, Bug bug) : random_(random), bug_(bug) {}
  Listener changed = [](Kind, const std::string&, const Json&, bool) {};
  std::function<void(const std::string&)> broken = [](const std::string&) {};
  std::function<void(std::string)> note = [](std::string) {};  ///< for the trace

  void start(Instant now) { now_ = now; }
  void advance(Instant now);
  [[nodiscard]] Instant now() const { return now_; }

  // Kubernetes.
  std::string create_job(Json body, const std::string& intent);
  void delete_job(const std::string& uid);
  void patch_job(const std::string& uid, const Json& patch);
  Status bind_pod(const std::string& ns, const std::string& name, const std::string& uid, const std::string& node,
                  const std::string& devices);
  void delete_pod(const std::string& ns, const std::string& name, const std::string& uid, std::int64_t grace_s);
  void cordon(const std::string& node, const std::string& causes);
  /// Requests a layout from mig-manager, which repartitions the GPUs a little later.
  void label_layout(const std::string& node, const std::string& layout);
  Job* job_named(const std::string& ns, const std::string& name);
  Node* node(const std::string& name);

  // The cloud.
  enum class MigMode { kNever, kFromStart, kOnRequest };
  std::string add_static(const std::string& type, MigMode cut = MigMode::kNever);
  Result<std::string> launch(const std::string& token, const std::string& pool, const std::string& type,
                             const std::string& zone, bool spot, const Labels& labels);
  bool terminate(const std::string& id);
  [[nodiscard]] Json describe() const;  ///< as the autoscaler reads the cloud
  bool no_capacity = false;
  Duration job_sync = std::chrono::milliseconds(1500);  ///< at most, from a change to the sync of the Job controller
  std::pair<Duration, Duration> boot{std::chrono::seconds(20), std::chrono::seconds(150)};  ///< of launched nodes

  // Faults.
  void lose_node(const std::string& name);  ///< the instance fails; the cloud reports it
  void silence_node(const std::string& name, Duration for_how_long);
  void spot_notice(const std::string& instance, Duration notice);
  /// A tenant of another namespace creates a pod that claims to be a rank of the job, or to have succeeded as one.
  void forge_pod(const std::string& job, bool succeeded);

  /// Checks everything that must hold at any instant.
  void check();

  std::map<std::string, Job> jobs;  ///< by uid; including deleted ones, with their `deleting`
  std::vector<Pod> zombies;         ///< deleted, but still running (planted bug)
  std::map<std::string, Pod> pods;  ///< by uid
  std::map<std::string, Node> nodes;
  std::map<std::string, Instance> instances;
  std::uint64_t starts = 0, finishes = 0;
  std::uint64_t grown = 0;     ///< pods that were bound to gangs already running without them
  std::uint64_t meetings = 0;  ///< instances allocated on a GPU that another tenant uses too
  std::uint64_t layouts = 0;   ///< layouts that mig-manager applied

 private:
  void publish_job(const Job& job);
  void publish_pod(Pod& pod);
  void give_instances(Pod& pod, const std::vector<int>& assigned);
  void publish_node(Node& node);
  void control(Job& job);
  void make_pod(Job& job, int index);
  void ask_sync(const std::string& uid);
  void remove_pod(const std::string& uid);
  void run_pods();
  void run_instances();
  void partition_gpus(Node& node);
  void stop_instance(Instance& instance);
  void release_node(const std::string& name);
  [[nodiscard]] bool kubelet(const std::string& node) const;
  [[nodiscard]] std::string number(const char* prefix) { return std::string(prefix) + std::to_string(++counter_); }

  Random& random_;
  Bug bug_;
  Instant now_{};
  std::uint64_t counter_ = 0, version_ = 0;
};

}  // namespace qm::sim
