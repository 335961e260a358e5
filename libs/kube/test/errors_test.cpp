// The meaning of a response of the API server, and the client's own reaction.
#include "qm/kube/errors.hpp"

#include "qm/kube/client.hpp"
#include "qm/testing/kube_refusals.hpp"
#include "qm/testing/testing.hpp"
#include "scripted_api.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace qm::kube {
namespace errors_test {

using Api = ScriptedApi;
using namespace std::chrono_literals;

constexpr const char* kRbac =
    R"(pods is forbidden: User "system:serviceaccount:qm:placement" cannot list resource "pods" in API group "" at the cluster scope)";

struct Case {
  int status;
  const char* reason;
  const char* message;
  Code code;
  const char* remedy;  ///< a part of it
};

TEST(KubeErrors, EveryAnswerHasItsClass) {
  constexpr Case kCases[] = {
      {400, "BadRequest", "the object cannot be read", Code::kInvalid, "change the object"},
      {400, "BadRequest", "admission webhook \"a\" denied the request: no", Code::kInvalid, "policy"},
      {401, "Unauthorized", "Unauthorized", Code::kUnavailable, "token"},
      {403, "Forbidden", kRbac, Code::kPermissionDenied, "grant the ServiceAccount"},
      {403, "Forbidden", "forbidden: User \"x\" cannot get path \"/metrics\"", Code::kPermissionDenied, "grant"},
      {403, "Forbidden", "the words of a proxy", Code::kPermissionDenied, "grant"},
      {403, "Forbidden", "pods \"a\" is forbidden: exceeded quota: q, requested: cpu=1", Code::kExhausted,
       "ResourceQuota"},
      {403, "Forbidden", "pods \"a\" is forbidden: status unknown for quota: q", Code::kExhausted, "ResourceQuota"},
      {403, "Forbidden", "pods \"a\" is forbidden: failed quota: q: must specify limits.cpu", Code::kInvalid, "change"},
      {403, "Forbidden", "admission webhook \"a\" denied the request: exceeded quota", Code::kInvalid, "change"},
      {403, "Forbidden", "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": x", Code::kInvalid,
       "change"},
      {403, "Forbidden", "pods \"a\" is forbidden: maximum cpu usage per Container is 1", Code::kInvalid, "change"},
      {403, "Forbidden", "jobs \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: x",
       Code::kInvalid, "change"},
      {403, "Forbidden",
       "pods \"a\" is forbidden: unable to create new content in namespace n because it is being terminated",
       Code::kFailedPrecondition, "another namespace"},
      {403, "Forbidden", "pods \"a\" is forbidden: error looking up service account n/s: not found", Code::kUnavailable,
       "create the ServiceAccount"},
      {404, "NotFound", "pods \"a\" not found", Code::kNotFound, ""},
      {408, "Timeout", "too slow", Code::kDeadlineExceeded, ""},
      {409, "AlreadyExists", "jobs.batch \"a\" already exists", Code::kAlreadyExists, ""},
      {409, "AlreadyExists", "object is being deleted: jobs.batch \"a\" already exists", Code::kAborted, ""},
      {409, "Conflict", "the object has been modified", Code::kAborted, ""},
      {410, "Expired", "too old", Code::kOutOfRange, ""},
      {413, "RequestEntityTooLarge", "too large", Code::kInvalid, "change"},
      {415, "UnsupportedMediaType", "no", Code::kUnimplemented, ""},
      {422, "Invalid", "spec.x: Invalid value", Code::kInvalid, "change"},
      {429, "TooManyRequests", "slow down", Code::kExhausted, ""},
      {500, "InternalError", "failed calling webhook", Code::kUnavailable, ""},
      {503, "ServiceUnavailable", "etcd", Code::kUnavailable, ""},
      {504, "Timeout", "etcd", Code::kUnavailable, ""},
  };
  for (const auto& c : kCases) {
    Api api;
    api.calls = {Api::status(c.status, c.reason, c.message)};
    Client client({api.origin()});
    const auto got = client.create(resources::kPods, "ns", Api::pod("a", ""));
    ASSERT_FALSE(got) << c.message;
    EXPECT_EQ(got.error().code, c.code) << c.status << " " << c.message;
    EXPECT_NE(got.error().message.find(c.message), std::string::npos) << got.error().message;
    EXPECT_NE(got.error().remedy.find(c.remedy), std::string::npos) << c.message << ": " << got.error().remedy;
  }
}

TEST(KubeErrors, ANamespaceThatIsBeingDeletedIsKnownByItsCause) {
  auto status = Api::status_object(403, "Forbidden", "jobs.batch \"a\" is forbidden: in other words");
  EXPECT_EQ(classify(403, status).code, Code::kInvalid);
  status.set("details").set("causes").push_back(Json::object({{"reason", "NamespaceTerminating"}}));
  EXPECT_EQ(classify(403, status).code, Code::kFailedPrecondition);
}

TEST(KubeErrors, OrdersWaitForWhatCanChange) {
  for (const auto& one : qm::testing::kKubeRefusals) {
    const auto refusal = classify(one.status, Api::status_object(one.status, one.reason, one.message));
    const Error error{refusal.code, one.message, {}, refusal.remedy};
    EXPECT_EQ(for_start(error).retryable(), one.start_waits) << one.what;
    EXPECT_EQ(for_release(error).retryable(), one.release_waits) << one.what;
    EXPECT_EQ(for_release(error).remedy, refusal.remedy) << one.what;
  }
  for (const auto code : {Code::kNotFound, Code::kUnimplemented, Code::kInternal, Code::kAlreadyExists}) {
    EXPECT_FALSE(for_release({code, {}, {}, {}}).retryable()) << name_of(code);
  }
  EXPECT_TRUE(for_start({Code::kUnauthenticated, {}, {}, {}}).retryable()) << "a certificate that is not accepted";
  EXPECT_TRUE(for_start({Code::kUnknown, {}, {}, {}}).retryable()) << "it may have arrived";
}

ClientOptions with_token(const Api& api, const std::string& path, const std::string& token) {
  std::ofstream(path) << token;
  ClientOptions options;
  options.server = api.origin();
  options.token_file = path;
  return options;
}

TEST(KubeErrors, ATokenThatIsNotAcceptedIsReadAgainAndTheCallRepeatedOnce) {
  const qm::testing::TempDir dir;
  const auto path = dir.path() + "/token";
  Api api;
  // The kubelet replaces the token between the read and the call.
  api.calls = {[&](const http::Request&) {
                 std::ofstream(path) << "second";
                 return http::json(401, Api::status_object(401, "Unauthorized", "expired").dump());
               },
               Api::body(Json::object({{"kind", "Pod"}}))};
  Client client(with_token(api, path, "first"));
  EXPECT_TRUE(client.get(resources::kNodes, "", "n"));
  ASSERT_EQ(api.seen().size(), 2U);
  EXPECT_EQ(api.seen()[0].headers.get("Authorization"), "Bearer first");
  EXPECT_EQ(api.seen()[1].headers.get("Authorization"), "Bearer second");
}

TEST(KubeErrors, ATokenThatStaysRefusedIsTemporary) {
  const qm::testing::TempDir dir;
  Api api;
  api.calls = {Api::status(401, "Unauthorized", "Unauthorized")};
  Client client(with_token(api, dir.path() + "/token", "first"));
  const auto got = client.get(resources::kNodes, "", "n");
  ASSERT_FALSE(got);
  EXPECT_TRUE(got.error().retryable()) << got.error().to_string();
  EXPECT_EQ(api.seen().size(), 2U) << "at once there is one repeat";
  ClientOptions fixed;
  fixed.server = api.origin();
  fixed.token = "fixed";
  EXPECT_FALSE(Client(fixed).get(resources::kNodes, "", "n"));
  EXPECT_EQ(api.seen().size(), 3U) << "nothing can have changed";
}

TEST(KubeErrors, AWatchThatIsNotAcceptedHasTheTokenReadAgain) {
  const qm::testing::TempDir dir;
  const auto path = dir.path() + "/token";
  Api api;
  api.watches = {[&](const http::Request&) {
                   const auto stamp = std::filesystem::last_write_time(path);
                   std::ofstream(path) << "again";  // of the same inode and size
                   std::filesystem::last_write_time(path, stamp);
                   return http::json(401, Api::status_object(401, "Unauthorized", "expired").dump());
                 },
                 Api::watch("")};
  Client client(with_token(api, path, "first"));
  const auto watch = [&] { return client.watch(resources::kPods, "ns", "1", [](const auto&, const auto&) {}, {}); };
  EXPECT_FALSE(watch());
  EXPECT_TRUE(watch());
  EXPECT_EQ(api.seen()[1].headers.get("Authorization"), "Bearer again");
}

http::Answer slow_down(int status, const char* seconds) {
  auto out = http::json(status, Api::status_object(status, "TooManyRequests", "slow down").dump());
  if (*seconds != 0) out.headers.set("Retry-After", seconds);
  return out;
}

TEST(KubeErrors, ACallIsNotSentAgainBeforeItsRetryAfter) {
  for (const int status : {429, 503}) {
    Api api;
    api.calls = {[&](const http::Request&) { return slow_down(status, "7"); },
                 Api::body(Json::object({{"kind", "Node"}}))};
    SteadyInstant now{1h};
    ClientOptions options;
    options.server = api.origin();
    options.now = [&] { return now; };
    Client client(options);
    const auto get = [&](const char* name) { return client.get(resources::kNodes, "", name); };
    ASSERT_FALSE(get("a"));
    now += 6900ms;
    const auto early = get("a");
    ASSERT_FALSE(early);
    EXPECT_TRUE(early.error().retryable());
    EXPECT_NE(early.error().message.find("slow down (repeated in 1 s, by Retry-After of the API server)"),
              std::string::npos)
        << early.error().message;
    EXPECT_EQ(api.seen().size(), 1U);
    EXPECT_TRUE(get("b")) << "another call does not wait";
    now += 100ms;
    EXPECT_TRUE(get("a"));
    EXPECT_EQ(api.seen().size(), 3U);
  }
}

TEST(KubeErrors, ARetryAfterIsBoundedAndWhatIsNoneIsIgnored) {
  for (const auto* text : {"", "0", "-1", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "99999999999999999999"}) {
    Api api;
    api.calls = {[&](const http::Request&) { return slow_down(429, text); }};
    Client client({api.origin()});
    EXPECT_FALSE(client.get(resources::kNodes, "", "n"));
    EXPECT_FALSE(client.get(resources::kNodes, "", "n"));
    EXPECT_EQ(api.seen().size(), 2U) << text;
  }
  Api api;
  api.calls = {[&](const http::Request&) { return slow_down(429, "86400"); }};
  SteadyInstant now{1h};
  ClientOptions options;
  options.server = api.origin();
  options.now = [&] { return now; };
  Client client(options);
  EXPECT_FALSE(client.get(resources::kNodes, "", "n"));
  now += 60s;
  EXPECT_FALSE(client.get(resources::kNodes, "", "n"));
  EXPECT_EQ(api.seen().size(), 2U);
}

}  // namespace errors_test
}  // namespace qm::kube
