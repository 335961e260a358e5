#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/kube/client.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace qm::kube {

/// The involvedObject of an event. Events about cluster-wide objects are in the namespace "default".
struct EventSubject {
  std::string api_version, kind, ns, name, uid;
};
struct EventText {
  bool warning = false;
  std::string reason;   ///< one word: "QuotaReserved"
  std::string message;  ///< for users; truncated at 1024 bytes
};

/// Publishes core/v1 events for `kubectl describe`.
///
/// One event for each subject and reason: a repetition changes its count, lastTimestamp and message. Its name is
/// derived from both, so a repetition after a restart or by another replica finds the existing event.
///
/// Bounds   each subject may publish kBurst events at once and one more each kRefill after that; further events are
///          counted and not published. The latest kSubjects subjects are stored.
/// Fails    as Client; kExhausted: above the bound. Events are optional: callers log a failure and continue.
/// Threads  any; blocks for the API calls.
class EventRecorder {
 public:
  static constexpr int kBurst = 25;
  static constexpr auto kRefill = std::chrono::seconds(300);
  static constexpr std::size_t kSubjects = 4096;

  EventRecorder(
      Client& client, std::string component,
      std::function<SteadyInstant()> now = [] { return std::chrono::steady_clock::now(); });
  Status record(const EventSubject& about, const EventText& text);

 private:
  bool may(const std::string& uid);
  Status repeat(const std::string& ns, const std::string& name, const EventText& text, const std::string& now);

  struct Bucket {
    SteadyInstant full_at{};  ///< when its burst is available again
    std::uint64_t used = 0;   ///< increases with each use: the subject with the smallest value is removed first
  };
  Client& client_;
  const std::string component_;
  const std::function<SteadyInstant()> now_;
  mutable std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
  std::uint64_t uses_ = 0;
};

}  // namespace qm::kube
