#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
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

/// What a client needs of the world outside, each part replaceable, so that a test of retries neither sleeps nor
/// draws lots. What is left empty is the real thing. Steady time paces; UTC time only dates signatures: the domain's
/// clock is never asked, because the other side checks the signature's date against its own wall.
struct Outside {
  /// Sends one request to an origin. The real one keeps connections and has the time limit of the call.
  std::function<Result<http::Response>(const std::string& origin, const http::Request& request,
                                       std::chrono::milliseconds timeout)>
      send;
  std::function<SteadyInstant()> now;
  std::function<void(SteadyDuration)> sleep;
  std::function<double()> jitter;  ///< in [0, 1)
  std::function<std::int64_t()> utc_seconds;
};

struct AwsOptions {
  std::string endpoint;  ///< http://127.0.0.1:PORT for all three services; empty = AWS itself
  std::string region = "us-east-1";
  std::string access_key, secret_key, session_token;
  int max_attempts = 5;  ///< with full jitter, throttling and 5xx only
  int timeout_ms = 10000;
  int page_size = 1000;  ///< of paged answers, 5 to 1000; where a service allows less, that
  /// Tokens for retries: each costs 5, each success gives some back. When a service is down, all callers of one
  /// client together stop repeating instead of multiplying its load.
  int retry_budget = 500;
  std::string ca_file = "/etc/ssl/certs/ca-certificates.crt";  ///< for https endpoints
  Outside outside;

  /// AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_ENDPOINT_URL. kInvalid names the
  /// variable that is missing.
  static Result<AwsOptions> from_environment();
};

struct InstanceRequest {
  std::string client_token;  ///< same token + same parameters = no second instance
  std::string instance_type, zone, image_id = "ami-00000000";
  bool spot = false;
  int count = 1;  ///< MinCount = MaxCount: all or nothing
  std::map<std::string, std::string> tags;
  std::string user_data;
};

struct Instance {
  std::string id, type, zone, state;  ///< pending, running, shutting-down, terminated, ...
  bool spot = false;
  std::string private_dns;  ///< the node's name
  std::string client_token;
  Instant launched{};              ///< LaunchTime, whole seconds
  std::optional<Instant> stopped;  ///< from the state transition reason, where given
  std::string state_reason;        ///< the code, such as Server.SpotInstanceTermination
  std::map<std::string, std::string> tags;
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

/// EC2, Auto Scaling and SQS over the wire: SigV4, pagination, retry with jitter, client tokens. Any thread.
///
/// A call is repeated after throttling and, where repeating is harmless, after an answer that was lost or 5xx. Waits
/// are drawn evenly from [0, 100 ms * 2^n], at most 5 s. A clock that the service refuses is corrected once by the
/// answer's Date header. No retry follows a capacity error: the caller has other types and zones to try.
///
/// Fails    kExhausted: throttled past all attempts (field = "rate"), or InsufficientInstanceCapacity and the like
///          (field = "capacity"); kInvalid: the parameters, a client token used with others among them;
///          kPermissionDenied: signature or policy; kNotFound: unknown id; kAborted: a scaling activity is under way;
///          kUnknown: the answer was lost, look up by client token; kUnavailable: the endpoint is away.
///          A message begins with the service's own code.
class Aws {
 public:
  explicit Aws(AwsOptions options);
  ~Aws();
  Result<std::vector<Instance>> run_instances(const InstanceRequest& request);
  /// All pages. filters: {"tag:karpenter.sh/nodepool": {"gpu"}, "instance-state-name": {"running"}}.
  Result<std::vector<Instance>> describe_instances(const std::vector<std::string>& ids = {},
                                                   const std::map<std::string, std::vector<std::string>>& filters = {});
  Status terminate_instances(const std::vector<std::string>& ids);
  Status create_tags(const std::vector<std::string>& ids, const std::map<std::string, std::string>& tags);
  /// The named types, or all of them.
  Result<std::vector<InstanceTypeInfo>> describe_instance_types(const std::vector<std::string>& names);
  /// Newest first, as the service gives them. With `since`: the prices that held then and those that came later.
  Result<std::vector<SpotPriceQuote>> describe_spot_price_history(const std::vector<std::string>& types,
                                                                  std::optional<Instant> since = {});
  Result<std::vector<AutoScalingGroup>> describe_groups(const std::vector<std::string>& names = {});
  /// A launch template of the group's name, then the group.
  Status create_group(const NewGroup& group);
  Status set_desired_capacity(const std::string& group, int desired);
  Status terminate_in_group(const std::string& instance_id, bool decrement_desired);
  Result<std::string> create_queue(const std::string& name);
  Status send_message(const std::string& queue_url, const std::string& body);
  /// Waits up to `wait_seconds` (0 to 20) of the service's time for a first message; at most 10 messages.
  /// What is received stays hidden from others for `visibility_seconds` (absent: as the queue says).
  Result<std::vector<QueueMessage>> receive_messages(const std::string& queue_url, int max, int wait_seconds,
                                                     std::optional<int> visibility_seconds = {});
  Status delete_message(const std::string& queue_url, const std::string& receipt);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct MetadataOptions {
  std::chrono::seconds token_ttl{21600};  ///< 1 s to 6 h, as the service allows
  std::chrono::milliseconds timeout{2000};
  Outside outside;  ///< send and now are used
};

/// IMDSv2 of one instance: token, renewed before it ends, then GETs. Not found is an answer, not an error. Any thread.
///
/// Fails    kUnavailable: nobody answers; kPermissionDenied: refused with a fresh token (the hop limit cuts off
///          containers: raise it to 2 or use the host's network); kInvalid: the endpoint is no URL.
class InstanceMetadata {
 public:
  explicit InstanceMetadata(std::string endpoint, MetadataOptions options = {});  ///< "http://169.254.169.254", or with
                                                                                  ///< a path prefix
  ~InstanceMetadata();
  /// Body at "/latest/meta-data/<path>", or at the path itself where it begins with "/"; nullopt on 404.
  Result<std::optional<std::string>> get(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::cloud
