#include "aws_rig.hpp"

#include <gmock/gmock.h>

namespace qm::fleet {
namespace aws_test {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(AwsApiTest, LackOfCapacityIsReportedAtOnceAndLeavesTheTokenFree) {
  world.limit_capacity("p5.48xlarge", Market::kOnDemand, 2);
  const auto three = aws.run_instances(request("t", 3));
  ASSERT_FALSE(three);
  EXPECT_EQ(three.error().code, Code::kExhausted);
  EXPECT_EQ(three.error().field, "capacity");
  EXPECT_TRUE(world.instances().empty()) << "all or nothing";
  EXPECT_EQ(calls, 1);
  ASSERT_TRUE(aws.run_instances(request("t", 2)));
  EXPECT_EQ(aws.run_instances(request("u")).error().field, "capacity");
  auto spot = request("v");
  spot.spot = true;
  EXPECT_TRUE(aws.run_instances(spot)) << "the other market has its own capacity";
}

TEST_F(AwsApiTest, OneRequestIsOneZone) {
  const auto got = aws.run_instances(request({}, 3));
  ASSERT_TRUE(got);
  EXPECT_EQ((*got)[0].zone, (*got)[1].zone);
  EXPECT_EQ((*got)[0].zone, (*got)[2].zone);
}

TEST_F(AwsApiTest, ATokenAnswersWithTheStateOfNowForADay) {
  const auto first = aws.run_instances(request("t"));
  ASSERT_TRUE(first);
  ASSERT_TRUE(aws.terminate_instances({first->front().id}));
  world.advance(seconds(60));
  const auto again = aws.run_instances(request("t"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->front().id, first->front().id);
  EXPECT_EQ(again->front().state, "terminated");
  world.advance(hours(2));  // the world has removed the instance, but the token is still valid
  EXPECT_EQ(aws.run_instances(request("t"))->front().id, first->front().id);
  world.advance(hours(24));
  EXPECT_NE(aws.run_instances(request("t"))->front().id, first->front().id);
}

TEST_F(AwsApiTest, BadParametersAreNamed) {
  auto bad = request();
  bad.instance_type = "p99.huge";
  EXPECT_THAT(aws.run_instances(bad).error().message, HasSubstr("p99.huge"));
  bad = request();
  bad.zone = "mars-1a";
  EXPECT_THAT(aws.run_instances(bad).error().message, HasSubstr("mars-1a"));
  bad = request();
  bad.image_id.clear();
  EXPECT_THAT(aws.run_instances(bad).error().message, HasSubstr("MissingParameter"));
  EXPECT_THAT(aws.run_instances(request(std::string(65, 't'))).error().message, HasSubstr("64 characters"));
  EXPECT_THAT(aws.run_instances(request({}, 0)).error().message, HasSubstr("MaxCount"));
  bad = request();
  bad.tags = {{"aws:mine", "x"}};
  EXPECT_THAT(aws.run_instances(bad).error().message, HasSubstr("reserved"));
  EXPECT_THAT(aws.describe_instances({}, {{"color", {"red"}}}).error().message, HasSubstr("color"));
  EXPECT_THAT(aws.terminate_instances({"x-1"}).error().message, HasSubstr("Malformed"));
  EXPECT_THAT(aws.describe_instance_types({"p99.huge"}).error().message, HasSubstr("InvalidInstanceType"));
  for (const auto& instance : world.instances()) ADD_FAILURE() << instance.id;
}

TEST_F(AwsApiTest, HiddenInstancesAppearWithTime) {
  api.set_hidden(seconds(30));
  const auto got = aws.run_instances(request("t"));
  ASSERT_TRUE(got);
  const auto id = got->front().id;
  EXPECT_TRUE(aws.describe_instances()->empty());
  EXPECT_EQ(aws.describe_instances({id}).error().code, Code::kNotFound);
  EXPECT_EQ(aws.run_instances(request("t"))->front().id, id) << "the token knows already";
  world.advance(seconds(30));
  EXPECT_EQ(aws.describe_instances()->size(), 1u);
}

TEST_F(AwsApiTest, PagesHoldStillWhileTheListMoves) {
  ASSERT_TRUE(aws.run_instances(request({}, 11)));
  auto options = client_options();
  options.page_size = 5;
  const auto send = options.outside.send;
  options.outside.send = [&, send](const std::string& origin, const http::Request& r, std::chrono::milliseconds t) {
    auto answer = send(origin, r, t);
    EXPECT_TRUE(world.launch_instance({"c5.large", "us-east-1a"}));
    return answer;
  };
  const auto seen = cloud::Aws(options).describe_instances();
  ASSERT_TRUE(seen);
  std::set<std::string> ids;
  for (const auto& instance : *seen) ids.insert(instance.id);
  EXPECT_EQ(ids.size(), seen->size());
  EXPECT_EQ(seen->size(), 13u) << "eleven, and the two that came before the last page";
}

TEST_F(AwsApiTest, FilterValuesMayHoldWildcards) {
  auto asked = request();
  asked.tags = {{"team", "vision-eu"}};
  ASSERT_TRUE(aws.run_instances(asked));
  const auto count = [this](const std::string& name, const std::string& value) {
    return aws.describe_instances({}, {{name, {value}}})->size();
  };
  EXPECT_EQ(count("tag:team", "vision-*"), 1u);
  EXPECT_EQ(count("tag:team", "vision-?u"), 1u);
  EXPECT_EQ(count("tag:team", "vision"), 0u);
  EXPECT_EQ(count("tag-key", "team"), 1u);
  EXPECT_EQ(count("instance-lifecycle", "spot"), 0u);
}

TEST_F(AwsApiTest, ThrottlingUsesTheErrorCodeOfEachService) {
  world.disturb(World::ApiFault::kThrottled, "", 1, world.now() + seconds(60));
  for (const auto& error :
       {aws.run_instances(request()).error(), aws.describe_groups().error(), aws.create_queue("q").error()}) {
    EXPECT_EQ(error.code, Code::kExhausted) << error.to_string();
    EXPECT_EQ(error.field, "rate");
  }
  EXPECT_EQ(sleeps, 12) << "three calls of five attempts";
  EXPECT_TRUE(world.instances().empty());
  world.advance(seconds(60));
  EXPECT_TRUE(aws.run_instances(request()));
}

TEST_F(AwsApiTest, OneServiceMayFailAlone) {
  world.disturb(World::ApiFault::kServerError, "ec2", 1, world.now() + seconds(60));
  EXPECT_EQ(aws.describe_instances().error().code, Code::kUnavailable);
  EXPECT_EQ(aws.run_instances(request()).error().code, Code::kUnknown);
  EXPECT_TRUE(aws.describe_groups());
  EXPECT_TRUE(world.instances().empty());
}

TEST_F(AwsApiTest, AClientWithAWrongClockFindsTheRightTime) {
  client_utc = kUtc - 3600;
  EXPECT_TRUE(aws.describe_instances());
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(aws.describe_groups());
  EXPECT_EQ(calls, 3) << "learnt once";
  client_utc = kUtc + 301;
  EXPECT_TRUE(cloud::Aws(client_options()).create_queue("q")) << "SQS refuses in its own way";
  EXPECT_EQ(calls, 5);
}

TEST_F(AwsApiTest, WhatIsNotSignedOrNotMeantIsRefused) {
  http::Request plain;
  plain.method = "POST";
  plain.body = "Action=DescribeInstances&Version=2016-11-15";
  const auto ec2 = api.handle(plain).head;
  EXPECT_EQ(ec2.status, 401);
  EXPECT_THAT(ec2.body, HasSubstr("<Code>AuthFailure</Code>"));
  EXPECT_EQ(ec2.headers.get("Date"), "Sat, 21 Nov 2026 09:14:29 GMT");
  plain.body = "Action=DescribeAutoScalingGroups&Version=2011-01-01";
  EXPECT_EQ(api.handle(plain).head.status, 403);
  plain.headers.set("X-Amz-Target", "AmazonSQS.ListQueues");
  const auto sqs = api.handle(plain).head;
  EXPECT_EQ(sqs.status, 403);
  EXPECT_THAT(sqs.body, HasSubstr("MissingAuthenticationToken"));

  const std::string describe = "Action=DescribeInstances&Version=2016-11-15";
  EXPECT_EQ(api.handle(sign("ec2", describe, "h")).head.status, 200);
  EXPECT_THAT(api.handle(sign("autoscaling", describe, "h")).head.body, HasSubstr("InvalidAction"));
  EXPECT_THAT(api.handle(sign("autoscaling", "Action=DescribeAutoScalingGroups&Version=2011-01-01", "")).head.body,
              HasSubstr("IncompleteSignature"));
  EXPECT_THAT(api.handle(sign("ec2", "Action=Explode&Version=2016-11-15", "h")).head.body, HasSubstr("Explode"));
  auto changed = sign("ec2", describe, "h");
  changed.body += "&InstanceId.1=i-1";
  EXPECT_EQ(api.handle(changed).head.status, 401);
}

TEST_F(AwsApiTest, ASpotInterruptionIsAMessageAndThenAReason) {
  auto spot = request();
  spot.spot = true;
  const auto got = aws.run_instances(spot);
  ASSERT_TRUE(got);
  const auto id = got->front().id;
  ASSERT_TRUE(world.give_spot_notice(id, seconds(120)));
  const auto received = events();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].path("detail.state").string(), "pending");
  EXPECT_EQ(received[1]["detail-type"].string(), "EC2 Spot Instance Interruption Warning");
  EXPECT_EQ(received[1].path("detail.instance-id").string(), id);
  EXPECT_EQ(received[1].path("detail.instance-action").string(), "terminate");
  EXPECT_EQ(received[1]["source"].string(), "aws.ec2");
  EXPECT_NE(received[0]["id"].string(), received[1]["id"].string());
  world.advance(seconds(121));
  const auto ended = aws.describe_instances({id});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->front().state_reason, "Server.SpotInstanceTermination");
  ASSERT_TRUE(ended->front().stopped);
  EXPECT_EQ(*ended->front().stopped, from_micros((kUtc + 120) * 1'000'000));
}

