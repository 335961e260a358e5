#pragma once
#include "progress.hpp"
#include "qm/base/time.hpp"
#include "stack.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace qm::demo {

/// Injects faults by domain time: an XID 79, the reclaim of a batch of spot instances, and SIGKILLs. While a killed
/// service is down the fleet's clock is slowed, as the fleet itself does while a spot notice is open.
class FaultPlan {
 public:
  FaultPlan(Stack& stack, const Options& options, Instant start, Duration length);
  /// Injects the faults that are due; returns them, one line each.
  std::vector<std::string> advance(Instant now);
  [[nodiscard]] bool done() const { return next_ >= steps_.size(); }
  [[nodiscard]] std::size_t kills() const { return kills_; }
  /// Milliseconds from each SIGKILL of a leader until a replica leads and serves.
  [[nodiscard]] const std::vector<std::int64_t>& takeovers() const { return takeovers_; }
  [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }

 private:
  struct Step {
    Instant at{};
    std::string what;  ///< "kill", "outside", "xid", "spot_reclaim"
    std::string target;
  };
  void plan_for_real(Instant start, Duration length);
  std::string break_outside(const std::string& what);
  std::string kill(const std::string& service);
  void note_takeover(std::chrono::steady_clock::time_point begin);
  std::string inject(const Json& fault);
  [[nodiscard]] std::int64_t nodes_to_reclaim();

  Stack& stack_;
  const int interrupt_percent_;
  std::vector<Step> steps_;
  std::size_t next_ = 0, kills_ = 0;
  std::vector<std::int64_t> takeovers_;
  std::vector<std::string> failures_;
};

/// Injects the faults that are due, and prints them. Fails if a process of the suite has ended.
Status advance(Stack& stack, FaultPlan& faults, Progress& progress);

}  // namespace qm::demo
