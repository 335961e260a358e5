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

/// The queue of facts for the telemetry service. A fact is kept and sent again until the service confirms that it is
/// durable.
///
/// Ids      "<node>/<boot>/<n>"; the boot id is drawn at each start, so the facts of a restarted agent are new ones.
/// Bound    `capacity` facts. A full queue refuses a fact, and its source offers it again at the next read: devices,
///          XIDs and notices remain readable at their source, and orders are repeated.
/// Threads  any.
class Facts {
 public:
  explicit Facts(std::string boot, std::size_t capacity = 4096) : boot_(std::move(boot)), capacity_(capacity) {}
  /// Called after each added fact, on the thread that added it. Must be set before the first one.
  void on_added(std::function<void()> fn) { added_ = std::move(fn); }

  /// False if the queue is full. The devices or the report of a node, or the result of an order, replaces an older
  /// queued fact of the same kind and subject.
  bool add(const std::string& node, pb::AgentFact fact);
  void confirm(const std::string& id);
  /// At most `max` facts to send now, oldest first: those not sent since renew(), and those that have waited longer
  /// than kRepeat for their confirmation. They are marked as sent.
  [[nodiscard]] std::vector<pb::AgentFact> due(SteadyInstant now, std::size_t max);
  /// A new stream: all facts must be sent again.
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