TEST_F(AwsApiTest, AGroupGoesOnTryingForCapacity) {
  world.limit_capacity("g5.xlarge", Market::kOnDemand, 1);
  cloud::NewGroup made;
  made.name = "gpu";
  made.instance_type = "g5.xlarge";
  made.max = made.desired = 3;
  ASSERT_TRUE(aws.create_group(made));
  EXPECT_EQ(aws.describe_groups()->front().instances.size(), 1u);
  world.advance(seconds(31));
  EXPECT_EQ(aws.describe_groups()->front().instances.size(), 1u);
  world.limit_capacity("g5.xlarge", Market::kOnDemand, -1);
  world.advance(seconds(31));
  const auto group = aws.describe_groups()->front();
  ASSERT_EQ(group.instances.size(), 3u);
  std::set<std::string> zones;
  for (const auto& member : group.instances) zones.insert(member.zone);
  EXPECT_EQ(zones.size(), 3u) << "one in each zone";
}

TEST_F(AwsApiTest, AGroupShrinksFromTheFullestZoneOldestFirst) {
  cloud::NewGroup made;
  made.name = "gpu";
  made.instance_type = "g5.xlarge";
  made.zones = {"us-east-1a", "us-east-1b"};
  made.max = 3;
  made.desired = 3;
  ASSERT_TRUE(aws.create_group(made));
  const auto before = aws.describe_groups()->front().instances;
  ASSERT_EQ(before[0].zone, "us-east-1a");
  ASSERT_EQ(before[2].zone, "us-east-1a");
  ASSERT_TRUE(aws.set_desired_capacity("gpu", 2));
  const auto after = aws.describe_groups()->front().instances;
  for (const auto& member : after) {
    EXPECT_EQ(member.lifecycle == "Terminating", member.instance_id == before[0].instance_id);
  }
  world.advance(seconds(31));
  EXPECT_EQ(aws.describe_groups()->front().instances.size(), 2u);
}

