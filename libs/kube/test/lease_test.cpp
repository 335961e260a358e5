#include "qm/kube/lease.hpp"

#include "scripted_api.hpp"

#include <gtest/gtest.h>

namespace qm::kube {
namespace lease_test {

using Api = ScriptedApi;

/// Stores what is written, as version `version`.
Api::Step stored(const std::string& version) {
  return [=](const http::Request& request) {
    auto object = *Json::parse(request.body);
    object.set("metadata").set("resourceVersion", version);
    return http::json(200, object.dump());
  };
}
Json held_by(const std::string& holder, std::int64_t term, const std::string& version) {
  return Json::object({{"kind", "Lease"},
                       {"metadata", Json::object({{"name", "l"}, {"namespace", "ns"}, {"resourceVersion", version}})},
                       {"spec", Json::object({{"holderIdentity", holder}, {"leaseTransitions", term}})}});
}

class LeaseRequests : public ::testing::Test {
 protected:
  std::string sent() const {
    std::string out;
    for (const auto& request : api_.seen()) {
      const auto body = Json::parse(request.body);
      const auto version = body ? (*body)["metadata"]["resourceVersion"].string() : std::string();
      out += request.method + (version.empty() ? " " : " " + version + " ");
    }
    return out;
  }
  static ClientOptions options_of(const Api& api) {
    ClientOptions options;
    options.server = api.origin();
    return options;
  }
  Api api_;
  Client client_{options_of(api_)};
  LeaseRecord lease_{client_, "ns", "l", {"a", 3}};
};

TEST_F(LeaseRequests, ARenewalIsOneRequest) {
  api_.calls = {Api::status(404, "NotFound", "no lease"), stored("1"), stored("2"), stored("3")};
  ASSERT_TRUE(lease_.renew());
  ASSERT_TRUE(lease_.renew());
  ASSERT_TRUE(lease_.give_up());
  EXPECT_EQ(sent(), "GET POST PUT 1 PUT 2 ") << "every write names the version that it replaces";
}

TEST_F(LeaseRequests, AWriteByAnotherIsReadFirst) {
  api_.calls = {Api::body(held_by("b", 2, "7")), stored("8"), Api::status(409, "Conflict", "changed"),
                Api::body(held_by("a", 3, "9")), stored("10")};
  ASSERT_TRUE(lease_.renew());
  ASSERT_TRUE(lease_.renew());
  EXPECT_EQ(sent(), "GET PUT 7 PUT 8 GET PUT 9 ");
}

TEST_F(LeaseRequests, ALaterTermIsNotOverwritten) {
  api_.calls = {Api::body(held_by("b", 2, "7")), stored("8"), Api::status(409, "Conflict", "changed"),
                Api::body(held_by("c", 4, "9"))};
  ASSERT_TRUE(lease_.renew());
  const auto late = lease_.renew();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(sent(), "GET PUT 7 PUT 8 GET ");
}

TEST_F(LeaseRequests, ADeletedLeaseIsMadeAgain) {
  api_.calls = {Api::body(held_by("b", 2, "7")), stored("8"), Api::status(404, "NotFound", "no lease"),
                Api::status(404, "NotFound", "no lease"), stored("1")};
  ASSERT_TRUE(lease_.renew());
  ASSERT_TRUE(lease_.renew());
  EXPECT_EQ(sent(), "GET PUT 7 PUT 8 GET POST ");
}

}  // namespace lease_test
}  // namespace qm::kube
