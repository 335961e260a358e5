#include "qm/cloud/fleet.hpp"

#include "scripted.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::cloud {
namespace fleet_test {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kAnswer = R"(<CreateFleetResponse><fleetId>fleet-1</fleetId><errorSet><item>
  <launchTemplateAndOverrides><launchTemplateSpecification><launchTemplateId>lt-1</launchTemplateId>
  <version>1</version></launchTemplateSpecification><overrides><instanceType>p5.48xlarge</instanceType>
  <availabilityZone>us-east-1a</availabilityZone><subnetId>subnet-a</subnetId></overrides></launchTemplateAndOverrides>
  <lifecycle>spot</lifecycle><errorCode>UnfulfillableCapacity</errorCode><errorMessage>none left</errorMessage></item>
  </errorSet><fleetInstanceSet><item><launchTemplateAndOverrides><overrides><instanceType>p5.48xlarge</instanceType>
  <availabilityZone>us-east-1b</availabilityZone></overrides></launchTemplateAndOverrides><lifecycle>spot</lifecycle>
  <instanceIds><item>i-1</item><item>i-2</item></instanceIds><instanceType>p5.48xlarge</instanceType></item>
  </fleetInstanceSet></CreateFleetResponse>)";

FleetRequest gang() {
  FleetRequest out;
  out.client_token = "t";
  out.launch_template = "nodes-1";
  out.overrides = {{"p5.48xlarge", "us-east-1a", "subnet-a", 1.0}, {"p5en.48xlarge", {}, "subnet-b", 2.5}};
  out.target = out.min_target = 4;
  out.one_zone = true;
  out.one_type = true;
  return out;
}

TEST(Fleet, EveryMemberIsEncoded) {
  Scripted cloud;
  cloud.then(200, kAnswer).then(200, kAnswer);
  auto request = gang();
  request.market = FleetMarket::kSpot;
  request.allocation = FleetAllocation::kCapacityOptimizedPrioritized;
  request.overrides[0].max_nano_usd_hour = 12'000'000'005;
  request.overrides[0].weight = 8;
  request.overrides[0].placement_group = "pg-1";
  request.tags = {{"k", "v"}};
  request.tag_volumes = true;
  ASSERT_TRUE(Aws(cloud.options()).create_fleet(request));
  EXPECT_EQ(cloud.body(0),
            "Action=CreateFleet&Version=2016-11-15&Type=instant&ClientToken=t"
            "&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=nodes-1"
            "&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=%24Latest"
            "&LaunchTemplateConfigs.1.Overrides.1.InstanceType=p5.48xlarge"
            "&LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone=us-east-1a"
            "&LaunchTemplateConfigs.1.Overrides.1.SubnetId=subnet-a"
            "&LaunchTemplateConfigs.1.Overrides.1.Priority=1"
            "&LaunchTemplateConfigs.1.Overrides.1.MaxPrice=12.000000005"
            "&LaunchTemplateConfigs.1.Overrides.1.WeightedCapacity=8"
            "&LaunchTemplateConfigs.1.Overrides.1.Placement.GroupId=pg-1"
            "&LaunchTemplateConfigs.1.Overrides.2.InstanceType=p5en.48xlarge"
            "&LaunchTemplateConfigs.1.Overrides.2.SubnetId=subnet-b"
            "&LaunchTemplateConfigs.1.Overrides.2.Priority=2.5"
            "&SpotOptions.AllocationStrategy=capacity-optimized-prioritized&SpotOptions.SingleInstanceType=true"
            "&SpotOptions.SingleAvailabilityZone=true&SpotOptions.MinTargetCapacity=4"
            "&TargetCapacitySpecification.TotalTargetCapacity=4"
            "&TargetCapacitySpecification.DefaultTargetCapacityType=spot"
            "&TagSpecification.1.ResourceType=fleet&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v"
            "&TagSpecification.2.ResourceType=instance&TagSpecification.2.Tag.1.Key=k&TagSpecification.2.Tag.1.Value=v"
            "&TagSpecification.3.ResourceType=volume&TagSpecification.3.Tag.1.Key=k&TagSpecification.3.Tag.1.Value=v");
  auto owned = gang();
  owned.use_reservations_first = true;
  ASSERT_TRUE(Aws(cloud.options()).create_fleet(owned));
  EXPECT_THAT(cloud.body(1),
              HasSubstr("&OnDemandOptions.MinTargetCapacity=4&OnDemandOptions.CapacityReservationOptions.UsageStrategy="
                        "use-capacity-reservations-first&"));
  EXPECT_THAT(cloud.body(1), Not(HasSubstr("SpotOptions")));
}

