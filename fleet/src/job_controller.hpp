#pragma once
#include "object_store.hpp"
#include "world.hpp"

#include <map>
#include <set>
#include <string>

namespace qm::fleet {

/// "0-3,5" and back, as status.completedIndexes writes it.
std::string format_indexes(const std::set<std::int64_t>& indexes);
std::set<std::int64_t> parse_indexes(std::string_view text);

/// The Job controller: turns Jobs into pods and pods' ends into the Job's status.
///
/// What it keeps to: a suspended job has no pods and no start time; an Indexed job has one pod for
/// each index that has not succeeded, up to its parallelism; a pod that failed is replaced after a
/// delay that doubles from 10 s; more failures than backoffLimit fail the job. Pods that a lost
/// node or a deletion ended do not count as failures.
///
/// Threads  runs under the world's lock, as timers: a change is acted on soon after, not within the
///          call that made it.
class JobController {
 public:
  JobController(World& world, ObjectStore& store);

 private:
  struct Run {
    std::set<std::string> counted;  // pods whose end is in the figures below
    std::set<std::int64_t> done;    // Indexed
    std::int64_t succeeded = 0, failed = 0;
    Instant retry_at{};
  };
  void on_change(const Kind& kind, const ObjectPtr& before, const ObjectPtr& after);
  void account(const Json& pod);
  void mark(const std::string& uid);
  void reconcile(const std::string& uid);
  /// Those that neither ended nor are on their way out, by index.
  [[nodiscard]] std::vector<ObjectPtr> active_pods(const std::string& uid) const;
  void create_pods(const Json& job, const Run& run, const std::vector<ObjectPtr>& active, std::int64_t missing);
  void create_pod(const Json& job, std::optional<std::int64_t> index);
  void finish(const Json& job, bool ok, std::string_view reason, std::string_view message);
  void write_status(const Json& job, const Run& run, bool suspended);
  void stop_pods(const std::vector<ObjectPtr>& pods, std::size_t keep = 0);

  World& world_;
  ObjectStore& store_;
  const Kind& jobs_;
  const Kind& pods_;
  std::map<std::string, Run> runs_;  // by job uid
  std::set<std::string> dirty_;
};

}  // namespace qm::fleet
