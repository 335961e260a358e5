// Tokens, roles and identities without a server.
#include "qm/rpc/access.hpp"

#include "credentials.hpp"
#include "qm/rpc/rules.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace qm::rpc {
namespace access_test {

using namespace std::chrono_literals;
using qm::testing::TempDir;
using qm::testing::wait_until;
using testing::write_file;

const std::string kRoleMap = R"(apiVersion: access.quartermaster.dev/v1alpha1
kind: RoleMap
metadata: {name: roles}
spec:
  operators: {groups: [platform], users: [root@example.com]}
  auditors: {groups: [finance]}
  tenants:
  - {name: research, groups: [research], leads: {users: [leo]}, namespaces: [lab, lab-2], teams: [research]}
  - {name: product, groups: [product], namespaces: [shop], teams: [product]}
)";

std::shared_ptr<RoleMap> roles_in(const TempDir& dir, const std::string& text = kRoleMap) {
  write_file(dir.path() + "/roles.yaml", text);
  auto made = RoleMap::open(dir.path() + "/roles.yaml");
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? *made : nullptr;
}

TEST(Identity, ACertificateIdentifiesOneService) {
  struct Case {
    Call call;
    const char* service;
  };
  const Case cases[] = {
      {{"", "", true, "quartermaster-placement", {}}, "placement"},
      {{"", "", true, "", {"spiffe://example.org/quartermaster/agent"}}, "agent"},
      {{"", "", true, "x", {"spiffe://example.org/ns/gpu/quartermaster/cost"}}, "cost"},
      {{"", "", false, "quartermaster-placement", {}}, ""},                             // not over TLS
      {{"", "", true, "quartermaster-placement", {"spiffe://example.org/other"}}, ""},  // the URI has precedence
      {{"", "", true, "", {"https://example.org/quartermaster/agent"}}, ""},            // not a SPIFFE id
      {{"", "", true, "", {"spiffe://a/quartermaster/cost", "spiffe://a/quartermaster/agent"}}, ""},
      {{"", "", true, "quartermaster-", {}}, ""},
      {{"", "", true, "quartermaster-operator", {}}, ""},
      {{"", "", true, "not-quartermaster-cost", {}}, ""},
      {{"", "", true, "", {"spiffe://example.org/quartermaster/cost/x"}}, ""},
  };
  for (const auto& c : cases) EXPECT_EQ(service_of(c.call), c.service) << c.call.common_name;
}

TEST(Roles, GroupsAndUsersBecomeRolesAndTenants) {
  const TempDir dir;
  const auto roles = roles_in(dir);
  const auto user = roles->caller({"ursula", {"all-users", "research"}});
  EXPECT_EQ(user.roles(), "user");
  EXPECT_TRUE(user.sees("lab") && user.sees("", "research") && user.changes("lab-2", "research"));
  EXPECT_FALSE(user.sees("shop") || user.sees("", "product") || user.sees("", ""));
  EXPECT_FALSE(user.changes("shop") || user.changes("lab", "product"));
  EXPECT_TRUE(user.led.empty());
  const auto lead = roles->caller({"leo", {"product"}});
  EXPECT_EQ(lead.roles(), "user,team-lead");
  EXPECT_TRUE(lead.sees("shop") && lead.sees("lab"));
  EXPECT_EQ(lead.led, std::set<std::string>{"research"});
  const auto auditor = roles->caller({"anna", {"finance", "product"}});
  EXPECT_TRUE(auditor.sees("lab"));
  EXPECT_FALSE(auditor.changes("lab"));
  EXPECT_TRUE(auditor.changes("shop"));
  EXPECT_TRUE(roles->caller({"root@example.com", {}}).changes("anywhere", "any"));
  EXPECT_EQ(roles->caller({"norbert", {"canteen"}}).roles(), "none");
}

