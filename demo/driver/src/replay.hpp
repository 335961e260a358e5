#pragma once
#include "qm/base/result.hpp"
#include "qm/clock/clock.hpp"
#include "qm/trace/trace.hpp"
#include "stack.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace qm::demo {

/// The hours to replay, from the options: a window of a trace or of the model, thinned if requested.
Result<trace::Window> choose_window(const Options& options);

/// Queues for the teams of a window: one ClusterQueue each in one cohort, quota by the team's share of the GPU-time.
std::string queue_manifests(const trace::Window& window, std::int64_t quota_gpus);
/// The NodePool that the autoscaler may use, spot first, then on-demand, and its EC2NodeClass.
std::string pool_manifest(std::int64_t limit_gpus);

/// Submits jobs through the gRPC API as domain time passes, each with its own request id, and repeats an unanswered
/// call. That is safe, and the expected behavior of a client whose server was killed.
class Submitter {
 public:
  Submitter(Stack& stack, const trace::Window& window, std::string run_id);
  /// All jobs of this run answer checkpoint orders, also those with one GPU.
  void every_job_saves() { all_save_ = true; }
  Status apply_queues(const std::string& manifests);
  /// Submits all running jobs at once; returns when every one is acknowledged.
  Status submit_running();
  /// Starts the thread that submits arrivals; `start` is the domain instant of the window's first second.
  void start(Instant start);
  /// True once every arrival has been acknowledged.
  [[nodiscard]] bool done() const { return next_ >= window_.arriving.size(); }
  void stop();
  [[nodiscard]] std::size_t submitted() const { return next_ + running_; }
  /// "namespace/name" of every acknowledged submission.
  [[nodiscard]] std::set<std::string> acked() const;

 private:
  Status submit(const trace::Job& job, const std::string& name);

  Stack& stack_;
  const trace::Window& window_;
  std::string run_id_;
  bool all_save_ = false;
  std::atomic<std::size_t> next_{0}, running_{0};
  mutable std::mutex mutex_;
  std::set<std::string> acked_;
  std::jthread thread_;
};

}  // namespace qm::demo
