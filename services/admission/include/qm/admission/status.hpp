#pragma once
#include "qm/admission/engine.hpp"
#include "qm/admission/watch.hpp"
#include "qm/clock/clock.hpp"

#include <chrono>
#include <memory>

namespace qm::admission {

/// The status of a ClusterQueue or LocalQueue as Kueue writes it: how many wait, hold quota and run, what is used of
/// each flavor, and whether the queue is active. `version` is the one that the API server serves.
struct QueueCounts {
  std::int64_t pending = 0, reserving = 0, admitted = 0;
  Usage reserved, used;  ///< by all that hold quota, and by those of them that were admitted
};
/// Condition of a queue whose newest version cannot be read: "False", with the reason. Absent where all is well.
inline constexpr const char* kTaken = "quartermaster.dev/Taken";
/// Why a queue admits no workload, as condition Active says it: "Terminating", "Stopped", "CohortCycle", "FlavorNotFound", ...; nothing where it is
/// active.
[[nodiscard]] std::optional<Cause> inactive_condition(const Engine& engine, const ClusterQueue& queue);
[[nodiscard]] Json cluster_queue_status(const Engine& engine, const ClusterQueue& queue, const QueueCounts& counts);
[[nodiscard]] Json local_queue_status(const Engine& engine, const LocalQueue& queue, const QueueCounts& counts,
                                      const std::string& version);

struct StatusOptions {
  std::chrono::milliseconds period{2'000};  ///< steady time between rounds
  int most = 50;                            ///< writes in a round; the rest waits for the next
};

/// Writes the status of the queues that came from the API server back to it, by server-side apply as field manager
/// "quartermaster": only what changed, at most so many in a round, and only while this process leads.
///
/// Threads  its own.
class StatusWriter {
 public:
  StatusWriter(kube::Client& client, service::Host& host, const ConfigWatch& config, const DomainClock& clock,
               kube::Ownership* quota = nullptr, StatusOptions options = {});
  ~StatusWriter();
  void start();
  void stop();
  /// One round; what start() does again and again. Returns how many were written.
  int write();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::admission
