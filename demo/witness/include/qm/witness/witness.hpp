#pragma once
#include "qm/base/json.hpp"
#include "qm/base/time.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace qm::witness {

/// How fast something went: `n` things from the first instant to the last.
struct Pace {
  std::int64_t n = 0;
  double seconds = 0;     ///< from the first to the last
  double per_second = 0;  ///< over all of it
  double middle = 0;      ///< of the middle four fifths, without the run-up and the tail
  double best = 0;        ///< in the best ten seconds
};
[[nodiscard]] Pace pace_of(std::vector<std::int64_t> instants_us);

/// How the GPUs that are held now lie on the nodes.
struct Packing {
  std::int64_t pods = 0, gpus = 0;  ///< that are placed
  std::int64_t nodes_used = 0;
  double share_of_used = 0;     ///< GPUs held, of all GPUs of the nodes that are used
  std::int64_t stranded = 0;    ///< free GPUs on nodes that are partly used
  std::int64_t whole_free = 0;  ///< nodes without any pod
};

/// Writes down what really happened on a cluster whose API server is not ours, in the words of the fleet's history,
/// so that the same checker judges it.
///
/// It sees objects as a watch shows them, in the server's order for each kind, and knows nothing of what the services
/// wished. A pod holds its GPUs from its bind (spec.nodeName) until its phase is an end or it is gone: the strictest
/// reading, since no kubelet says when it gave them. Devices are those of the pod's annotation; how many it asked for
/// is written beside them.
///
/// Threads  any.
/// Repeats  are harmless: what was written of an object is not written again.
class Witness {
 public:
  /// `write` gets one line; `find_job` looks up a job whose pod comes earlier than itself, null where it is gone.
  Witness(std::function<void(const std::string& line)> write,
          std::function<Json(const std::string& ns, const std::string& name)> find_job);

  void see_job(const Json& job, bool deleted, Instant now);
  void see_pod(const Json& pod, bool deleted, Instant now);
  void see_claim(const Json& claim, bool deleted, Instant now);
  void see_node(const Json& node, bool deleted);

  struct Counts {
    std::int64_t jobs = 0, ended = 0;  ///< jobs seen, and finished or gone
    std::int64_t admitted = 0;         ///< pods of jobs that were let go for the first time
    std::int64_t bound = 0, running = 0, succeeded = 0, stopped = 0;  ///< pods
    std::int64_t gpus_held = 0, gpus = 0;
  };
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] Pace admitted() const;  ///< pods of jobs that were let go
  [[nodiscard]] Pace bound() const;     ///< pods
  [[nodiscard]] Packing packing() const;
  /// Gangs of which some ranks hold their GPUs now and others do not.
  [[nodiscard]] std::int64_t partial_gangs() const;
  /// Begins again: what was seen so far of jobs and pods counts no more. Nodes stay.
  void forget();

 private:
  struct JobState {
    std::string team;
    std::int64_t ranks = 1;
    std::int64_t together = 1;  ///< ranks without which none may run
    bool let_go = false, over = false;
  };
  struct PodState {
    std::string node, owner;
    std::int64_t gpus = 0;
    Instant since{};
    bool running = false, stopped = false;
  };
  JobState& job_of(const Json& job, Instant now);
  void write(Instant now, const char* event, Json::Object fields);
  void stop(PodState& state, const Json& pod, const std::string& reason, Instant now);

  std::function<void(const std::string&)> write_;
  std::function<Json(const std::string&, const std::string&)> find_job_;
  mutable std::mutex mutex_;
  std::map<std::string, JobState> jobs_;  // by uid
  std::map<std::string, PodState> pods_;  // by uid, from the bind on
  std::set<std::string> claims_;
  std::map<std::string, std::int64_t> nodes_;  // GPUs
  std::vector<std::int64_t> admitted_at_, bound_at_;
  Counts counts_;
};

/// GPUs that the containers of a pod ask for.
[[nodiscard]] std::int64_t gpus_of(const Json& pod_spec);

}  // namespace qm::witness
