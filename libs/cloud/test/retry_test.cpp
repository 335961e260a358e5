#include "scripted.hpp"
#include "src/failure.hpp"

#include <gtest/gtest.h>

namespace qm::cloud {
namespace retry_test {

using std::chrono::milliseconds;

const std::string kNoInstances = "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>";
const std::string kDone = "<TerminateInstancesResponse/>";
const std::string kOneInstance =
    "<RunInstancesResponse><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet>"
    "</RunInstancesResponse>";

TEST(Retry, ThrottlingIsWaitedOutWithGrowingCeilings) {
  Scripted cloud;
  for (int i = 0; i < 4; ++i) cloud.then_ec2_error(503, "RequestLimitExceeded");
  cloud.then(200, kNoInstances);
  Aws aws(cloud.options());
  const auto got = aws.describe_instances();
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(cloud.sleeps, (std::vector{milliseconds(100), milliseconds(200), milliseconds(400), milliseconds(800)}));
}

TEST(Retry, JitterDrawsTheWholeRangeAndCeilingIsBound) {
  Scripted cloud;
  cloud.jitter = 0;
  for (int i = 0; i < 3; ++i) cloud.then_ec2_error(503, "Throttling");
  auto options = cloud.options();
  options.max_attempts = 3;
  EXPECT_FALSE(Aws(options).describe_instances());
  EXPECT_EQ(cloud.sleeps, (std::vector{milliseconds(0), milliseconds(0)}));

  Scripted patient;
  for (int i = 0; i < 12; ++i) patient.then_ec2_error(503, "Throttling");
  options = patient.options();
  options.max_attempts = 12;
  EXPECT_FALSE(Aws(options).describe_instances());
  EXPECT_EQ(patient.sleeps.back(), milliseconds(5000));
}

TEST(Retry, ThrottledPastAllAttemptsIsExhaustedByRate) {
  Scripted cloud;
  for (int i = 0; i < 5; ++i) cloud.then_ec2_error(503, "RequestLimitExceeded");
  Aws aws(cloud.options());
  const auto got =
      aws.run_instances({.client_token = "t", .instance_type = "p5.48xlarge", .zone = {}, .tags = {}, .user_data = {}});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kExhausted);
  EXPECT_EQ(got.error().field, "rate");
  EXPECT_TRUE(got.error().retryable());
  EXPECT_EQ(cloud.seen.size(), 5u);
}

TEST(Retry, CapacityIsAnAnswerAtOnceThoughItIsA500) {
  Scripted cloud;
  cloud.then_ec2_error(500, "InsufficientInstanceCapacity");
  Aws aws(cloud.options());
  const auto got =
      aws.run_instances({.client_token = "t", .instance_type = "p5.48xlarge", .zone = {}, .tags = {}, .user_data = {}});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kExhausted);
  EXPECT_EQ(got.error().field, "capacity");
  EXPECT_NE(got.error().message.find("InsufficientInstanceCapacity: said so"), std::string::npos);
  EXPECT_EQ(cloud.seen.size(), 1u);
}

TEST(Retry, ALostAnswerOfALaunchIsAskedAgainWithTheSameToken) {
  Scripted cloud;
  cloud.then_fails(Code::kUnknown).then_fails(Code::kDeadlineExceeded).then(200, kOneInstance);
  Aws aws(cloud.options());
  const auto got = aws.run_instances(
      {.client_token = "tok-1", .instance_type = "m5.large", .zone = {}, .tags = {}, .user_data = {}});
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->front().id, "i-1");
  ASSERT_EQ(cloud.seen.size(), 3u);
  EXPECT_EQ(cloud.body(0), cloud.body(2));
  EXPECT_NE(cloud.body(0).find("ClientToken=tok-1"), std::string::npos);
}

TEST(Retry, WithoutATokenOneIsMadeAndKept) {
  Scripted cloud;
  cloud.then_fails(Code::kUnknown).then(200, kOneInstance).then(200, kOneInstance);
  Aws aws(cloud.options());
  InstanceRequest request;
  request.instance_type = "m5.large";
  ASSERT_TRUE(aws.run_instances(request));
  ASSERT_TRUE(aws.run_instances(request));
  EXPECT_EQ(cloud.body(0), cloud.body(1));
  EXPECT_NE(cloud.body(1), cloud.body(2));
}

TEST(Retry, LostToTheEndIsUnknownForAChangeAndUnavailableForARead) {
  Scripted cloud;
  for (int i = 0; i < 10; ++i) cloud.then_fails(Code::kUnknown);
  Aws aws(cloud.options());
  const auto change = aws.terminate_instances({"i-1"});
  ASSERT_FALSE(change);
  EXPECT_EQ(change.error().code, Code::kUnknown);
  EXPECT_FALSE(change.error().remedy.empty());
  const auto read = aws.describe_instances();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kUnavailable);
}

