#pragma once
#include "qm/autoscaler/commands.hpp"
#include "qm/base/json.hpp"
#include "qm/clock/clock.hpp"
#include "qm/cloud/aws.hpp"
#include "qm/service/host.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// What an event of Amazon EventBridge, in the body of a message, is about.
struct CloudEvent {
  std::string id;  ///< of the event: delivered at least once, in any order
  Instant at{};
  std::vector<InstanceNoticeUpdated> notices;
  bool instances_changed = false;  ///< the state of an instance: the cloud is polled
};

/// Reads an event.
///
///   EC2 Spot Instance Interruption Warning            spot, two minutes after the event
///   EC2 Capacity Reservation Instance Interruption
///     Warning                                         spot, at the time in its detail, else two minutes later
///   EC2 Instance Rebalance Recommendation             rebalance
///   AWS Health Event, EC2, scheduledChange            maintenance of each affected instance, at its startTime
///   EC2 Instance-terminate Lifecycle Action           lifecycle, `lifecycle_time` after the event
///   EC2 Instance State-change Notification            no notice: the state of the instances is read
///
/// An event of another kind has neither notices nor changes.
/// Fails    kInvalid: it is not JSON, or has no id or time.
/// Source   https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-service-event.html and the pages it links.
[[nodiscard]] Result<CloudEvent> read_cloud_event(const std::string& body, Duration lifecycle_time);

/// The input with notices of the cloud.
[[nodiscard]] service::Input notices_input(const std::vector<InstanceNoticeUpdated>& notices);

/// Consumes the queue that receives the events of the account. A message is deleted after its notices are committed, so
/// a crash loses none; a notice is an input once, by the id of its event and by its instance and kind.
///
/// Poison   a message that cannot be read is deleted, and logged.
/// Threads  `consumers` of its own.
class InterruptionQueue {
 public:
  struct Options {
    std::string url;
    int consumers = 4;
    int wait_seconds = 2;  ///< of a long poll, 0 to 20; stop() waits for its end
    Duration lifecycle_time =
        std::chrono::minutes(2);  ///< until a group terminates an instance; less than its heartbeat
  };
  struct Counters {
    std::uint64_t messages = 0, notices = 0, repeated = 0, unreadable = 0, undeleted = 0;
  };
  /// Commits an input: `done` is called once, after the commit or with the refusal.
  using Submit = std::function<Status(service::Input input, service::Host::ReplyFn done)>;

  InterruptionQueue(cloud::Aws& aws, Submit submit, std::function<void()> on_instances_changed, Options options);
  ~InterruptionQueue();
  void start();
  void stop();
  [[nodiscard]] Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::autoscaler
