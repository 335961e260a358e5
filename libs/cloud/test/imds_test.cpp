#include "scripted.hpp"

#include <gtest/gtest.h>

namespace qm::cloud {
namespace imds_test {

MetadataOptions options_of(Scripted& service) {
  MetadataOptions out;
  out.outside = service.outside();
  return out;
}

// S-189: each read has a token; no request is sent without one.
TEST(Imds, OneTokenServesManyReads) {
  Scripted service;
  service.then(200, "tok\n").then(200, "i-1").then(404, "<html/>");
  InstanceMetadata imds("http://127.0.0.1:1/node/a/", options_of(service));
  const auto id = imds.get("instance-id");
  ASSERT_TRUE(id) << id.error().to_string();
  EXPECT_EQ(**id, "i-1");
  const auto none = imds.get("spot/instance-action");
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  ASSERT_EQ(service.seen.size(), 3u);
  EXPECT_EQ(service.seen[0].origin, "http://127.0.0.1:1");
  EXPECT_EQ(service.seen[0].request.method, "PUT");
  EXPECT_EQ(service.seen[0].request.target, "/node/a/latest/api/token");
  EXPECT_EQ(service.seen[0].request.headers.get("X-aws-ec2-metadata-token-ttl-seconds"), "21600");
  EXPECT_EQ(service.seen[1].request.target, "/node/a/latest/meta-data/instance-id");
  EXPECT_EQ(service.seen[1].request.headers.get("X-aws-ec2-metadata-token"), "tok");
  EXPECT_EQ(service.seen[2].request.headers.get("X-aws-ec2-metadata-token"), "tok");
}

// S-238: a loop that outlives its token.
TEST(Imds, TheTokenIsRenewedBeforeItsEnd) {
  Scripted service;
  auto options = options_of(service);
  options.token_ttl = std::chrono::seconds(100);
  InstanceMetadata imds("http://x", options);
  service.then(200, "one").then(200, "a");
  ASSERT_TRUE(imds.get("p"));
  service.now += std::chrono::seconds(89);
  service.then(200, "b");
  ASSERT_TRUE(imds.get("p"));
  EXPECT_EQ(service.seen.back().request.headers.get("X-aws-ec2-metadata-token"), "one");
  service.now += std::chrono::seconds(1);
  service.then(200, "two").then(200, "c");
  ASSERT_TRUE(imds.get("p"));
  EXPECT_EQ(service.seen.back().request.headers.get("X-aws-ec2-metadata-token"), "two");
}

// S-238: tokens expire after six hours; the loop continues, and a notice in the seventh hour is read.
TEST(Imds, ANoticeAtTheSeventhHourIsRead) {
  Scripted service;
  InstanceMetadata imds("http://x", options_of(service));
  service.then(200, "one").then(404, "");
  ASSERT_FALSE(*imds.get("spot/instance-action"));
  for (int hour = 1; hour <= 5; ++hour) {
    service.now += std::chrono::hours(1);
    service.then(404, "");
    ASSERT_FALSE(*imds.get("spot/instance-action"));
    EXPECT_EQ(service.seen.back().request.headers.get("X-aws-ec2-metadata-token"), "one");
  }
  service.now += std::chrono::minutes(59);  // from a minute before its expiry it is no longer used
  service.then(200, "two").then(404, "");
  ASSERT_FALSE(*imds.get("spot/instance-action"));
  service.now += std::chrono::minutes(61);
  service.then(200, R"({"action":"terminate"})");
  const auto notice = imds.get("spot/instance-action");
  ASSERT_TRUE(notice);
  EXPECT_EQ(**notice, R"({"action":"terminate"})");
  EXPECT_EQ(service.seen.back().request.headers.get("X-aws-ec2-metadata-token"), "two");
}

// S-238: the service no longer knows the token before its expiry.
TEST(Imds, ARefusedTokenIsReplacedOnce) {
  Scripted service;
  service.then(200, "one").then(401, "").then(200, "two").then(200, "x");
  InstanceMetadata imds("http://x", options_of(service));
  const auto got = imds.get("/latest/dynamic/instance-identity/document");
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(**got, "x");
  EXPECT_EQ(service.seen.back().request.target, "/latest/dynamic/instance-identity/document");

  Scripted deaf;
  deaf.then(200, "one").then(401, "").then(200, "two").then(401, "");
  InstanceMetadata other("http://x", options_of(deaf));
  const auto refused = other.get("p");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_NE(refused.error().remedy.find("hop limit"), std::string::npos);
}

TEST(Imds, FailuresNameTheCause) {
  Scripted service;
  service.then(400, "bad ttl");
  InstanceMetadata imds("http://x", options_of(service));
  EXPECT_EQ(imds.get("p").error().code, Code::kPermissionDenied);
  service.then_fails(Code::kUnavailable);
  EXPECT_EQ(imds.get("p").error().code, Code::kUnavailable);
  service.then(200, "tok").then(503, "");
  EXPECT_EQ(imds.get("p").error().code, Code::kUnavailable);
  service.then(400, "");
  EXPECT_EQ(imds.get("p").error().code, Code::kInvalid);
}

TEST(Imds, AnEndpointThatIsNoUrlIsInvalid) {
  InstanceMetadata imds("nowhere");
  EXPECT_EQ(imds.get("p").error().code, Code::kInvalid);
}

}  // namespace imds_test
}  // namespace qm::cloud
