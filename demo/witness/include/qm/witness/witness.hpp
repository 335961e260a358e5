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

/// The rate of `n` events from the first instant to the last.
struct Pace {
  std::int64_t n = 0;
  double seconds = 0;     ///< from the first to the last
  double per_second = 0;  ///< over all of it
  double middle = 0;      ///< of the middle four fifths, without the run-up and the tail
  double best = 0;        ///< in the best ten seconds
};
[[nodiscard]] Pace pace_of(std::vector<std::int64_t> instants_us);

/// Records what really happened on a cluster whose API server is not ours. The records have the format of the fleet's
/// history, so that the same checker can evaluate them.
///
/// It receives objects from a watch, in the server's order for each kind, and knows nothing of the services'
/// requests. A pod holds its GPUs from its bind (spec.nodeName) until its phase is final or it is deleted: the
/// strictest reading, because no kubelet reports when it allocated them. Devices are those of the pod's annotation;
/// the number that it requested is recorded next to them.
///
/// Threads  any.
/// Repeats  are harmless: a recorded state of an object is not recorded again.
class Witness {
 public:
  /// `write` receives one line; `find_job` looks up a job whose pod arrives before it, null if the job is gone.
  Witness(std::function<void(const std::string& line)> write,
          std::function<Json(const std::string& ns, const std::string& name)> find_job);

  void see_job(const Json& job, bool deleted, Instant now);
  void see_pod(const Json& pod, bool deleted, Instant now);
  void see_claim(const Json& claim, bool deleted, Instant now);
  void see_node(const Json& node, bool deleted);

  struct Counts {
    std::int64_t jobs = 0, ended = 0;  ///< jobs seen, and finished or gone
    std::int64_t admitted = 0;         ///< pods of jobs that were unsuspended for the first time
    std::int64_t bound = 0, running = 0, succeeded = 0, stopped = 0;  ///< pods
    std::int64_t gpus_held = 0, gpus = 0;
  };
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] Pace admitted() const;  ///< pods of jobs that were unsuspended
  [[nodiscard]] Pace bound() const;     ///< pods

 private:
  struct JobState {
    std::string team;
    std::int64_t ranks = 1;
    std::int64_t together = 1;  ///< minimum number of ranks that must run together
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

/// GPUs that the containers of a pod request.
[[nodiscard]] std::int64_t gpus_of(const Json& pod_spec);

}  // namespace qm::witness