TEST_F(AwsApiTest, GroupsRefuseWhatTheirBoundsForbid) {
  cloud::NewGroup made;
  made.name = "gpu";
  made.instance_type = "g5.xlarge";
  made.min = made.desired = 1;
  made.max = 2;
  ASSERT_TRUE(aws.create_group(made));
  const auto member = aws.describe_groups()->front().instances.at(0).instance_id;
  EXPECT_EQ(aws.set_desired_capacity("gpu", 0).error().code, Code::kInvalid);
  EXPECT_THAT(aws.terminate_in_group(member, true).error().message, HasSubstr("min size"));
  EXPECT_EQ(aws.terminate_in_group("i-none", false).error().code, Code::kNotFound);
  ASSERT_TRUE(aws.terminate_in_group(member, false));
  world.advance(seconds(1));
  EXPECT_EQ(aws.describe_groups()->front().desired, 1);
  EXPECT_EQ(aws.describe_groups()->front().instances.size(), 2u) << "the leaving one and its replacement";
  made.name = "group-h";
  made.min = 3;
  EXPECT_EQ(aws.create_group(made).error().code, Code::kInvalid);
  made.min = 1;
  made.name = "group-i";
  made.zones = {"mars-1a"};
  EXPECT_THAT(aws.create_group(made).error().message, HasSubstr("mars-1a"));
}

