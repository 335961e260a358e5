#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/cloud/credentials.hpp"
#include "qm/cloud/fleet.hpp"
#include "qm/cloud/outside.hpp"
#include "qm/cloud/resources.hpp"
#include "qm/cloud/sigv4.hpp"
#include "qm/http/http.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace qm::cloud {

struct AwsOptions {
  std::string endpoint;                                  ///< http://127.0.0.1:PORT for all services; empty = AWS itself
  std::map<std::string, std::string> service_endpoints;  ///< by service, before `endpoint`: "ec2", "autoscaling", ...
  std::string region = "us-east-1";
  bool fips = false, dual_stack = false;              ///< of AWS's own endpoints
  std::string access_key, secret_key, session_token;  ///< fixed keys, before `credentials`
  std::shared_ptr<Credentials> credentials;           ///< shared by the clients of a process
  int max_attempts = 5;                               ///< with full jitter, throttling and 5xx only
  bool adaptive = true;                               ///< a throttled service is called at the rate that it accepts
  int timeout_ms = 10000;
  int page_size = 1000;  ///< of paged responses, 5 to 1000; or the maximum of the service, if that is lower
  /// Tokens for retries: each retry costs 5, each success returns some. When a service is down, all callers of one
  /// client together stop retrying instead of multiplying its load.
  int retry_budget = 500;
  std::string ca_file = "/etc/ssl/certs/ca-certificates.crt";  ///< for https endpoints
  Outside outside;

  /// Reads what the AWS SDKs read: AWS_REGION, AWS_DEFAULT_REGION, the variables of Credentials, AWS_ENDPOINT_URL and
  /// AWS_ENDPOINT_URL_<SERVICE>, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS, AWS_USE_FIPS_ENDPOINT,
  /// AWS_USE_DUALSTACK_ENDPOINT, AWS_RETRY_MODE, AWS_MAX_ATTEMPTS, AWS_CA_BUNDLE. The credentials are not fetched.
  ///
  /// `instance_metadata`  false: the role of the instance is not used.
  static AwsOptions from_environment(bool instance_metadata = true,
                                     const Environment& environment = process_environment());
};

/// Filters of a Describe call, which must all match; the values of one are alternatives, '*' and '?' wildcards:
/// {"tag:karpenter.sh/nodepool": {"gpu"}, "instance-state-name": {"running"}}.
using Filters = std::map<std::string, std::vector<std::string>>;

struct Instance {
  std::string id, type, zone, state;  ///< pending, running, shutting-down, terminated, ...
  bool spot = false;
  std::string private_dns;  ///< the node's name
  std::string client_token;
  Instant launched{};              ///< LaunchTime, whole seconds
  std::optional<Instant> stopped;  ///< from the state transition reason, if it has a time
  std::string state_reason;        ///< the code, such as Server.SpotInstanceTermination
  std::map<std::string, std::string> tags;
  std::string image, subnet, profile;        ///< ids; the ARN of the instance profile
  std::vector<std::string> security_groups;  ///< ids
};

struct InstanceTypeInfo {
  std::string name;
  std::int64_t vcpu = 0, memory_mib = 0, gpus = 0, gpu_memory_mib = 0;  ///< GPU memory of one GPU
  std::string gpu_model;
};

struct SpotPriceQuote {
  std::string instance_type, zone;
  std::int64_t nano_usd_hour = 0;
  Instant at{};
};

struct AutoScalingGroup {
  std::string name;
  int min = 0, max = 0, desired = 0;
  struct Member {
    std::string instance_id, lifecycle, zone;
    bool protected_from_scale_in = false;
  };
  std::vector<Member> instances;
  std::map<std::string, std::string> tags;
  std::vector<std::string> zones;
  std::vector<std::string> instance_types;  ///< of a mixed instances policy, in its order; empty = there is none
  int on_demand_base = 0;                   ///< of the policy: instances that are on-demand in any case
  int on_demand_percent = -1;               ///< of the policy: the share of on-demand above them; -1 = there is none
};

struct LifecycleHook {
  std::string name;
  bool launching = false;  ///< else terminating
  std::chrono::seconds heartbeat{3600};
};

/// A launch or termination by an Auto Scaling group.
struct ScalingActivity {
  std::string status;       ///< "InProgress", "Successful", "Failed", "Cancelled", ...
  std::string description;  ///< "Launching a new EC2 instance ..."
  std::string message;      ///< why it failed
  Instant start{};
};

struct NewGroup {
  std::string name, instance_type, image_id = "ami-00000000";
  std::vector<std::string> zones;
  int min = 0, max = 0, desired = 0;
  std::map<std::string, std::string> tags;  ///< also put on the instances that the group launches
};

struct QueueMessage {
  std::string id, receipt, body;
};
/// Approximate numbers of messages: to be received, received and not deleted yet, and not yet to be received.
struct QueueDepth {
  std::int64_t visible = 0, in_flight = 0, delayed = 0;
};

