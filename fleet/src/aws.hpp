#pragma once
#include "qm/http/http.hpp"
#include "world.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace qm::fleet {

/// The image of the account without a system of its own, for callers that do not choose one.
inline constexpr const char* kPlainImage = "ami-00000000";

/// The AWS side of the simulated fleet: EC2, Auto Scaling, SQS, IAM and SSM on one port, in the dialects of the real services.
///
/// Every request is verified as the real services do: Signature Version 4 with a known key (aws_keys.hpp), its date within five
/// minutes of the system clock (never of domain time). The scope of the signature names the service.
///
/// EC2           RunInstances (all or nothing between MinCount and MaxCount, client tokens kept for a day of domain
///               time, IdempotentParameterMismatch), DescribeInstances, DescribeInstanceStatus, DescribeInstanceTopology,
///               TerminateInstances, CreateTags, CreateFleet (aws_fleets.hpp), launch templates (aws_templates.hpp),
///               what is sold (aws_catalog.hpp), and what the account has for a launch (aws_account.hpp), which
///               launches check as EC2 does
/// IAM, SSM      instance profiles, parameters with the ids of images (aws_account.hpp)
/// STS           AssumeRoleWithWebIdentity (unsigned; any token is accepted), GetCallerIdentity; session keys expire in
///               wall time. GET /v1/credentials is the agent of EKS Pod Identity.
/// Auto Scaling  groups, lifecycle hooks, warm pools (aws_groups.hpp)
/// SQS           CreateQueue, GetQueueUrl, SendMessage, ReceiveMessage, DeleteMessage; visibility and long polls run
///               in steady time, because their readers do
///
/// Threads  any. Cost: DescribeInstances is linear in the instances that the world still lists.
class AwsApi {
 public:
  struct Options {
    /// If not empty, this queue exists from the start and receives EventBridge's messages about spot interruptions and
    /// instance states.
    std::string event_queue;
    std::function<std::int64_t()> utc_seconds;  ///< for signatures; empty = the system clock
    std::function<SteadyInstant()> steady_now;  ///< for queues; empty = the system's steady clock
  };
  explicit AwsApi(World& world) : AwsApi(world, Options{}) {}
  AwsApi(World& world, Options options);
  ~AwsApi();  ///< call after the server that calls handle() has stopped
  [[nodiscard]] http::Answer handle(const http::Request& request);
  /// From now on a new instance is missing from DescribeInstances for this duration, because EC2's lists are delayed
  /// too.
  void set_hidden(Duration hidden);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace qm::fleet