TEST(Roles, AMistakeIsNamedWithItsLine) {
  const TempDir dir;
  const auto path = dir.path() + "/roles.yaml";
  struct Case {
    const char* text;
    const char* shows;
  };
  const Case cases[] = {
      {"kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n", "is not a RoleMap"},
      {"apiVersion: access.quartermaster.dev/v1alpha1\nkind: RoleMap\nspec:\n  operators: {group: [x]}\n",
       ":4: spec.operators.group"},
      {"apiVersion: access.quartermaster.dev/v1alpha1\nkind: RoleMap\nspec:\n  operators: {groups: x}\n",
       "is not a list"},
      {"apiVersion: access.quartermaster.dev/v1alpha1\nkind: RoleMap\nspec:\n  tenants: [{name: a, groups: [\"\"]}]\n",
       "is not a name"},
      {"apiVersion: access.quartermaster.dev/v1alpha1\nkind: RoleMap\nspec:\n  admins: {}\n", "spec.admins"},
      {"spec: [", ""},
  };
  for (const auto& c : cases) {
    write_file(path, c.text);
    const auto opened = RoleMap::open(path);
    ASSERT_FALSE(opened) << c.text;
    EXPECT_NE(opened.error().message.find(c.shows), std::string::npos) << opened.error().message;
  }
  EXPECT_FALSE(RoleMap::open(dir.path() + "/none"));
}

TEST(Roles, AChangedFileCountsAndABrokenOneDoesNot) {
  const TempDir dir;
  const auto roles = roles_in(dir);
  EXPECT_EQ(roles->caller({"norbert", {"canteen"}}).roles(), "none");
  auto changed = kRoleMap;
  changed.replace(changed.find("groups: [platform]"), 18, "groups: [platform, canteen]");
  write_file(dir.path() + "/roles.yaml", changed);
  EXPECT_EQ(roles->caller({"norbert", {"canteen"}}).roles(), "operator");
  write_file(dir.path() + "/roles.yaml", "kind: nonsense, of another length altogether\n");
  EXPECT_EQ(roles->caller({"norbert", {"canteen"}}).roles(), "operator");
}

TEST(Tokens, AFileAsKubernetesWritesIt) {
  const TempDir dir;
  const auto path = dir.path() + "/tokens";
  write_file(path, "# tests\nabc,ursula,1,\"research,all-users\"\ndef,leo,2\n");
  const auto review = review_by_file(path);
  ASSERT_TRUE(review);
  EXPECT_EQ((*review)("abc")->groups, (std::vector<std::string>{"research", "all-users"}));
  EXPECT_EQ((*review)("def")->name, "leo");
  EXPECT_EQ((*review)("ab").error().code, Code::kUnauthenticated);
  write_file(path, "abc\n");
  EXPECT_FALSE(review_by_file(path));
}

TEST(Tokens, KubernetesIsAskedForOurAudience) {
  Json asked;
  Result<Json> answer = Json();
  const auto review = review_by_kubernetes(
      [&](const Json& object) -> Result<Json> {
        asked = object;
        return answer;
      },
      "quartermaster");
  const auto status = [](bool good, Json audiences) {
    return Json::object({{"status", Json::object({{"authenticated", good},
                                                  {"audiences", std::move(audiences)},
                                                  {"user", Json::object({{"username", "system:serviceaccount:lab:ci"},
                                                                         {"groups", Json::array({"research"})}})}})}});
  };
  answer = status(true, Json::array({"quartermaster"}));
  const auto who = review("the-token");
  ASSERT_TRUE(who);
  EXPECT_EQ(who->name, "system:serviceaccount:lab:ci");
  EXPECT_EQ(who->groups, std::vector<std::string>{"research"});
  EXPECT_EQ(asked.path("spec.token").string(), "the-token");
  EXPECT_EQ(asked.path("spec.audiences").at(0).string(), "quartermaster");
  // Not valid; of another audience; of a server without audiences.
  for (const auto& bad :
       {status(false, Json::array({"quartermaster"})), status(true, Json::array({"vault"})), status(true, Json())}) {
    answer = bad;
    EXPECT_EQ(review("the-token").error().code, Code::kUnauthenticated) << bad.dump();
  }
  answer = fail(Error{Code::kPermissionDenied, "403: no", {}, {}});
  EXPECT_EQ(review("the-token").error().code, Code::kUnavailable);
  EXPECT_NE(review("the-token").error().remedy.find("auth-delegator"), std::string::npos);
  EXPECT_EQ(review("the-token").error().to_string().find("the-token"), std::string::npos);
}

