#pragma once
#include "qm/cloud/aws.hpp"

#include <deque>
#include <string>
#include <vector>

namespace qm::cloud {

/// A cloud with scripted responses, and a clock that only the requested sleeps advance.
class Scripted {
 public:
  struct Seen {
    std::string origin;
    http::Request request;
    std::chrono::milliseconds timeout;
  };
  std::deque<Result<http::Response>> answers;
  std::vector<Seen> seen;
  std::vector<std::chrono::milliseconds> sleeps;
  SteadyInstant now{};
  std::int64_t utc = 1'795'252'469;  // 2026-11-21T09:14:29Z
  double jitter = 1.0;               // each wait is its maximum

  Scripted& then(int status, std::string body) {
    answers.emplace_back(http::Response{status, {}, std::move(body)});
    return *this;
  }
  Scripted& then_fails(Code code) {
    answers.emplace_back(fail(code, "scripted"));
    return *this;
  }
  Scripted& then_ec2_error(int status, const std::string& code, const std::string& date = {}) {
    http::Response response{status,
                            {},
                            "<Response><Errors><Error><Code>" + code +
                                "</Code><Message>said "
                                "so</Message></Error></Errors><RequestID>r</RequestID></Response>"};
    if (!date.empty()) response.headers.set("Date", date);
    answers.emplace_back(std::move(response));
    return *this;
  }

  Outside outside() {
    Outside out;
    out.send = [this](const std::string& origin, const http::Request& request,
                      std::chrono::milliseconds timeout) -> Result<http::Response> {
      seen.push_back({origin, request, timeout});
      if (answers.empty()) return fail(Code::kInternal, "the script is at its end");
      auto answer = std::move(answers.front());
      answers.pop_front();
      return answer;
    };
    out.now = [this] { return now; };
    out.sleep = [this](SteadyDuration d) {
      now += d;
      sleeps.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(d));
    };
    out.jitter = [this] { return jitter; };
    out.utc_seconds = [this] { return utc; };
    return out;
  }
  AwsOptions options() {
    AwsOptions out;
    out.endpoint = "http://cloud:1";
    out.access_key = "key";
    out.secret_key = "secret";
    out.adaptive = false;  // its waits have tests of their own
    out.outside = outside();
    return out;
  }
  [[nodiscard]] const std::string& body(std::size_t n) const { return seen.at(n).request.body; }
};

}  // namespace qm::cloud
