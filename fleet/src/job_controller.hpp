#pragma once
#include "object_store.hpp"
#include "world.hpp"

#include <map>
#include <set>
#include <string>

namespace qm::fleet {

/// Formats and parses "0-3,5", the format of status.completedIndexes.
std::string format_indexes(const std::set<std::int64_t>& indexes);
std::set<std::int64_t> parse_indexes(std::string_view text);

/// The Job controller: creates the pods of Jobs, and updates the Job's status when pods finish.
///
/// Rules: a suspended job has no pods and no start time. An Indexed job has one pod for each index that has not
/// succeeded, up to its parallelism. A failed pod is replaced after a delay that doubles from 10 s; more failures
/// than backoffLimit fail the job. Pods that ended with a lost node or by deletion do not count as failures.
///
/// Threads  runs under the world's lock, as timers: a change is handled soon after, not within the call that made it.
class JobController {
 public:
  JobController(World& world, ObjectStore& store);

 private:
  struct Run {
    std::set<std::string> counted;  // finished pods that are included in the counters below
    std::set<std::int64_t> done;    // Indexed
    std::int64_t succeeded = 0, failed = 0;
    Instant retry_at{};
  };
  void on_change(const Kind& kind, const ObjectPtr& before, const ObjectPtr& after);
  void account(const Json& pod);
  void mark(const std::string& uid);
  void reconcile(const std::string& uid);
  /// Pods that are neither finished nor being deleted, by index.
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
