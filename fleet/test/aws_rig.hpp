#pragma once
#include "aws.hpp"
#include "qm/cloud/aws.hpp"
#include "qm/cloud/sigv4.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace qm::fleet {

inline constexpr std::int64_t kUtc = 1'795'252'469;  // 2026-11-21T09:14:29Z

/// A stream that records what is written.
struct Caught final : http::Stream {
  std::string written;
  bool ended = false, gone = false;
  bool write(std::string chunk) override {
    written += chunk;
    return !gone;
  }
  void close() override { ended = true; }
  [[nodiscard]] bool closed() const override { return ended || gone; }
};

/// The AWS side without a socket: requests go directly to handle(), and all clocks are fixed.
class AwsApiTest : public ::testing::Test {
 protected:
  World world{{}, PriceTable::built_in(), manual_clock(from_micros(kUtc * 1'000'000))};
  std::int64_t utc = kUtc;
  std::atomic<SteadyInstant> steady{SteadyInstant{}};
  AwsApi api{world, api_options()};
  std::int64_t client_utc = kUtc;
  int calls = 0;
  int sleeps = 0;
  std::shared_ptr<Caught> stream;  ///< of the latest answer, if it was a stream

  AwsApi::Options api_options() {
    AwsApi::Options out;
    out.event_queue = "events";
    out.utc_seconds = [this] { return utc; };
    out.steady_now = [this] { return steady.load(); };
    return out;
  }
  cloud::AwsOptions client_options() {
    cloud::AwsOptions out;
    out.endpoint = "http://fleet:1";
    out.access_key = out.secret_key = "test";
    out.adaptive = false;  // its sleeps would not advance any clock
    out.outside.send = [this](const std::string&, const http::Request& request,
                              std::chrono::milliseconds) -> Result<http::Response> {
      ++calls;
      auto answer = api.handle(request);
      stream.reset();
      if (answer.stream) {
        stream = std::make_shared<Caught>();
        answer.stream(stream);
        answer.head.body = "{}";
      }
      return answer.head;
    };
    out.outside.sleep = [this](SteadyDuration) { ++sleeps; };
    out.outside.utc_seconds = [this] { return client_utc; };
    return out;
  }
  cloud::Aws aws{client_options()};

  static cloud::InstanceRequest request(std::string token = {}, int count = 1) {
    cloud::InstanceRequest out;
    out.client_token = std::move(token);
    out.instance_type = "p5.48xlarge";
    out.image_id = "ami-00000000";
    out.count = count;
    return out;
  }
  /// A request with a valid signature.
  static http::Request sign(const std::string& service, const std::string& body, const std::string& host) {
    cloud::SigningInput in;
    in.method = "POST";
    in.path = "/";
    in.body = body;
    in.region = "us-east-1";
    in.service = service;
    in.access_key = in.secret_key = "test";
    in.amz_date = cloud::amz_date(kUtc);
    if (!host.empty()) in.headers = {{"Host", host}};
    http::Request out;
    out.method = "POST";
    out.body = body;
    out.headers.set("Host", host);
    out.headers.set("X-Amz-Date", in.amz_date);
    out.headers.set("Authorization", cloud::authorization_header(in));
    return out;
  }
  /// The body of the answer to an action that the client does not have. `parameters`: "A=1&B=2".
  std::string groups(const std::string& action, const std::string& parameters) {
    const auto body = "Action=" + action + "&Version=2011-01-01&AutoScalingGroupName=gpu&" + parameters;
    return api.handle(sign("autoscaling", body, "h")).head.body;
  }
  std::string ec2(const std::string& action, const std::string& parameters) {
    return api.handle(sign("ec2", "Action=" + action + "&Version=2016-11-15&" + parameters, "h")).head.body;
  }
  /// The text of the first element of that name; empty if there is none.
  static std::string element(const std::string& body, const std::string& name) {
    const auto from = body.find("<" + name + ">");
    if (from == std::string::npos) return {};
    const auto begin = from + name.size() + 2;
    return body.substr(begin, body.find('<', begin) - begin);
  }
  std::string url(const std::string& queue) const { return "http://fleet:1/000000000000/" + queue; }
  std::vector<Json> events() {
    std::vector<Json> out;
    const auto messages = aws.receive_messages(url("events"), 10, 0).value();
    for (const auto& message : messages) {
      out.push_back(Json::parse(message.body).value());
      EXPECT_TRUE(aws.delete_message(url("events"), message.receipt));
    }
    return out;
  }
};

}  // namespace qm::fleet