/// An Access whose reviews the test delays, with a manual clock.
struct Asked {
  explicit Asked(std::size_t most = 4096) {
    AccessOptions options;
    options.review = [this](const std::string& token) -> Result<Identity> {
      ++reviews;
      std::unique_lock lock(mutex);
      open.wait(lock, [this] { return !closed; });
      if (token == "away") return fail(Code::kUnavailable, "the API is away");
      if (token.starts_with("bad")) return fail(Code::kUnauthenticated, "not known");
      return Identity{token, {"research"}};
    };
    options.roles = roles_in(dir);
    options.most_cached = most;
    options.now = [this] { return SteadyInstant(std::chrono::milliseconds(now_ms)); };
    options.on_denied = [this](const Denial& denial) {
      const std::lock_guard lock(mutex);
      denials.push_back(denial);
    };
    access = std::make_unique<Access>(std::move(options));
  }
  static Call call_of(const std::string& token, const std::string& method = "Admission/Get") {
    Call call;
    call.path = "/quartermaster.v1." + method;
    if (!token.empty()) call.authorization = "Bearer " + token;
    return call;
  }
  Code ask(const std::string& token, const std::string& method = "Admission/Get") {
    std::atomic<int> code = -1;
    access->check(call_of(token, method), [&](const Status& s) { code = s ? 0 : static_cast<int>(s.error().code); });
    EXPECT_TRUE(wait_until([&] { return code >= 0; }));
    return static_cast<Code>(code.load());
  }
  TempDir dir;
  std::mutex mutex;
  std::condition_variable open;
  bool closed = false;
  std::vector<Denial> denials;
  std::atomic<int> reviews = 0;
  std::atomic<std::int64_t> now_ms = 1'000'000;
  std::unique_ptr<Access> access;
};
constexpr Code kAllowed = static_cast<Code>(0);

TEST(Access, AnAnswerHoldsAMinuteAndARefusalFiveSeconds) {
  Asked asked;
  EXPECT_EQ(asked.ask("ursula"), kAllowed);
  EXPECT_EQ(asked.ask("ursula"), kAllowed);
  asked.now_ms += 59'999;
  EXPECT_EQ(asked.ask("ursula"), kAllowed);
  EXPECT_EQ(asked.reviews, 1);
  asked.now_ms += 1;
  EXPECT_EQ(asked.ask("ursula"), kAllowed);
  EXPECT_EQ(asked.reviews, 2);
  EXPECT_EQ(asked.ask("bad"), Code::kUnauthenticated);
  EXPECT_EQ(asked.ask("bad"), Code::kUnauthenticated);
  EXPECT_EQ(asked.reviews, 3);
  asked.now_ms += 5'000;
  EXPECT_EQ(asked.ask("bad"), Code::kUnauthenticated);
  EXPECT_EQ(asked.reviews, 4);
  // A temporary failure is not cached.
  EXPECT_EQ(asked.ask("away"), Code::kUnavailable);
  EXPECT_EQ(asked.ask("away"), Code::kUnavailable);
  EXPECT_EQ(asked.reviews, 6);
}

TEST(Access, NoCallerWaitsOnAThreadAndATokenIsAskedForOnce) {
  Asked asked;
  {
    const std::lock_guard lock(asked.mutex);
    asked.closed = true;
  }
  std::atomic<int> answered = 0;
  for (int i = 0; i < 100; ++i) asked.access->check(Asked::call_of("ursula"), [&](const Status&) { ++answered; });
  // All of these arrived at once, and none has a result.
  EXPECT_EQ(answered, 0);
  {
    const std::lock_guard lock(asked.mutex);
    asked.closed = false;
  }
  asked.open.notify_all();
  EXPECT_TRUE(wait_until([&] { return answered == 100; }));
  EXPECT_EQ(asked.reviews, 1);
}

TEST(Access, TheCacheIsBounded) {
  Asked asked(8);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(asked.ask("user-" + std::to_string(i)), kAllowed);
  EXPECT_EQ(asked.access->caller(Asked::call_of("user-49")).name, "user-49");
  EXPECT_EQ(asked.access->caller(Asked::call_of("user-0")).name, "anonymous");
  EXPECT_FALSE(asked.access->caller(Asked::call_of("user-0")).sees("lab"));
  EXPECT_EQ(asked.ask("user-0"), kAllowed);
  EXPECT_EQ(asked.reviews, 51);
}