/// A client of EC2, Auto Scaling, SQS, IAM and the Systems Manager: SigV4, pagination, retry with jitter, client tokens. Any thread.
///
/// A call is retried after throttling. If a retry is harmless, it is also retried after a lost response or a 5xx.
/// Waits are uniformly distributed over [0, 100 ms * 2^n], at most 5 s; after throttling each call of that service also
/// waits for its share of the accepted rate. If the service refuses the signature's date, the clock is corrected once by
/// the Date header of the response; expired keys are fetched again once. A capacity error is not retried: the caller
/// tries other types and zones.
///
/// Fails    kExhausted: throttled in all attempts (field = "rate"), or InsufficientInstanceCapacity and similar
///          (field = "capacity"); kInvalid: the parameters, including a client token that was used with other
///          parameters; kPermissionDenied: signature or policy; kNotFound: unknown id; kAborted: a scaling activity
///          is in progress; kUnknown: the response was lost, look up by client token; kUnavailable: the endpoint is
///          unavailable. A message begins with the service's own code.
class Aws {
 public:
  explicit Aws(AwsOptions options);
  ~Aws();
  /// `count` instances of one type in one zone, or none.
  Result<std::vector<Instance>> run_instances(const InstanceRequest& request);
  /// Launches a fleet with Type=instant. A lack of capacity is in the result and not an error: also of all overrides.
  ///
  /// Fails    as described above. After kUnknown repeat the call with the same token, or look up by a tag.
  Result<FleetResult> create_fleet(const FleetRequest& request);
  /// Creates the launch template, unless there is one of this name.
  Status create_launch_template(const LaunchTemplate& launch_template);
  Result<std::vector<LaunchTemplateEntry>> describe_launch_templates(const Filters& filters);
  Status delete_launch_template(const std::string& name);  ///< also if there is none
  /// Returns all pages, as the other Describe calls.
  Result<std::vector<Instance>> describe_instances(const std::vector<std::string>& ids = {},
                                                   const Filters& filters = {});
  /// `owners`: account numbers, "self" or "amazon"; empty = any. Images of "self" have `own`.
  Result<std::vector<Image>> describe_images(const Filters& filters, const std::vector<std::string>& owners = {});
  Result<std::vector<Subnet>> describe_subnets(const Filters& filters);
  Result<std::vector<SecurityGroup>> describe_security_groups(const Filters& filters);
  Result<std::vector<CapacityReservation>> describe_capacity_reservations(const Filters& filters);
  Result<std::vector<PlacementGroup>> describe_placement_groups(const Filters& filters);
  /// The value of a parameter of the Systems Manager; nullopt if there is none.
  Result<std::optional<std::string>> get_parameter(const std::string& name);
  /// Creates the instance profile with the role, or gives it the role, unless it has it.
  ///
  /// Fails    kInvalid: the profile has another role.
  Status ensure_instance_profile(const std::string& name, const std::string& role);
  Status terminate_instances(const std::vector<std::string>& ids);
  Status create_tags(const std::vector<std::string>& ids, const std::map<std::string, std::string>& tags);
  /// Returns the named types, or all types.
  Result<std::vector<InstanceTypeInfo>> describe_instance_types(const std::vector<std::string>& names);
  /// Newest first, as in the service's response. With `since`: the prices valid at that time and the later ones.
  Result<std::vector<SpotPriceQuote>> describe_spot_price_history(const std::vector<std::string>& types,
                                                                  std::optional<Instant> since = {});
  Result<std::vector<AutoScalingGroup>> describe_groups(const std::vector<std::string>& names = {});
  /// Creates a launch template with the name of the group, then the group.
  Status create_group(const NewGroup& group);
  Status set_desired_capacity(const std::string& group, int desired);
  Status terminate_in_group(const std::string& instance_id, bool decrement_desired);
  /// Whether the group may choose the instances when it becomes smaller. All of them are InService; at most 50.
  Status set_instance_protection(const std::string& group, const std::vector<std::string>& instance_ids, bool protect);
  Result<std::vector<LifecycleHook>> describe_lifecycle_hooks(const std::string& group);
  /// The newest first, of the last six weeks.
  Result<std::vector<ScalingActivity>> describe_scaling_activities(const std::string& group);
  /// The ids of the instances of the group's warm pool; none without one.
  Result<std::vector<std::string>> describe_warm_pool(const std::string& group);
  /// The instance goes on. Fails with kInvalid if it does not wait at the hook.
  Status complete_lifecycle_action(const std::string& group, const std::string& hook, const std::string& instance);
  /// The wait is prolonged by the timeout of the hook. Fails as complete_lifecycle_action.
  Status record_lifecycle_heartbeat(const std::string& group, const std::string& hook, const std::string& instance);
  Result<std::string> create_queue(const std::string& name);
  Status send_message(const std::string& queue_url, const std::string& body);
  /// Waits up to `wait_seconds` (0 to 20) of the service's time for a first message; at most 10 messages.
  /// Received messages are hidden from other consumers for `visibility_seconds` (absent: the default of the queue).
  Result<std::vector<QueueMessage>> receive_messages(const std::string& queue_url, int max, int wait_seconds,
                                                     std::optional<int> visibility_seconds = {});
  Status delete_message(const std::string& queue_url, const std::string& receipt);
  /// Deletes messages, ten a call. A message that the service does not delete becomes visible again.
  ///
  /// Returns  the number of messages that were not deleted.
  Result<std::size_t> delete_messages(const std::string& queue_url, const std::vector<std::string>& receipts);
  Result<QueueDepth> queue_depth(const std::string& queue_url);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct MetadataOptions {
  std::chrono::seconds token_ttl{21600};  ///< 1 s to 6 h, the range of the service
  std::chrono::milliseconds timeout{2000};
  Outside outside;  ///< only `send` and `now` are used
};

/// The IMDSv2 of one instance: fetches a token, renews it before it expires, and sends GETs. Not found is not an
/// error. Any thread.
///
/// Fails    kUnavailable: no response; kPermissionDenied: refused with a fresh token (the hop limit excludes
///          containers: raise it to 2 or use the host network); kInvalid: the endpoint is not a URL.
class InstanceMetadata {
 public:
  explicit InstanceMetadata(std::string endpoint, MetadataOptions options = {});  ///< "http://169.254.169.254", or with
                                                                                  ///< a path prefix
  ~InstanceMetadata();
  /// Returns the body of "/latest/meta-data/<path>", or of the path itself if it begins with "/"; nullopt on 404.
  Result<std::optional<std::string>> get(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::cloud
