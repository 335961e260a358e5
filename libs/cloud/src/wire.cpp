#include "wire.hpp"

#include "outside.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace qm::cloud {
namespace {

constexpr auto kFirstWait = std::chrono::milliseconds(100);
constexpr auto kLongestWait = std::chrono::milliseconds(5000);
constexpr int kRetryCost = 5;
/// AWS refuses signatures more than five minutes off; with a smaller difference the date was not the cause.
constexpr std::int64_t kSkewThreshold = 240;

/// Full jitter: uniform over [0, first * 2^(n-1)], so that callers that failed together do not retry together.
SteadyDuration wait_before_retry(int failures, double jitter) {
  const auto ceiling = std::min(kLongestWait, kFirstWait * (1 << std::min(failures - 1, 10)));
  return std::chrono::duration_cast<SteadyDuration>(
      std::chrono::duration<double, std::milli>(static_cast<double>(ceiling.count()) * jitter));
}

/// Encodes a space as '+', as forms do: a peer that verifies the signature of a parsed and re-encoded form requires
/// it.
std::string form_encode(std::string_view text) {
  const auto encoded = http::url_encode(text);
  std::string out;
  for (std::size_t at = 0; at < encoded.size(); ++at) {
    if (encoded.compare(at, 3, "%20") == 0) {
      out += '+';
      at += 2;
    } else {
      out += encoded[at];
    }
  }
  return out;
}

}  // namespace

Form::Form(std::string_view action, std::string_view version) {
  add("Action", action);
  add("Version", version);
}

Form& Form::add(std::string_view key, std::string_view value) {
  if (!body_.empty()) body_ += '&';
  body_ += form_encode(key);
  body_ += '=';
  body_ += form_encode(value);
  return *this;
}

Form& Form::add_list(std::string_view prefix, const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) add(fmt::format("{}.{}", prefix, i + 1), values[i]);
  return *this;
}

Form& Form::add_tags(std::string_view prefix, const std::map<std::string, std::string>& tags) {
  int n = 0;
  for (const auto& [key, value] : tags) {
    ++n;
    add(fmt::format("{}.{}.Key", prefix, n), key);
    add(fmt::format("{}.{}.Value", prefix, n), value);
  }
  return *this;
}

Form& Form::add_filters(const Filters& filters) {
  int n = 0;
  for (const auto& [name, values] : filters) {
    ++n;
    add(fmt::format("Filter.{}.Name", n), name);
    add_list(fmt::format("Filter.{}.Value", n), values);
  }
  return *this;
}

Wire::Wire(AwsOptions options) : options_(std::move(options)), budget_(options_.retry_budget) {
  options_.outside = with_defaults(std::move(options_.outside), options_.ca_file);
}

Result<Keys> Wire::keys() const {
  if (!options_.access_key.empty() || options_.credentials == nullptr) {
    return Keys{options_.access_key, options_.secret_key, options_.session_token, {}};
  }
  return options_.credentials->keys();
}

RateLimiter& Wire::limiter_of(const std::string& service) {
  const std::lock_guard lock(limiters_mutex_);
  return limiters_.try_emplace(service, options_.outside.now()).first->second;
}

http::Request Wire::signed_request(const Call& call, const Endpoint& endpoint, const Keys& keys) const {
  http::Request request;
  request.method = "POST";
  request.target = "/";
  request.body = call.body;

  SigningInput in;
  in.method = request.method;
  in.path = request.target;
  in.body = call.body;
  in.region = endpoint.region;
  in.service = call.service;
  in.access_key = keys.access_key;
  in.secret_key = keys.secret_key;
  in.amz_date = amz_date(options_.outside.utc_seconds() + clock_offset_s_.load());
  const auto sign_and_send = [&](const char* name, const std::string& value) {
    in.headers.emplace_back(name, value);
    request.headers.set(name, value);
  };
  sign_and_send("Content-Type", call.content_type);
  sign_and_send("Host", endpoint.origin.substr(endpoint.origin.find("://") + 3));
  sign_and_send("X-Amz-Date", in.amz_date);
  if (!keys.session_token.empty()) sign_and_send("X-Amz-Security-Token", keys.session_token);
  if (!call.target.empty()) sign_and_send("X-Amz-Target", call.target);
  request.headers.set("Authorization", authorization_header(in));
  return request;
}

/// The outcome of one attempt: a body, or an error with its consequence for the next attempt.
struct Wire::Attempt {
  std::optional<std::string> body;
  Error error;
  FailureClass kind = FailureClass::kFinal;
  bool may_be_done = false;  ///< the request may have taken effect
};