TEST(Retry, AThrottleAfterALostAnswerLeavesItUnknown) {
  Scripted cloud;
  cloud.then_fails(Code::kUnknown);
  for (int i = 0; i < 4; ++i) cloud.then_ec2_error(503, "RequestLimitExceeded");
  Aws aws(cloud.options());
  EXPECT_EQ(aws.terminate_instances({"i-1"}).error().code, Code::kUnknown);
}

TEST(Retry, ARefusedConnectionIsUnavailableForChangesToo) {
  Scripted cloud;
  for (int i = 0; i < 5; ++i) cloud.then_fails(Code::kUnavailable);
  Aws aws(cloud.options());
  EXPECT_EQ(aws.terminate_instances({"i-1"}).error().code, Code::kUnavailable);
}

TEST(Retry, WhatMustHappenOnceIsRepeatedOnlyWhenItDidNotArrive) {
  const std::string refused = R"({"__type":"com.amazonaws.sqs#ThrottlingException","message":"slow"})";
  Scripted cloud;
  cloud.then(400, refused).then_fails(Code::kUnavailable).then(200, "{}");
  EXPECT_TRUE(Aws(cloud.options()).send_message("q", "m"));
  EXPECT_EQ(cloud.seen.size(), 3u);

  Scripted lossy;
  lossy.then_fails(Code::kUnknown).then(200, "{}");
  const auto lost = Aws(lossy.options()).send_message("q", "m");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kUnknown);
  EXPECT_EQ(lossy.seen.size(), 1u);

  Scripted stumbling;
  stumbling.then(500, "<ErrorResponse><Error><Code>InternalFailure</Code></Error></ErrorResponse>");
  EXPECT_EQ(Aws(stumbling.options()).terminate_in_group("i-1", true).error().code, Code::kUnknown);
}

TEST(Retry, TheBudgetIsSharedAndRefilledBySuccess) {
  Scripted cloud;
  for (int i = 0; i < 3; ++i) cloud.then_ec2_error(503, "Throttling");
  auto options = cloud.options();
  options.retry_budget = 10;  // two retries
  Aws aws(options);
  EXPECT_FALSE(aws.describe_instances());
  EXPECT_EQ(cloud.seen.size(), 3u);  // the first and two retries, not five
  cloud.then_ec2_error(503, "Throttling");
  EXPECT_FALSE(aws.describe_instances());
  EXPECT_EQ(cloud.seen.size(), 4u);  // empty: no retry at all
  for (int i = 0; i < 5; ++i) {
    cloud.then(200, kNoInstances);
    EXPECT_TRUE(aws.describe_instances());
  }
  cloud.then_ec2_error(503, "Throttling").then(200, kNoInstances);
  EXPECT_TRUE(aws.describe_instances());  // five successes return the tokens for one retry
}

TEST(Retry, AThrottledServiceIsCalledAtTheRateThatItAccepts) {
  Scripted cloud;
  cloud.jitter = 0;  // only the waits of the rate
  cloud.then_ec2_error(503, "RequestLimitExceeded").then(200, kNoInstances).then(200, kNoInstances).then(200, "<a/>");
  auto options = cloud.options();
  options.adaptive = true;
  cloud.now += std::chrono::seconds(10);
  Aws aws(options);
  ASSERT_TRUE(aws.describe_instances());
  ASSERT_TRUE(aws.describe_instances());
  // After the jitter the retry waits for a token at the least rate, and the next call for one at the grown rate.
  EXPECT_EQ(cloud.sleeps, (std::vector{milliseconds(0), milliseconds(2000), milliseconds(625)}));
  ASSERT_TRUE(aws.describe_groups());
  EXPECT_EQ(cloud.sleeps.size(), 3U) << "another service has its own rate";
}

TEST(Retry, ASkewedClockIsCorrectedOnceByTheDateHeader) {
  Scripted cloud;
  cloud.then_ec2_error(400, "RequestExpired", "Sat, 21 Nov 2026 10:14:29 GMT");
  cloud.then(200, kNoInstances).then(200, kNoInstances);
  Aws aws(cloud.options());
  ASSERT_TRUE(aws.describe_instances());
  ASSERT_TRUE(aws.describe_instances());
  EXPECT_EQ(cloud.seen[0].request.headers.get("X-Amz-Date"), "20261121T091429Z");
  EXPECT_EQ(cloud.seen[1].request.headers.get("X-Amz-Date"), "20261121T101429Z");
  EXPECT_EQ(cloud.seen[2].request.headers.get("X-Amz-Date"), "20261121T101429Z");
  EXPECT_TRUE(cloud.sleeps.empty());
}