TEST(Fleet, InstancesAndErrorsAreReadTogether) {
  Scripted cloud;
  cloud.then(200, kAnswer);
  const auto got = Aws(cloud.options()).create_fleet(gang());
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->fleet_id, "fleet-1");
  ASSERT_EQ(got->instances.size(), 2U);
  EXPECT_EQ(got->instances[1], (FleetInstance{"i-2", "p5.48xlarge", "us-east-1b", "", true}));
  ASSERT_EQ(got->errors.size(), 1U);
  EXPECT_EQ(got->errors[0].code, "UnfulfillableCapacity");
  EXPECT_EQ(got->errors[0].kind.error_class, ErrorClass::kCapacity);
  EXPECT_EQ(got->errors[0].zone, "us-east-1a");
  EXPECT_EQ(got->errors[0].subnet, "subnet-a");
  EXPECT_TRUE(got->errors[0].spot);
}

TEST(Fleet, ALostAnswerIsRepeatedWithTheSameToken) {
  Scripted cloud;
  cloud.then_fails(Code::kUnknown).then(200, kAnswer);
  auto request = gang();
  request.client_token.clear();
  ASSERT_TRUE(Aws(cloud.options()).create_fleet(request));
  EXPECT_EQ(cloud.body(0), cloud.body(1));
  EXPECT_THAT(cloud.body(0), HasSubstr("&ClientToken=qm-"));
}

TEST(Fleet, ATemplateHasTheLaunchWithItsPrefix) {
  Scripted cloud;
  cloud.then(200, "<R/>").then_ec2_error(400, "InvalidLaunchTemplateName.AlreadyExistsException");
  LaunchTemplate one;
  one.name = "nodes-1";
  one.launch.image_id = "ami-1";
  one.launch.security_groups = {"sg-1"};
  one.launch.public_ip = false;
  one.launch.user_data = "#!/bin/sh\n";
  one.launch.instance_profile = "nodes";
  one.launch.tags = {{"team", "ml"}};
  one.launch.tag_resources = true;
  one.tags = {{"owner", "qm"}};
  Aws aws(cloud.options());
  ASSERT_TRUE(aws.create_launch_template(one));
  EXPECT_EQ(cloud.body(0),
            "Action=CreateLaunchTemplate&Version=2016-11-15&LaunchTemplateName=nodes-1&LaunchTemplateData.ImageId=ami-1"
            "&LaunchTemplateData.UserData=IyEvYmluL3NoCg%3D%3D"
            "&LaunchTemplateData.NetworkInterface.1.DeviceIndex=0"
            "&LaunchTemplateData.NetworkInterface.1.AssociatePublicIpAddress=false"
            "&LaunchTemplateData.NetworkInterface.1.DeleteOnTermination=true"
            "&LaunchTemplateData.NetworkInterface.1.SecurityGroupId.1=sg-1"
            "&LaunchTemplateData.IamInstanceProfile.Name=nodes"
            "&LaunchTemplateData.TagSpecification.1.ResourceType=network-interface"
            "&LaunchTemplateData.TagSpecification.1.Tag.1.Key=team&LaunchTemplateData.TagSpecification.1.Tag.1.Value=ml"
            "&TagSpecification.1.ResourceType=launch-template&TagSpecification.1.Tag.1.Key=owner"
            "&TagSpecification.1.Tag.1.Value=qm");
  EXPECT_TRUE(aws.create_launch_template(one)) << "the same name is the same content";
}

}  // namespace fleet_test
}  // namespace qm::cloud
