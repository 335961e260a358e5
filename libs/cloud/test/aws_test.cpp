#include "qm/cloud/aws.hpp"

#include "scripted.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace qm::cloud {
namespace aws_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Aws, EveryCallIsSignedForItsService) {
  Scripted cloud;
  cloud.then(200, "<a/>").then(200, "<a/>").then(200, "{}");
  auto options = cloud.options();
  options.session_token = "st";
  Aws aws(options);
  ASSERT_TRUE(aws.describe_instances());
  ASSERT_TRUE(aws.describe_groups());
  ASSERT_TRUE(aws.delete_message("q", "r"));
  const char* services[] = {"ec2", "autoscaling", "sqs"};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& request = cloud.seen[i].request;
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/");
    EXPECT_EQ(cloud.seen[i].origin, "http://cloud:1");
    EXPECT_EQ(request.headers.get("Host"), "cloud:1");
    EXPECT_EQ(request.headers.get("X-Amz-Security-Token"), "st");
    const auto auth = parse_authorization(request.headers.get("Authorization"));
    ASSERT_TRUE(auth);
    EXPECT_EQ(auth->service, services[i]);
    EXPECT_EQ(auth->access_key, "key");
  }
  EXPECT_EQ(cloud.seen[0].request.headers.get("Content-Type"), "application/x-www-form-urlencoded; charset=utf-8");
  EXPECT_EQ(cloud.seen[2].request.headers.get("Content-Type"), "application/x-amz-json-1.0");
  EXPECT_EQ(cloud.seen[2].request.headers.get("X-Amz-Target"), "AmazonSQS.DeleteMessage");
}

TEST(Aws, WithoutAnEndpointTheServicesOwnAreUsed) {
  Scripted cloud;
  cloud.then(200, "<a/>").then(200, "<a/>");
  auto options = cloud.options();
  options.endpoint.clear();
  options.region = "eu-west-1";
  ASSERT_TRUE(Aws(options).describe_instances());
  EXPECT_EQ(cloud.seen[0].origin, "https://ec2.eu-west-1.amazonaws.com");
  options.region = "cn-north-1";
  ASSERT_TRUE(Aws(options).describe_groups());
  EXPECT_EQ(cloud.seen[1].origin, "https://autoscaling.cn-north-1.amazonaws.com.cn");
}

TEST(Aws, OptionsComeFromTheEnvironment) {
  std::map<std::string, std::string> variables = {
      {"AWS_ACCESS_KEY_ID", "a"},         {"AWS_SECRET_ACCESS_KEY", "b"}, {"AWS_DEFAULT_REGION", "eu-west-1"},
      {"AWS_ENDPOINT_URL", "http://x:1"}, {"AWS_RETRY_MODE", "standard"}, {"AWS_MAX_ATTEMPTS", "9"},
      {"AWS_CA_BUNDLE", "/ca.pem"}};
  const auto environment = [&](const char* name) { return variables[name]; };
  const auto got = AwsOptions::from_environment(true, environment);
  EXPECT_EQ(got.region, "eu-west-1");
  EXPECT_EQ(got.endpoint, "http://x:1");
  EXPECT_EQ(got.credentials->keys()->secret_key, "b");
  EXPECT_FALSE(got.adaptive);
  EXPECT_EQ(got.max_attempts, 9);
  EXPECT_EQ(got.ca_file, "/ca.pem");
  variables = {{"AWS_REGION", "us-west-2"}, {"AWS_DEFAULT_REGION", "eu-west-1"}};
  const auto bare = AwsOptions::from_environment(false, environment);
  EXPECT_EQ(bare.region, "us-west-2");
  EXPECT_TRUE(bare.adaptive);
  EXPECT_EQ(bare.max_attempts, 5);
  EXPECT_EQ(bare.credentials->keys().error().field, "AWS_ACCESS_KEY_ID");
}

