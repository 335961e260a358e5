// The responses of Kubernetes, their results, and how long they are cached.
#include "qm/kube/access_review.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::kube {
namespace access_review_test {

using namespace std::chrono_literals;

struct Reviews {
  std::vector<Json> asked;
  Result<Json> answer = Json::object({{"status", Json::object({{"allowed", true}})}});
  SteadyInstant now{};
  AccessReviews reviews{[this](const Json& review) {
                          asked.push_back(review);
                          return answer;
                        },
                        [this] {
                          AccessReviews::Options out;
                          out.most = 3;
                          out.now = [this] { return now; };
                          return out;
                        }()};
  void shows(const char* status) { answer = Json::object({{"status", *Json::parse(status)}}); }
};

const AccessRequest kJobs{"anna", {"research"}, "create", "batch", "jobs", "lab"};

TEST(AccessReviews, AskWhatTheUserMay) {
  Reviews r;
  EXPECT_TRUE(r.reviews.check(kJobs));
  ASSERT_EQ(r.asked.size(), 1U);
  EXPECT_EQ(
      r.asked[0].dump(),
      R"({"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"anna","groups":["research"],)"
      R"("resourceAttributes":{"namespace":"lab","verb":"create","group":"batch","resource":"jobs"}}})");
  EXPECT_TRUE(r.reviews.check({"anna", {}, "impersonate", "", "serviceaccounts", "lab", "trainer"}));
  EXPECT_EQ(r.asked[1].path("spec.resourceAttributes.name").string(), "trainer");
}

TEST(AccessReviews, ADenialNamesUserVerbResourceNamespaceAndTheWayOut) {
  Reviews r;
  r.shows(R"({"allowed":false,"reason":"no RBAC policy matched"})");
  const auto denied = r.reviews.check(kJobs);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kPermissionDenied);
  EXPECT_EQ(denied.error().message, "anna may not create jobs.batch in namespace lab: no RBAC policy matched");
  EXPECT_EQ(denied.error().remedy, "bind a Role with verb create on jobs.batch in namespace lab to anna");
  const auto named = r.reviews.check({"anna", {}, "impersonate", "", "serviceaccounts", "lab", "trainer"});
  EXPECT_EQ(named.error().message,
            "anna may not impersonate serviceaccounts/trainer in namespace lab: no RBAC policy matched");
  EXPECT_EQ(named.error().remedy,
            "bind a Role with verb impersonate on serviceaccounts (resourceNames: [trainer]) in namespace lab to anna");
}

TEST(AccessReviews, WhatIsNotKnownIsNeitherYesNorNo) {
  Reviews r;
  r.answer = fail(Code::kUnavailable, "connection refused");
  EXPECT_EQ(r.reviews.check(kJobs).error().code, Code::kUnavailable);
  r.now += 1s;
  r.answer = fail(Code::kPermissionDenied, "403");
  const auto ours = r.reviews.check(kJobs);
  EXPECT_EQ(ours.error().code, Code::kUnavailable) << "a refused review concerns our own account";
  EXPECT_NE(ours.error().remedy.find("subjectaccessreviews"), std::string::npos);
  r.now += 1s;
  r.shows(R"({"allowed":false,"evaluationError":"webhook timed out"})");
  EXPECT_EQ(r.reviews.check(kJobs).error().code, Code::kUnavailable);
  r.now += 1s;
  r.shows(R"({"allowed":false,"denied":true,"evaluationError":"webhook timed out"})");
  EXPECT_EQ(r.reviews.check(kJobs).error().code, Code::kPermissionDenied);
}

TEST(AccessReviews, AnswersAreKeptForAWhile) {
  Reviews r;
  const auto asks = [&](SteadyDuration after) {
    const auto before = r.asked.size();
    r.now += after;
    (void)r.reviews.check(kJobs);
    return r.asked.size() - before;
  };
  EXPECT_EQ(asks(0s), 1U);
  EXPECT_EQ(asks(29s), 0U);
  r.shows(R"({"allowed":false})");
  EXPECT_EQ(asks(1s), 1U) << "what was allowed is asked about again";
  EXPECT_EQ(asks(4s), 0U);
  r.answer = fail(Code::kUnavailable, "away");
  EXPECT_EQ(asks(1s), 1U);
  EXPECT_EQ(asks(999ms), 0U) << "the next caller does not wait for a server that is away";
  EXPECT_EQ(asks(1ms), 1U);
}

TEST(AccessReviews, AnswersAreOfOneUserAndBounded) {
  Reviews r;
  auto other = kJobs;
  other.groups = {"finance"};
  EXPECT_TRUE(r.reviews.check(kJobs));
  r.shows(R"({"allowed":false})");
  EXPECT_FALSE(r.reviews.check(other)) << "the same user in other groups";
  other = kJobs;
  other.user = "annaresearch";
  other.groups = {};
  EXPECT_FALSE(r.reviews.check(other));
  EXPECT_TRUE(r.reviews.check(kJobs));
  EXPECT_EQ(r.asked.size(), 3U);
  other.ns = "x";
  EXPECT_FALSE(r.reviews.check(other));
  EXPECT_FALSE(r.reviews.check(kJobs)) << "the oldest of three went";
  EXPECT_EQ(r.asked.size(), 5U);
}

}  // namespace access_review_test
}  // namespace qm::kube
