#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

namespace qm::cloud {

struct AwsOptions {
  std::string endpoint;                          ///< http://127.0.0.1:PORT for all three services
  std::string region = "us-east-1";
  std::string access_key, secret_key, session_token;
  int max_attempts = 5;                          ///< with full jitter, throttling and 5xx only
  int timeout_ms = 10000;
};

struct InstanceRequest {
  std::string client_token;                      ///< same token + same parameters = no second instance
  std::string instance_type, zone, image_id = "ami-00000000";
  bool spot = false;
  int count = 1;                                 ///< MinCount = MaxCount: all or nothing
  std::map<std::string, std::string> tags;
  std::string user_data;
};

struct Instance {
  std::string id, type, zone, state;             ///< pending, running, shutting-down, terminated, ...
  bool spot = false;
  std::string private_dns;                       ///< the node's name
  std::string client_token;
  Instant launched{};                            ///< LaunchTime, whole seconds
  std::optional<Instant> stopped;                ///< from the state transition reason, where given
  std::string state_reason;
  std::map<std::string, std::string> tags;
};

struct InstanceTypeInfo {
  std::string name;
  std::int64_t vcpu = 0, memory_mib = 0, gpus = 0, gpu_memory_mib = 0;
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

struct QueueMessage {
  std::string id, receipt, body;
};

/// EC2, Auto Scaling and SQS over the wire: SigV4, pagination, retry with jitter, client tokens. Any thread.
///
/// Fails    kExhausted: throttled past all attempts, or InsufficientInstanceCapacity (field = "capacity");
///          kInvalid: the parameters; kPermissionDenied: signature or policy; kNotFound: unknown id;
///          kUnknown: the answer was lost, look up by client token; kUnavailable: the endpoint is away.
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
  Result<std::vector<InstanceTypeInfo>> describe_instance_types(const std::vector<std::string>& names);
  Result<std::vector<SpotPriceQuote>> describe_spot_price_history(const std::vector<std::string>& types);
  Result<std::vector<AutoScalingGroup>> describe_groups(const std::vector<std::string>& names = {});
  Status set_desired_capacity(const std::string& group, int desired);
  Status terminate_in_group(const std::string& instance_id, bool decrement_desired);
  Result<std::string> create_queue(const std::string& name);
  Status send_message(const std::string& queue_url, const std::string& body);
  Result<std::vector<QueueMessage>> receive_messages(const std::string& queue_url, int max, int wait_seconds);
  Status delete_message(const std::string& queue_url, const std::string& receipt);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The SigV4 parts, public for their vectors: canonical request, string to sign, Authorization header.
struct SigningInput {
  std::string method, path, query, body, region, service, access_key, secret_key, amz_date;  ///< 20261121T091429Z
  std::vector<std::pair<std::string, std::string>> headers;
};
[[nodiscard]] std::string canonical_request(const SigningInput& in);
[[nodiscard]] std::string string_to_sign(const SigningInput& in);
[[nodiscard]] std::string authorization_header(const SigningInput& in);

/// IMDSv2 of one instance: token, renewed before it ends, then GETs. Not found is an answer, not an error.
class InstanceMetadata {
 public:
  explicit InstanceMetadata(std::string endpoint);   ///< "http://169.254.169.254", or with a path prefix
  ~InstanceMetadata();
  /// Body at "/latest/meta-data/<path>"; nullopt on 404.
  Result<std::optional<std::string>> get(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::cloud
