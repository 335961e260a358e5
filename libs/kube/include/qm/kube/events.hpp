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

/// What an event is about, as in involvedObject. Events about cluster-wide objects stand in the namespace "default".
struct EventSubject {
  std::string api_version, kind, ns, name, uid;
};
struct EventText {
  bool warning = false;
  std::string reason;   ///< one word: "QuotaReserved"
  std::string message;  ///< for people; cut at 1024 bytes
};

/// Says in core/v1 events what people want to see in `kubectl describe`.
///
/// One event for each subject and reason: said again, its count, lastTimestamp and message change. Its name is made from
/// both, so a repeat after a restart or by another replica finds the event that is there.
///
/// Bounds   each subject may say kBurst events at once and one more each kRefill after that; what is above is counted and
///          not said. The latest kSubjects subjects are remembered.
/// Fails    as Client; kExhausted: above the bound. Events are a courtesy: callers log a failure and go on.
/// Threads  any; blocks for the calls that it makes.
class EventRecorder {
 public:
  static constexpr int kBurst = 25;
  static constexpr auto kRefill = std::chrono::seconds(300);
  static constexpr std::size_t kSubjects = 4096;

  EventRecorder(
      Client& client, std::string component,
      std::function<SteadyInstant()> now = [] { return std::chrono::steady_clock::now(); });
  Status record(const EventSubject& about, const EventText& text);
  [[nodiscard]] std::uint64_t withheld() const;

 private:
  bool may(const std::string& uid);
  Status repeat(const std::string& ns, const std::string& name, const EventText& text, const std::string& now);

  struct Bucket {
    SteadyInstant full_at{};  ///< when it will have its burst again
    std::uint64_t used = 0;   ///< a growing number: the least is forgotten first
  };
  Client& client_;
  const std::string component_;
  const std::function<SteadyInstant()> now_;
  mutable std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
  std::uint64_t uses_ = 0, withheld_ = 0;
};

}  // namespace qm::kube
