#pragma once
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/watch.hpp"
#include "qm/clock/clock.hpp"

#include <chrono>
#include <memory>

namespace qm::admission {

/// The status of a ClusterQueue or LocalQueue as Kueue writes it: numbers of pending, reserving and admitted workloads,
/// usage of each flavor, and whether the queue is active. `version` is the API version that the API server serves.
struct QueueCounts {
  std::int64_t pending = 0, reserving = 0, admitted = 0;
  Usage reserved, used;  ///< by all that hold quota, and by the admitted ones
};
/// Condition of a queue whose newest version cannot be parsed: "False", with the reason. Absent otherwise.
inline constexpr const char* kTaken = "quartermaster.dev/Taken";
/// Why a queue admits no workload, as the reason of the condition Active: "Terminating", "Stopped", "CohortCycle",
/// "FlavorNotFound", ...; empty if it is active.
[[nodiscard]] std::optional<Cause> inactive_condition(const Engine& engine, const ClusterQueue& queue);
[[nodiscard]] Json cluster_queue_status(const Engine& engine, const ClusterQueue& queue, const QueueCounts& counts);
[[nodiscard]] Json local_queue_status(const Engine& engine, const LocalQueue& queue, const QueueCounts& counts,
                                      const std::string& version);

struct StatusOptions {
  std::chrono::milliseconds period{2'000};  ///< steady time between rounds
  int most = 50;                            ///< writes per round; the rest is left for the next
};

/// Writes the status of queues from the API server back to it, by server-side apply as field manager "quartermaster":
/// only changes, a limited number per round, and only while this process is the leader.
///
/// Threads  its own.
class StatusWriter {
 public:
  StatusWriter(kube::Client& client, service::Host& host, const ConfigWatch& config, const DomainClock& clock,
               kube::Ownership* quota = nullptr, StatusOptions options = {});
  ~StatusWriter();
  void start();
  void stop();
  /// One round of the loop of start(). Returns the number of writes.
  int write();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::admission
