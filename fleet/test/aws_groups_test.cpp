// Lifecycle hooks, protection, warm pools and synchronous launches of Auto Scaling groups.
#include "aws_rig.hpp"
#include "imds.hpp"

#include <gmock/gmock.h>

namespace qm::fleet {
namespace aws_groups_test {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kType = "g5.xlarge";

class AwsGroupsTest : public AwsApiTest {
 protected:
  void make(int desired, int max = 10) {
    cloud::NewGroup made;
    made.name = "gpu";
    made.instance_type = kType;
    made.image_id = kPlainImage;
    made.desired = desired;
    made.max = max;
    ASSERT_TRUE(aws.create_group(made));
    world.advance(seconds(121));
    (void)events();
  }
  void hook(const std::string& transition, const std::string& result, int heartbeat_s = 600) {
    const auto body = groups("PutLifecycleHook", fmt::format("LifecycleHookName=h&LifecycleTransition=autoscaling:EC2_"
                                                             "INSTANCE_{}&DefaultResult={}&HeartbeatTimeout={}",
                                                             transition, result, heartbeat_s));
    ASSERT_THAT(body, Not(HasSubstr("Error")));
  }
  std::vector<std::string> states() {
    std::vector<std::string> out;
    const auto listed = aws.describe_groups({"gpu"}).value();
    for (const auto& member : listed.front().instances) out.push_back(member.lifecycle);
    std::ranges::sort(out);
    return out;
  }
  std::vector<std::string> ids() {
    std::vector<std::string> out;
    const auto listed = aws.describe_groups({"gpu"}).value();
    for (const auto& member : listed.front().instances) out.push_back(member.instance_id);
    return out;
  }
  /// The token of the newest lifecycle event in the queue.
  std::string token() {
    std::string out;
    for (const Json& event : events()) {
      if (event["source"].string() == "aws.autoscaling") out = event["detail"]["LifecycleActionToken"].string();
    }
    return out;
  }
};

TEST_F(AwsGroupsTest, ATerminatingMemberWaitsForItsHookAndIsReplacedAtOnce) {
  make(1);
  hook("TERMINATING", "ABANDON");
  const auto leaving = ids().front();
  ASSERT_TRUE(aws.terminate_in_group(leaving, false));
  EXPECT_THAT(states(), ElementsAre("Pending", "Terminating:Wait"));
  EXPECT_TRUE(world.instance(leaving)->alive()) << "it works until the hook is done";
  const auto sent = events();
  const auto event = std::ranges::find(sent, "EC2 Instance-terminate Lifecycle Action",
                                       [](const Json& one) { return one["detail-type"].string(); });
  ASSERT_NE(event, sent.end());
  EXPECT_EQ((*event)["detail"]["EC2InstanceId"].string(), leaving);
  EXPECT_EQ((*event)["detail"]["LifecycleTransition"].string(), "autoscaling:EC2_INSTANCE_TERMINATING");
  const auto done =
      groups("CompleteLifecycleAction", "LifecycleHookName=h&LifecycleActionResult=CONTINUE&LifecycleActionToken=" +
                                            (*event)["detail"]["LifecycleActionToken"].string());
  EXPECT_THAT(done, Not(HasSubstr("Error")));
  EXPECT_FALSE(world.instance(leaving)->alive());
  EXPECT_THAT(
      groups("CompleteLifecycleAction", "LifecycleHookName=h&LifecycleActionResult=CONTINUE&InstanceId=" + leaving),
      HasSubstr("No active Lifecycle Action found"));
}

TEST_F(AwsGroupsTest, AHeartbeatExtendsTheWaitAndTheTimeoutEndsIt) {
  make(1);
  hook("TERMINATING", "CONTINUE", 600);
  const auto leaving = ids().front();
  ASSERT_TRUE(aws.terminate_in_group(leaving, true));
  world.advance(seconds(599));
  const auto beat = "LifecycleHookName=h&InstanceId=" + leaving;
  EXPECT_THAT(groups("RecordLifecycleActionHeartbeat", beat), Not(HasSubstr("Error")));
  world.advance(seconds(599));
  EXPECT_TRUE(world.instance(leaving)->alive());
  world.advance(seconds(2));
  EXPECT_FALSE(world.instance(leaving)->alive());
  EXPECT_THAT(groups("RecordLifecycleActionHeartbeat", beat), HasSubstr("ValidationError"));
}

TEST_F(AwsGroupsTest, HeartbeatsCannotExtendAWaitForEver) {
  make(1);
  hook("TERMINATING", "CONTINUE", 30);  // 100 times 30 seconds at most
  const auto leaving = ids().front();
  ASSERT_TRUE(aws.terminate_in_group(leaving, true));
  int beats = 0;
  while (world.instance(leaving)->alive() && beats < 1000) {
    world.advance(seconds(20));
    (void)groups("RecordLifecycleActionHeartbeat", "LifecycleHookName=h&InstanceId=" + leaving);
    ++beats;
  }
  EXPECT_EQ(beats, 150);
}

TEST_F(AwsGroupsTest, AnAbandonedLaunchIsReplaced) {
  make(0);
  hook("LAUNCHING", "ABANDON", 300);
  ASSERT_TRUE(aws.set_desired_capacity("gpu", 1));
  world.advance(seconds(16));
  EXPECT_THAT(states(), ElementsAre("Pending:Wait"));
  const auto first = ids().front();
  world.advance(seconds(301));
  EXPECT_FALSE(world.instance(first)->alive());
  world.advance(seconds(31));
  ASSERT_EQ(ids().size(), 1U);
  EXPECT_NE(ids().front(), first);
  EXPECT_THAT(groups("CompleteLifecycleAction",
                     "LifecycleHookName=h&LifecycleActionResult=CONTINUE&LifecycleActionToken=" + token()),
              Not(HasSubstr("Error")));
  EXPECT_THAT(states(), ElementsAre("InService"));
  EXPECT_THAT(groups("DescribeScalingActivities", ""), HasSubstr("Cancelled"));
}

TEST_F(AwsGroupsTest, ProtectedMembersSurviveScaleIn) {
  make(3);
  const auto all = ids();
  EXPECT_THAT(groups("SetInstanceProtection", "ProtectedFromScaleIn=true&InstanceIds.member.1=" + all[0]),
              Not(HasSubstr("Error")));
  ASSERT_TRUE(aws.set_desired_capacity("gpu", 0));
  world.advance(minutes(1));
  EXPECT_THAT(ids(), ElementsAre(all[0]));
  EXPECT_THAT(groups("SetInstanceProtection", "ProtectedFromScaleIn=false&InstanceIds.member.1=" + all[0]),
              Not(HasSubstr("Error")));
  world.advance(minutes(1));
  EXPECT_THAT(ids(), IsEmpty());
  EXPECT_THAT(groups("SetInstanceProtection", "ProtectedFromScaleIn=true&InstanceIds.member.1=i-none"),
              HasSubstr("is not part of gpu"));
}

TEST_F(AwsGroupsTest, ADetachedInstanceLivesOnWithoutTheGroup) {
  make(2);
  const auto one = ids().front();
  EXPECT_THAT(groups("DetachInstances", "ShouldDecrementDesiredCapacity=true&InstanceIds.member.1=" + one),
              HasSubstr("Successful"));
  EXPECT_EQ(ids().size(), 1U);
  EXPECT_TRUE(world.instance(one)->alive());
  EXPECT_EQ(aws.describe_groups({"gpu"})->front().desired, 1);
  EXPECT_THAT(groups("DetachInstances", "ShouldDecrementDesiredCapacity=false&InstanceIds.member.1=" + ids().front()),
              HasSubstr("Successful"));
  EXPECT_EQ(ids().size(), 1U) << "replaced";
}

TEST_F(AwsGroupsTest, SynchronousLaunchesReportWhatLaunchedAndWhatDidNot) {
  make(0, 5);
  world.limit_capacity(kType, Market::kOnDemand, 2, "us-east-1a");
  const std::string in_a = "RequestedCapacity=3&AvailabilityZones.member.1=us-east-1a&ClientToken=";
  const auto first = groups("LaunchInstances", in_a + "t");
  EXPECT_EQ(element(first, "ErrorCode"), "InsufficientInstanceCapacity");
  EXPECT_EQ(ids().size(), 2U);
  EXPECT_EQ(aws.describe_groups({"gpu"})->front().desired, 2);
  const auto again = groups("LaunchInstances", in_a + "t");
  EXPECT_EQ(again.substr(0, again.find("<ResponseMetadata>")), first.substr(0, first.find("<ResponseMetadata>")));
  EXPECT_EQ(ids().size(), 2U);
  EXPECT_THAT(groups("LaunchInstances", "RequestedCapacity=1&AvailabilityZones.member.1=us-east-1a&ClientToken=t"),
              HasSubstr("IdempotentParameterMismatch"));
  EXPECT_THAT(groups("LaunchInstances", in_a + "u&RetryStrategy=retry-with-group-configuration"),
              HasSubstr("InsufficientInstanceCapacity"));
  EXPECT_EQ(aws.describe_groups({"gpu"})->front().desired, 5) << "the group retries in its other zones";
  EXPECT_EQ(ids().size(), 5U);
  EXPECT_THAT(groups("LaunchInstances", in_a + "v"), HasSubstr("exceed the MaxSize 5"));
  EXPECT_THAT(groups("LaunchInstances", "RequestedCapacity=1&ClientToken=w"),
              HasSubstr("AvailabilityZones is missing"));
  EXPECT_THAT(groups("DescribeScalingActivities", ""), HasSubstr("do not have sufficient g5.xlarge capacity"));
}

TEST_F(AwsGroupsTest, AWarmMemberIsUsedFirst) {
  make(1);
  EXPECT_THAT(groups("PutWarmPool", "PoolState=Stopped"), HasSubstr("PoolState must be Running"));
  EXPECT_THAT(groups("PutWarmPool", "PoolState=Running&MinSize=1&MaxGroupPreparedCapacity=2"), Not(HasSubstr("Error")));
  EXPECT_EQ(ids().size(), 1U) << "a warm member is not in the list of the group";
  EXPECT_EQ(element(groups("DescribeWarmPool", ""), "LifecycleState"), "Warmed:Pending");
  world.advance(seconds(121));
  const auto warm = element(groups("DescribeWarmPool", ""), "InstanceId");
  ASSERT_TRUE(aws.set_desired_capacity("gpu", 2));
  EXPECT_THAT(ids(), ::testing::Contains(warm));
  EXPECT_THAT(states(), ElementsAre("InService", "InService"));
  EXPECT_EQ(element(groups("DescribeWarmPool", ""), "LifecycleState"), "Warmed:Pending") << "the pool is filled again";
}

TEST_F(AwsGroupsTest, MaintenanceIsReportedByStatusMetadataAndEvent) {
  const auto id = aws.run_instances(request())->front().id;
  world.advance(seconds(121));
  (void)events();
  ASSERT_TRUE(world.schedule_maintenance(id, "instance-retirement", minutes(30)));
  const auto status = ec2("DescribeInstanceStatus", "Filter.1.Name=event.code&Filter.1.Value.1=instance-retirement");
  EXPECT_EQ(element(status, "instanceId"), id);
  EXPECT_EQ(element(status, "notBefore"), "2026-11-21T09:46:30.000Z");
  const auto sent = events();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0]["detail-type"].string(), "AWS Health Event");
  EXPECT_EQ(sent[0]["detail"]["eventTypeCode"].string(), "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED");
  EXPECT_EQ(sent[0]["detail"]["affectedEntities"].items().front()["entityValue"].string(), id);
  world.advance(minutes(31));
  EXPECT_FALSE(world.instance(id)->alive());
}

TEST_F(AwsGroupsTest, ScoresFollowTheFreeSpotCapacityOfAZone) {
  const auto score = [&](const std::string& more) {
    return element(
        ec2("GetSpotPlacementScores", "InstanceType.1=p5.48xlarge&InstanceType.2=g5.xlarge&TargetCapacity=4" + more),
        "score");
  };
  const std::string third = "&InstanceType.3=g5.2xlarge&SingleAvailabilityZone=true";
  EXPECT_EQ(score(third), "9");
  EXPECT_EQ(score("&SingleAvailabilityZone=true"), "3") << "two types score low";
  for (const char* type : {"p5.48xlarge", "g5.xlarge", "g5.2xlarge"})
    world.limit_capacity(type, Market::kSpot, 2, "us-east-1a");
  EXPECT_EQ(score(third), "5");
  for (const char* type : {"p5.48xlarge", "g5.xlarge", "g5.2xlarge"})
    world.limit_capacity(type, Market::kSpot, 1, "us-east-1a");
  EXPECT_EQ(score(third), "1");
}

}  // namespace aws_groups_test
}  // namespace qm::fleet