TEST(Aws, RunInstancesIsEncodedAndItsAnswerRead) {
  Scripted cloud;
  cloud.then(200, R"(<RunInstancesResponse><instancesSet><item>
    <instanceId>i-0a</instanceId><instanceType>p5.48xlarge</instanceType>
    <instanceState><code>0</code><name>pending</name></instanceState>
    <privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName><clientToken>t/1</clientToken>
    <launchTime>2026-11-21T09:14:29.000Z</launchTime><instanceLifecycle>spot</instanceLifecycle>
    <placement><availabilityZone>us-east-1a</availabilityZone></placement>
    <tagSet><item><key>k &amp; k</key><value>v</value></item></tagSet>
    </item></instancesSet></RunInstancesResponse>)");
  InstanceRequest request;
  request.client_token = "t/1";
  request.instance_type = "p5.48xlarge";
  request.zone = "us-east-1a";
  request.spot = true;
  request.tags = {{"k & k", "v"}, {"n", "gpu"}};
  request.user_data = "#!/bin/sh\n";
  const auto got = Aws(cloud.options()).run_instances(request);
  ASSERT_TRUE(got) << got.error().to_string();
  ASSERT_EQ(got->size(), 1u);
  const auto& i = got->front();
  EXPECT_EQ(i.id, "i-0a");
  EXPECT_EQ(i.state, "pending");
  EXPECT_EQ(i.zone, "us-east-1a");
  EXPECT_TRUE(i.spot);
  EXPECT_EQ(i.private_dns, "ip-10-0-0-1.ec2.internal");
  EXPECT_EQ(i.client_token, "t/1");
  EXPECT_EQ(micros(i.launched), 1'795'252'469'000'000);
  EXPECT_FALSE(i.stopped);
  EXPECT_EQ(i.tags.at("k & k"), "v");
  EXPECT_EQ(cloud.body(0),
            "Action=RunInstances&Version=2016-11-15&InstanceType=p5.48xlarge&"
            "MinCount=1&MaxCount=1"
            "&ClientToken=t%2F1&Placement.AvailabilityZone=us-east-1a&InstanceMarketOptions."
            "MarketType=spot"
            "&UserData=IyEvYmluL3NoCg%3D%3D&TagSpecification.1.ResourceType=instance"
            "&TagSpecification.1.Tag.1.Key=k+%26+k&TagSpecification.1.Tag.1.Value=v"
            "&TagSpecification.1.Tag.2.Key=n&TagSpecification.1.Tag.2.Value=gpu");
}

TEST(Aws, AnAnswerWithFewerInstancesIsUnknown) {
  Scripted cloud;
  cloud.then(200, "<RunInstancesResponse><instancesSet/></RunInstancesResponse>");
  InstanceRequest request;
  request.count = 2;
  EXPECT_EQ(Aws(cloud.options()).run_instances(request).error().code, Code::kUnknown);
}

TEST(Aws, DescribeInstancesFollowsPagesAndReadsTheEnd) {
  Scripted cloud;
  cloud.then(200,
             R"(<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId></item>
    </instancesSet></item></reservationSet><nextToken>p+2</nextToken></R>)");
  cloud.then(200, R"(<R><reservationSet><item><instancesSet><item><instanceId>i-2</instanceId>
    <instanceState><name>terminated</name></instanceState>
    <reason>User initiated (2026-11-21 09:14:29 GMT)</reason>
    <stateReason><code>Client.UserInitiatedShutdown</code></stateReason></item></instancesSet></item>
    </reservationSet><nextToken/></R>)");
  const auto got = Aws(cloud.options()).describe_instances({}, {{"tag:a", {"x", "y"}}});
  ASSERT_TRUE(got) << got.error().to_string();
  ASSERT_EQ(got->size(), 2u);
  EXPECT_EQ((*got)[1].state, "terminated");
  ASSERT_TRUE((*got)[1].stopped);
  EXPECT_EQ(micros(*(*got)[1].stopped), 1'795'252'469'000'000);
  EXPECT_EQ((*got)[1].state_reason, "Client.UserInitiatedShutdown");
  EXPECT_THAT(cloud.body(0), HasSubstr("Filter.1.Name=tag%3Aa&Filter.1.Value.1=x&Filter.1.Value.2=y&MaxResults=1000"));
  EXPECT_THAT(cloud.body(0), Not(HasSubstr("NextToken")));
  EXPECT_THAT(cloud.body(1), HasSubstr("NextToken=p%2B2"));
}

TEST(Aws, APageThatComesAgainEndsTheCall) {
  Scripted cloud;
  for (int i = 0; i < 3; ++i) cloud.then(200, "<R><reservationSet/><nextToken>same</nextToken></R>");
  const auto got = Aws(cloud.options()).describe_instances();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kInternal);
  EXPECT_EQ(cloud.seen.size(), 2u);
}

TEST(Aws, ManyIdsGoInPieces) {
  Scripted cloud;
  cloud.then(200, "<a/>").then(200, "<a/>");
  std::vector<std::string> ids;
  for (int i = 0; i < 1001; ++i) ids.push_back(fmt::format("i-{}", i));
  ASSERT_TRUE(Aws(cloud.options()).terminate_instances(ids));
  ASSERT_EQ(cloud.seen.size(), 2u);
  EXPECT_THAT(cloud.body(0), HasSubstr("InstanceId.1000=i-999"));
  EXPECT_THAT(cloud.body(1), HasSubstr("InstanceId.1=i-1000"));
  EXPECT_THAT(cloud.body(1), Not(HasSubstr("InstanceId.2")));
}

TEST(Aws, NothingToDoAsksNothing) {
  Scripted cloud;
  ASSERT_TRUE(Aws(cloud.options()).terminate_instances({}));
  ASSERT_TRUE(Aws(cloud.options()).create_tags({}, {{"a", "b"}}));
  EXPECT_TRUE(cloud.seen.empty());
}

TEST(Aws, TypesAndSpotPricesAreRead) {
  Scripted cloud;
  cloud.then(200, R"(<R><instanceTypeSet><item><instanceType>p5.48xlarge</instanceType>
    <vCpuInfo><defaultVCpus>192</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>2097152</sizeInMiB></memoryInfo>
    <gpuInfo><gpus><item><name>H100</name><count>8</count><memoryInfo><sizeInMiB>81920</sizeInMiB></memoryInfo></item>
    </gpus></gpuInfo></item></instanceTypeSet></R>)");
  cloud.then(200, R"(<R><spotPriceHistorySet><item><instanceType>p5.48xlarge</instanceType>
    <availabilityZone>us-east-1b</availabilityZone><spotPrice>13.104900</spotPrice>
    <timestamp>2026-11-21T09:14:29.000Z</timestamp></item></spotPriceHistorySet></R>)");
  cloud.then(200, R"(<R><spotPriceHistorySet><item><spotPrice>much</spotPrice></item></spotPriceHistorySet></R>)");
  Aws aws(cloud.options());
  const auto types = aws.describe_instance_types({"p5.48xlarge"});
  ASSERT_TRUE(types);
  ASSERT_EQ(types->size(), 1u);
  EXPECT_EQ(types->front().gpus, 8);
  EXPECT_EQ(types->front().gpu_model, "H100");
  EXPECT_EQ(types->front().gpu_memory_mib, 81920);
  EXPECT_EQ(types->front().vcpu, 192);
  EXPECT_EQ(types->front().memory_mib, 2097152);
  const auto prices = aws.describe_spot_price_history({"p5.48xlarge"}, from_micros(1'795'252'469'000'000));
  ASSERT_TRUE(prices) << prices.error().to_string();
  ASSERT_EQ(prices->size(), 1u);
  EXPECT_EQ(prices->front().nano_usd_hour, 13'104'900'000);
  EXPECT_EQ(prices->front().zone, "us-east-1b");
  EXPECT_THAT(cloud.body(1), HasSubstr("StartTime=2026-11-21T09%3A14%3A29Z"));
  EXPECT_EQ(aws.describe_spot_price_history({}).error().code, Code::kInvalid);
}

TEST(Aws, GroupsAreReadPageByPage) {
  Scripted cloud;
  const auto page = [](const std::string& name, const std::string& next) {
    return "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups>"
           "<member>"
           "<AutoScalingGroupName>" +
           name +
           "</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>4</MaxSize>"
           "<DesiredCapacity>2</DesiredCapacity><Instances><member><InstanceId>i-1</InstanceId>"
           "<LifecycleState>InService</LifecycleState><AvailabilityZone>us-east-1a</"
           "AvailabilityZone>"
           "<ProtectedFromScaleIn>true</ProtectedFromScaleIn></member></Instances>"
           "<Tags><member><Key>k</Key><Value>v</Value></member></Tags></member></"
           "AutoScalingGroups>" +
           next + "</DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>";
  };
  cloud.then(200, page("a", "<NextToken>2</NextToken>")).then(200, page("b", ""));
  const auto got = Aws(cloud.options()).describe_groups({"a", "b"});
  ASSERT_TRUE(got) << got.error().to_string();
  ASSERT_EQ(got->size(), 2u);
  const auto& g = (*got)[1];
  EXPECT_EQ(g.name, "b");
  EXPECT_EQ(g.max, 4);
  EXPECT_EQ(g.desired, 2);
  ASSERT_EQ(g.instances.size(), 1u);
  EXPECT_EQ(g.instances[0].lifecycle, "InService");
  EXPECT_TRUE(g.instances[0].protected_from_scale_in);
  EXPECT_EQ(g.tags.at("k"), "v");
  EXPECT_THAT(cloud.body(0), HasSubstr("AutoScalingGroupNames.member.1=a&AutoScalingGroupNames.member.2=b"));
}

TEST(Aws, ReceivingWaitsLongerThanOtherCalls) {
  Scripted cloud;
  cloud.then(200, R"({"Messages":[{"MessageId":"m","ReceiptHandle":"r","Body":"b"}]})").then(200, "{}");
  Aws aws(cloud.options());
  const auto got = aws.receive_messages("q", 10, 20, 5);
  ASSERT_TRUE(got);
  ASSERT_EQ(got->size(), 1u);
  EXPECT_EQ(got->front().id, "m");
  EXPECT_EQ(got->front().receipt, "r");
  EXPECT_EQ(got->front().body, "b");
  EXPECT_EQ(cloud.seen[0].timeout, std::chrono::seconds(30));
  EXPECT_EQ(cloud.body(0), R"({"QueueUrl":"q","MaxNumberOfMessages":10,"WaitTimeSeconds":20,"VisibilityTimeout":5})");
  EXPECT_TRUE(aws.receive_messages("q", 1, 0)->empty());
}

}  // namespace aws_test
}  // namespace qm::cloud