TEST_F(AwsApiTest, MessagesReturnAfterTheirVisibilityWithNewReceipts) {
  ASSERT_TRUE(aws.create_queue("q"));
  ASSERT_TRUE(aws.send_message(url("q"), "m"));
  const auto first = aws.receive_messages(url("q"), 1, 0, 30).value();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(aws.receive_messages(url("q"), 1, 0)->empty());
  steady = steady.load() + seconds(30);
  const auto second = aws.receive_messages(url("q"), 1, 0, 30).value();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(second[0].receipt, first[0].receipt);
  ASSERT_TRUE(aws.delete_message(url("q"), first[0].receipt)) << "an old receipt still counts";
  steady = steady.load() + seconds(30);
  EXPECT_TRUE(aws.receive_messages(url("q"), 1, 0)->empty());
}

TEST_F(AwsApiTest, QueueParametersAreBound) {
  ASSERT_TRUE(aws.create_queue("q"));
  EXPECT_EQ(aws.create_queue("no spaces").error().code, Code::kInvalid);
  EXPECT_EQ(aws.create_queue(std::string(81, 'q')).error().code, Code::kInvalid);
  EXPECT_EQ(aws.send_message(url("q"), "").error().code, Code::kInvalid);
  EXPECT_EQ(aws.send_message(url("q"), std::string(256 * 1024 + 1, 'x')).error().code, Code::kInvalid);
  EXPECT_EQ(aws.receive_messages(url("q"), 11, 0).error().code, Code::kInvalid);
  EXPECT_EQ(aws.receive_messages(url("q"), 1, 21).error().code, Code::kInvalid);
  EXPECT_EQ(aws.receive_messages(url("q"), 1, 0, 43'201).error().code, Code::kInvalid);
  EXPECT_EQ(aws.delete_message(url("q"), "nonsense").error().code, Code::kInvalid);
  EXPECT_EQ(aws.send_message(url("none"), "m").error().code, Code::kNotFound);
}

TEST_F(AwsApiTest, MessagesAreDeletedTenInACall) {
  ASSERT_TRUE(aws.create_queue("q"));
  std::vector<std::string> receipts;
  for (int i = 0; i < 23; ++i) ASSERT_TRUE(aws.send_message(url("q"), std::to_string(i)));
  for (int i = 0; i < 3; ++i) {
    const auto received = aws.receive_messages(url("q"), 10, 0).value();
    for (const auto& message : received) receipts.push_back(message.receipt);
  }
  ASSERT_EQ(receipts.size(), 23U);
  receipts.emplace_back("nonsense");
  calls = 0;
  EXPECT_EQ(aws.delete_messages(url("q"), receipts).value(), 1U) << "one receipt is not valid";
  EXPECT_EQ(calls, 3);
  steady = steady.load() + seconds(60);
  EXPECT_TRUE(aws.receive_messages(url("q"), 10, 0)->empty());
  EXPECT_EQ(aws.delete_messages(url("q"), {}).value(), 0U);
  EXPECT_EQ(aws.delete_messages(url("none"), receipts).error().code, Code::kNotFound);
}

TEST_F(AwsApiTest, ALongPollIsAnsweredByAMessageAndNotByAGoneReader) {
  ASSERT_TRUE(aws.create_queue("q"));
  ASSERT_TRUE(aws.receive_messages(url("q"), 10, 20));
  const auto gone = stream;
  ASSERT_TRUE(gone) << "it waits";
  gone->gone = true;
  ASSERT_TRUE(aws.receive_messages(url("q"), 10, 20));
  const auto waiting = stream;
  EXPECT_TRUE(waiting->written.empty());
  ASSERT_TRUE(aws.send_message(url("q"), "m"));
  EXPECT_TRUE(gone->written.empty());
  EXPECT_THAT(waiting->written, HasSubstr("\"Body\":\"m\""));
  EXPECT_TRUE(waiting->ended);
}

}  // namespace aws_test
}  // namespace qm::fleet
