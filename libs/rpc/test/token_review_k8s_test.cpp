// Tokens created by a real kube-apiserver, and reviewed by it.
#include "qm/kube/client.hpp"
#include "qm/rpc/access.hpp"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

namespace qm::rpc {
namespace token_review_k8s_test {

const kube::Resource kNamespaces{"", "v1", "namespaces", false};
const kube::Resource kAccounts{"", "v1", "serviceaccounts", true};
const kube::Resource kRequests{"", "v1", "serviceaccounts/person/token", true};
const kube::Resource kReviews{"authentication.k8s.io", "v1", "tokenreviews", false};

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Json named(const char* api, const char* kind, const std::string& name) {
  return Json::object({{"apiVersion", api}, {"kind", kind}, {"metadata", Json::object({{"name", name}})}});
}

class TokenReview : public ::testing::Test {
 protected:
  void SetUp() override {
    if (setting("QM_KUBE_URL").empty()) GTEST_SKIP() << "QM_KUBE_URL is not set: run ./qm peers kubernetes";
    admin_ = client(setting("QM_KUBE_TOKEN"));
    ns_ = fmt::format("token-review-{}", ::getpid());
    const auto there = [](const Result<Json>& made) { return made || made.error().code == Code::kAlreadyExists; };
    ASSERT_TRUE(there(admin_->create(kNamespaces, {}, named("v1", "Namespace", ns_))));
    ASSERT_TRUE(there(admin_->create(kAccounts, ns_, named("v1", "ServiceAccount", "person"))));
  }
  static std::unique_ptr<kube::Client> client(const std::string& token) {
    kube::ClientOptions options;
    options.server = setting("QM_KUBE_URL");
    options.ca_file = setting("QM_KUBE_CA");
    options.token = token;
    return std::make_unique<kube::Client>(options);
  }
  /// Requests a token as kubelets and "kubectl create token" do.
  std::string token_for(const std::string& audience) {
    auto request = named("authentication.k8s.io/v1", "TokenRequest", "");
    request.set("spec", Json::object({{"audiences", Json::array({audience})}, {"expirationSeconds", 600}}));
    const auto answer = admin_->create(kRequests, ns_, request);
    EXPECT_TRUE(answer) << answer.error().to_string();
    return answer ? answer->path("status.token").string() : "";
  }
  static Review reviewer(kube::Client& with) {
    return review_by_kubernetes([&with](const Json& review) { return with.create(kReviews, {}, review); },
                                "quartermaster");
  }

  std::unique_ptr<kube::Client> admin_;
  std::string ns_;
};

TEST_F(TokenReview, ATokenOfOurAudienceNamesItsUser) {
  const auto who = reviewer(*admin_)(token_for("quartermaster"));
  ASSERT_TRUE(who) << who.error().to_string();
  EXPECT_EQ(who->name, "system:serviceaccount:" + ns_ + ":person");
  EXPECT_NE(std::ranges::find(who->groups, "system:serviceaccounts:" + ns_), who->groups.end());
}

TEST_F(TokenReview, ATokenForAnotherIsNoneForUs) {
  for (const char* audience : {"https://kubernetes.default.svc", "vault"}) {
    const auto who = reviewer(*admin_)(token_for(audience));
    ASSERT_FALSE(who) << audience;
    EXPECT_EQ(who.error().code, Code::kUnauthenticated) << who.error().to_string();
  }
}

TEST_F(TokenReview, WhatIsNoTokenIsRefused) {
  for (const char* text : {"x", "a.b.c", "Bearer"}) {
    const auto who = reviewer(*admin_)(text);
    ASSERT_FALSE(who) << text;
    EXPECT_EQ(who.error().code, Code::kUnauthenticated) << who.error().to_string();
  }
}

TEST_F(TokenReview, ATokenOfAnAccountThatIsGoneIsRefused) {
  const auto token = token_for("quartermaster");
  ASSERT_TRUE(admin_->remove(kAccounts, ns_, "person", {}));
  bool refused = false;
  // The server caches a verdict for some seconds.
  EXPECT_TRUE(testing::wait_until(
      [&] {
        const auto who = reviewer(*admin_)(token);
        refused = !who && who.error().code == Code::kUnauthenticated;
        return refused;
      },
      std::chrono::seconds(60)));
}

TEST_F(TokenReview, AServiceThatMayNotReviewNamesTheMissingRole) {
  const auto unprivileged = client(setting("QM_KUBE_USER_TOKEN"));
  const auto who = reviewer(*unprivileged)("anything");
  ASSERT_FALSE(who);
  EXPECT_EQ(who.error().code, Code::kUnavailable) << "it does not concern the caller";
  EXPECT_NE(who.error().remedy.find("system:auth-delegator"), std::string::npos) << who.error().to_string();
}

}  // namespace token_review_k8s_test
}  // namespace qm::rpc
