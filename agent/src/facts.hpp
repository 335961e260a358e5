#pragma once
#include "qm/base/time.hpp"
#include "quartermaster/v1/telemetry_service.pb.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace qm::agent {

namespace pb = quartermaster::v1;

/// Facts on their way to the telemetry service: kept and repeated until it says that they are durable.
///
/// Ids      "<node>/<boot>/<n>"; the boot id is drawn at each start, so a restarted agent's facts are new ones.
/// Bound    `capacity` facts. A full queue refuses, and whoever saw the fact sees it again at the next look: devices,
///          XIDs and notices stand where they were read, and orders are repeated.
/// Threads  any.
class Facts {
 public:
  explicit Facts(std::string boot, std::size_t capacity = 4096) : boot_(std::move(boot)), capacity_(capacity) {}
  /// Called after each fact that was added, from the adder's thread. Set before the first one.
  void on_added(std::function<void()> fn) { added_ = std::move(fn); }

  /// False where the queue is full. What a node's devices are, or an order's outcome, takes the place of an older fact
  /// about the same that still waits.
  bool add(const std::string& node, pb::AgentFact fact);
  void confirm(const std::string& id);
  /// At most `max` facts that are due for sending, oldest first: those never sent since renew(), and those that have
  /// waited longer than kRepeat for their confirmation. They count as sent then.
  [[nodiscard]] std::vector<pb::AgentFact> due(SteadyInstant now, std::size_t max);
  /// A new stream: everything is to be sent again.
  void renew();
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const std::string& boot() const { return boot_; }

  static constexpr SteadyDuration kRepeat = std::chrono::seconds(2);

 private:
  struct Entry {
    pb::AgentFact fact;
    bool sent = false;
    SteadyInstant at{};
  };
  const std::string boot_;
  const std::size_t capacity_;
  std::function<void()> added_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::uint64_t next_ = 1;
};

}  // namespace qm::agent