TEST(Retry, AWrongSecretIsNoSkew) {
  Scripted cloud;
  cloud.then_ec2_error(401, "AuthFailure", "Sat, 21 Nov 2026 09:14:31 GMT");
  Aws aws(cloud.options());
  const auto got = aws.describe_instances();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kPermissionDenied);
  EXPECT_EQ(cloud.seen.size(), 1u);
}

TEST(Retry, ARefusalThatStaysAfterTheCorrectionEnds) {
  Scripted cloud;
  cloud.then_ec2_error(403, "SignatureDoesNotMatch", "Sat, 21 Nov 2026 10:14:29 GMT");
  cloud.then_ec2_error(403, "SignatureDoesNotMatch", "Sat, 21 Nov 2026 12:14:29 GMT");
  Aws aws(cloud.options());
  EXPECT_EQ(aws.describe_instances().error().code, Code::kPermissionDenied);
  EXPECT_EQ(cloud.seen.size(), 2u);
}

TEST(Retry, AnAnswerThatCannotBeReadIsUnknownForAChange) {
  Scripted cloud;
  cloud.then(200, "<cut").then(200, "<cut");
  Aws aws(cloud.options());
  EXPECT_EQ(aws.terminate_instances({"i-1"}).error().code, Code::kUnknown);
  EXPECT_EQ(aws.describe_instances().error().code, Code::kInternal);
}

TEST(Failure, CodesBecomeOurs) {
  struct Case {
    int status;
    const char* code;
    Code ours;
  };
  const Case cases[] = {
      {400, "InvalidParameterValue", Code::kInvalid},
      {400, "IdempotentParameterMismatch", Code::kInvalid},
      {400, "InvalidInstanceID.NotFound", Code::kNotFound},
      {400, "AWS.SimpleQueueService.NonExistentQueue", Code::kNotFound},
      {400, "AlreadyExists", Code::kAlreadyExists},
      {400, "InvalidLaunchTemplateName.AlreadyExistsException", Code::kAlreadyExists},
      {400, "ScalingActivityInProgress", Code::kAborted},
      {403, "UnauthorizedOperation", Code::kPermissionDenied},
      {403, "AccessDeniedException", Code::kPermissionDenied},
      {403, "Whatever", Code::kPermissionDenied},
      {400, "VcpuLimitExceeded", Code::kExhausted},
      {400, "Throttling", Code::kExhausted},
      {429, "Whatever", Code::kExhausted},
      {500, "ResourceContention", Code::kUnavailable},
      {502, "Whatever", Code::kUnavailable},
  };
  for (const auto& c : cases) {
    const Failure f{failure_class(c.status, c.code), c.status, c.code, "m"};
    EXPECT_EQ(f.error().code, c.ours) << c.code;
  }
}

TEST(Failure, AllThreeFormsAreRead) {
  const auto query = read_failure({400,
                                   {},
                                   "<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>"
                                   "AutoScalingGroup name not found - x</Message></Error></ErrorResponse>"});
  EXPECT_EQ(query.code, "ValidationError");
  EXPECT_EQ(query.error().code, Code::kNotFound);
  const auto json = read_failure({400, {}, R"({"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"gone"})"});
  EXPECT_EQ(json.code, "QueueDoesNotExist");
  EXPECT_EQ(json.message, "gone");
  EXPECT_EQ(json.error().code, Code::kNotFound);
  const auto mixed = read_failure({401,
                                   {},
                                   "<ErrorResponse><Errors><Error><Code>AuthFailure</Code><Message>no</Message>"
                                   "</Error></Errors></ErrorResponse>"});
  EXPECT_EQ(mixed.code, "AuthFailure");
  const auto page = read_failure({404, {}, "<html><body>nginx"});
  EXPECT_EQ(page.code, "HTTP 404");
  EXPECT_NE(page.message.find("endpoint"), std::string::npos);
}

TEST(Failure, HttpDates) {
  EXPECT_EQ(parse_http_date("Sat, 21 Nov 2026 09:14:29 GMT"), 1'795'252'469);
  EXPECT_FALSE(parse_http_date(""));
  EXPECT_FALSE(parse_http_date("2026-11-21T09:14:29Z"));
  EXPECT_FALSE(parse_http_date("Sat, 21 Nov 2026 09:14:29 GMT+1"));
}

}  // namespace retry_test
}  // namespace qm::cloud