Wire::Attempt Wire::attempt_once(const Call& call) {
  Attempt out;
  const auto signing = keys();
  if (!signing) {  // the source has made its own attempts
    out.error = signing.error().with_context("AWS credentials");
    return out;
  }
  const auto endpoint = endpoint_of(options_, call.service);
  auto answer = send(call, endpoint, *signing);
  if (!answer) {
    const auto code = answer.error().code;
    out.error = answer.error().with_context(endpoint.origin);
    // The HTTP client returns kUnavailable only if the request cannot have arrived.
    out.may_be_done = code == Code::kUnknown || code == Code::kDeadlineExceeded;
    if (out.may_be_done || code == Code::kUnavailable) {
      out.kind = FailureClass::kTransient;
      out.error.code = Code::kUnavailable;
    }
    return out;
  }
  if (answer->status >= 200 && answer->status < 300) {
    out.body = std::move(answer->body);
    return out;
  }
  const auto failure = read_failure(*answer);
  out.error = failure.error();
  out.kind = failure.kind;
  out.may_be_done = failure.kind == FailureClass::kTransient;
  if (failure.kind == FailureClass::kClockSkew && !correct_clock(*answer)) {
    // EC2 reports expired keys by the code of an expired signature.
    out.kind = failure.code == "RequestExpired" ? FailureClass::kExpiredKeys : FailureClass::kFinal;
  }
  if (out.kind == FailureClass::kExpiredKeys) {
    const bool others = options_.credentials != nullptr && options_.credentials->reject(signing->access_key);
    if (!others) out.kind = FailureClass::kFinal;
  }
  return out;
}

/// At the rate that the service accepts.
Result<http::Response> Wire::send(const Call& call, const Endpoint& endpoint, const Keys& keys) {
  auto* const limiter = options_.adaptive ? &limiter_of(call.service) : nullptr;
  if (limiter != nullptr) {
    if (const auto wait = limiter->take(options_.outside.now()); wait > wait.zero()) options_.outside.sleep(wait);
  }
  auto answer = options_.outside.send(endpoint.origin, signed_request(call, endpoint, keys),
                                      std::chrono::milliseconds(options_.timeout_ms) + call.extra_time);
  if (limiter != nullptr && answer) {
    const bool throttled = answer->status >= 400 && read_failure(*answer).kind == FailureClass::kThrottled;
    limiter->on_response(options_.outside.now(), throttled);
  }
  return answer;
}

/// True if the service's clock differs so much that the signature's date explains the refusal.
bool Wire::correct_clock(const http::Response& response) {
  const auto theirs = parse_http_date(response.headers.get("Date"));
  if (!theirs) return false;
  const auto offset = *theirs - options_.outside.utc_seconds();
  return std::abs(offset - clock_offset_s_.exchange(offset)) > kSkewThreshold;
}

Result<std::string> Wire::call(const Call& call) {
  bool may_be_done = false;
  bool clock_corrected = false, keys_renewed = false;
  for (int failures = 0;;) {
    auto attempt = attempt_once(call);
    if (attempt.body) {
      refund(failures > 0 ? kRetryCost : 1);
      return std::move(*attempt.body);
    }
    if (attempt.kind == FailureClass::kClockSkew && !clock_corrected) {
      clock_corrected = true;
      continue;
    }
    if (attempt.kind == FailureClass::kExpiredKeys && !keys_renewed) {
      keys_renewed = true;
      continue;
    }
    // A definite response is valid even after a lost one: the client token or the idempotence of the call ensures
    // it.
    const bool passing = attempt.kind == FailureClass::kThrottled || attempt.kind == FailureClass::kTransient;
    if (!passing) return fail(std::move(attempt.error));
    may_be_done = may_be_done || attempt.may_be_done;
    ++failures;
    const bool harmless = call.effect != Effect::kOnce || !attempt.may_be_done;
    if (!harmless || failures >= options_.max_attempts || !take_retry()) {
      auto error = attempt.error.with_context(fmt::format("failed after {} attempts", failures));
      if (may_be_done && call.effect != Effect::kRead) {
        error.code = Code::kUnknown;
        error.remedy = "check the current state before the call is repeated";
      }
      return fail(std::move(error));
    }
    options_.outside.sleep(wait_before_retry(failures, options_.outside.jitter()));
  }
}

Result<XmlNode> Wire::query(std::string_view service, const Form& form, Effect effect) {
  Call c;
  c.service = service;
  c.content_type = "application/x-www-form-urlencoded; charset=utf-8";
  c.body = form.body();
  c.effect = effect;
  QM_ASSIGN(const auto body, call(c));
  auto root = parse_xml(body);
  if (!root) {
    auto error = root.error().with_context(fmt::format("answer of {}", service));
    // The request was executed or read; only its response is unusable.
    error.code = effect == Effect::kRead ? Code::kInternal : Code::kUnknown;
    return fail(std::move(error));
  }
  return root;
}

bool Wire::take_retry() {
  const std::lock_guard lock(budget_mutex_);
  if (budget_ < kRetryCost) return false;
  budget_ -= kRetryCost;
  return true;
}

void Wire::refund(int tokens) {
  const std::lock_guard lock(budget_mutex_);
  budget_ = std::min(options_.retry_budget, budget_ + tokens);
}

}  // namespace qm::cloud