TEST(Access, DenialsAreReported) {
  Asked asked;
  EXPECT_EQ(asked.ask("ursula", "Admission/Apply"), Code::kPermissionDenied);
  EXPECT_EQ(asked.ask("", "Admission/Apply"), Code::kUnauthenticated);
  ASSERT_EQ(asked.denials.size(), 2U);
  EXPECT_EQ(asked.denials[0].caller, "ursula");
  EXPECT_EQ(asked.denials[0].method, "Admission/Apply");
  EXPECT_EQ(asked.denials[0].roles, "user");
  // A flood does not fill the log or the audit trail, but it is counted.
  metrics::Registry registry;
  asked.access->export_to(registry, "admission");
  for (int i = 0; i < 100; ++i) asked.ask("ursula", "Admission/Apply");
  EXPECT_EQ(asked.denials.size(), 10U);
  EXPECT_NE(registry.text().find("method=\"Admission/Apply\""), std::string::npos) << registry.text();
  EXPECT_NE(registry.text().find(" 101"), std::string::npos) << registry.text();
}

// A replica forwards an agent's stream with its own certificate. The name of the agent is trusted by the leader of
// the same service.
TEST(Access, WhatAReplicaPassesOnIsFromItsFirstCaller) {
  struct Case {
    const char *why, *server, *certificate, *forwarded, *method;
    bool may;
  };
  const Case cases[] = {
      {"an agent", "telemetry", "agent", "", "Telemetry/Push", true},
      {"an agent, passed on", "telemetry", "telemetry", "agent", "Telemetry/Push", true},
      {"telemetry itself", "telemetry", "telemetry", "", "Telemetry/Push", false},
      {"a person, passed on", "telemetry", "telemetry", kForUsers, "Telemetry/Push", false},
      {"an unknown caller, forwarded", "telemetry", "telemetry", "root", "Telemetry/Push", false},
      {"named by another service", "telemetry", "placement", "agent", "Telemetry/Push", false},
      {"an agent that claims to be a service", "telemetry", "agent", "cost", "Telemetry/Snapshot", false},
      {"named by a caller without a certificate", "telemetry", "", "agent", "Telemetry/Push", false},
      {"a server that is not of a service", "", "telemetry", "agent", "Telemetry/Push", false},
      {"a service, passed on", "cost", "cost", "placement", "Cost/Snapshot", true},
      {"an agent gains nothing by it", "cost", "cost", "agent", "Cost/Snapshot", false},
      {"nor does a person", "cost", "cost", kForUsers, "Cost/Snapshot", false},
  };
  for (const auto& c : cases) {
    AccessOptions options;
    options.service = c.server;
    Access access(std::move(options));
    Call call;
    call.path = std::string("/quartermaster.v1.") + c.method;
    call.tls = true;
    if (*c.certificate != '\0') call.common_name = std::string("quartermaster-") + c.certificate;
    call.forwarded = c.forwarded;
    bool allowed = !c.may;
    access.check(call, [&](const Status& s) { allowed = s.has_value(); });
    EXPECT_EQ(allowed, c.may) << c.why;
    if (!c.may) continue;
    EXPECT_EQ(access.caller(call).service, *c.forwarded != '\0' ? c.forwarded : c.certificate) << c.why;
  }
}

TEST(Access, WithoutAuthenticationUsersAreAcceptedAndUnknownServicesAreNot) {
  Access open({});
  Call call;
  call.path = "/quartermaster.v1.Admission/Apply";
  bool allowed = false;
  open.check(call, [&](const Status& s) { allowed = s.has_value(); });
  EXPECT_TRUE(allowed);
  EXPECT_TRUE(open.caller(call).changes("anywhere"));
  call.path = "/quartermaster.v1.Admission/Snapshot";
  open.check(call, [&](const Status& s) { allowed = s.has_value(); });
  EXPECT_TRUE(allowed);  // plain text on loopback
  call.tls = true;
  open.check(call, [&](const Status& s) { allowed = s.has_value(); });
  EXPECT_FALSE(allowed);
}

}  // namespace access_test
}  // namespace qm::rpc
