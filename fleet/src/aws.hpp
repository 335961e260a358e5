#pragma once
#include "qm/http/http.hpp"
#include "world.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace qm::fleet {

/// The AWS side of the simulated fleet: EC2, Auto Scaling and SQS on one port, in the dialects of the real services.
///
/// Every request is checked as the real ones check it: Signature Version 4 with the known key, its date within five
/// minutes of the wall's (never of the domain's) time. Which service is meant is read from the signature's scope.
///
/// EC2           RunInstances (all or nothing between MinCount and MaxCount, client tokens kept for a day of domain
///               time, IdempotentParameterMismatch), DescribeInstances, TerminateInstances, CreateTags,
///               DescribeInstanceTypes, DescribeSpotPriceHistory, CreateLaunchTemplate
/// Auto Scaling  CreateAutoScalingGroup, DescribeAutoScalingGroups, SetDesiredCapacity,
///               TerminateInstanceInAutoScalingGroup; a lost member is replaced, a lack of capacity retried
/// SQS           CreateQueue, GetQueueUrl, SendMessage, ReceiveMessage, DeleteMessage; visibility and long polls run
///               in steady time, because their readers do
///
/// Threads  any. Cost: DescribeInstances is linear in the instances that the world still lists.
class AwsApi {
 public:
  struct Options {
    /// Where named: this queue exists from the start and gets EventBridge's messages about spot interruptions and
    /// instance states.
    std::string event_queue;
    std::function<std::int64_t()> utc_seconds;  ///< for signatures; empty = the machine's
    std::function<SteadyInstant()> steady_now;  ///< for queues; empty = the machine's
  };
  explicit AwsApi(World& world) : AwsApi(world, Options{}) {}
  AwsApi(World& world, Options options);
  ~AwsApi();  ///< after the server that calls handle() has stopped
  [[nodiscard]] http::Answer handle(const http::Request& request);
  /// From now on a new instance is missing from DescribeInstances for this long, as EC2's own lists may be behind.
  void set_hidden(Duration hidden);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace qm::fleet
