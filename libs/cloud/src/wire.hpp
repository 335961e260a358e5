#pragma once
#include "endpoints.hpp"
#include "failure.hpp"
#include "qm/cloud/aws.hpp"
#include "rate_limiter.hpp"
#include "xml.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace qm::cloud {

/// The parameters of one Query call, in order, as a form body.
class Form {
 public:
  Form(std::string_view action, std::string_view version);
  Form& add(std::string_view key, std::string_view value);
  Form& add(std::string_view key, std::int64_t value) { return add(key, std::to_string(value)); }
  /// prefix.1, prefix.2, ...
  Form& add_list(std::string_view prefix, const std::vector<std::string>& values);
  /// prefix.N.Key and prefix.N.Value.
  Form& add_tags(std::string_view prefix, const std::map<std::string, std::string>& tags);
  /// Filter.N.Name and Filter.N.Value.M.
  Form& add_filters(const Filters& filters);
  [[nodiscard]] const std::string& body() const { return body_; }

 private:
  std::string body_;
};

inline constexpr std::string_view kIam = "iam";

/// Whether a call may be sent again if it is not known whether the first one was executed.
enum class Effect {
  kRead,
  kRepeatable,  ///< an idempotent change
  kOnce,
};

struct Call {
  std::string service, content_type, target, body;
  Effect effect = Effect::kRead;
  std::chrono::milliseconds extra_time{0};  ///< in addition to the client's time limit, for long polls
};

/// Signs, sends and retries: all calls of all services use it. Any thread.
class Wire {
 public:
  explicit Wire(AwsOptions options);
  Result<std::string> call(const Call& call);
  Result<XmlNode> query(std::string_view service, const Form& form, Effect effect);
  [[nodiscard]] const AwsOptions& options() const { return options_; }

 private:
  struct Attempt;
  Attempt attempt_once(const Call& call);
  Result<http::Response> send(const Call& call, const Endpoint& endpoint, const Keys& keys);
  [[nodiscard]] http::Request signed_request(const Call& call, const Endpoint& endpoint, const Keys& keys) const;
  [[nodiscard]] Result<Keys> keys() const;
  RateLimiter& limiter_of(const std::string& service);
  bool correct_clock(const http::Response& response);
  bool take_retry();
  void refund(int tokens);

  AwsOptions options_;
  std::atomic<std::int64_t> clock_offset_s_{0};
  std::mutex budget_mutex_;
  int budget_;
  std::mutex limiters_mutex_;
  std::map<std::string, RateLimiter> limiters_;  ///< by service
};

}  // namespace qm::cloud
