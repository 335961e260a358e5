// What an account has, and the launch parameters that refer to it.
#include "qm/cloud/resources.hpp"

#include "scripted.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::cloud {
namespace resources_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Launch, EachParameterIsEncoded) {
  Scripted cloud;
  cloud.then(200, "<R><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></R>");
  InstanceRequest request;
  request.client_token = "t";
  request.image_id = "ami-1";
  request.instance_type = "p5.48xlarge";
  request.zone = "z";
  request.tags = {{"k", "v"}};
  request.tag_resources = true;
  request.subnet = "subnet-1";
  request.security_groups = {"sg-1", "sg-2"};
  request.instance_profile = "nodes";
  BlockDevice device;
  device.device = "/dev/xvda";
  device.size_gib = 200;
  device.type = "gp3";
  device.iops = 6000;
  device.throughput_mib = 250;
  device.encrypted = true;
  device.delete_on_termination = false;
  request.block_devices = {device};
  request.metadata = MetadataAccess{"enabled", "disabled", "required", 2};
  request.detailed_monitoring = true;
  request.placement_group = "pg-1";
  request.capacity_reservation = "cr-1";
  request.capacity_block = true;
  request.enclave = true;
  ASSERT_TRUE(Aws(cloud.options()).run_instances(request));
  EXPECT_EQ(cloud.body(0),
            "Action=RunInstances&Version=2016-11-15&InstanceType=p5.48xlarge&MinCount=1&MaxCount=1"
            "&ClientToken=t&Placement.AvailabilityZone=z&ImageId=ami-1&Placement.GroupId=pg-1"
            "&InstanceMarketOptions.MarketType=capacity-block"
            "&CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId=cr-1"
            "&SubnetId=subnet-1&SecurityGroupId.1=sg-1&SecurityGroupId.2=sg-2&IamInstanceProfile.Name=nodes"
            "&BlockDeviceMapping.1.DeviceName=%2Fdev%2Fxvda&BlockDeviceMapping.1.Ebs.VolumeSize=200"
            "&BlockDeviceMapping.1.Ebs.VolumeType=gp3&BlockDeviceMapping.1.Ebs.Iops=6000"
            "&BlockDeviceMapping.1.Ebs.Throughput=250&BlockDeviceMapping.1.Ebs.Encrypted=true"
            "&BlockDeviceMapping.1.Ebs.DeleteOnTermination=false"
            "&MetadataOptions.HttpEndpoint=enabled&MetadataOptions.HttpTokens=required"
            "&MetadataOptions.HttpPutResponseHopLimit=2&MetadataOptions.HttpProtocolIpv6=disabled"
            "&Monitoring.Enabled=true&EnclaveOptions.Enabled=true"
            "&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v"
            "&TagSpecification.2.ResourceType=volume&TagSpecification.2.Tag.1.Key=k&TagSpecification.2.Tag.1.Value=v"
            "&TagSpecification.3.ResourceType=network-interface&TagSpecification.3.Tag.1.Key=k"
            "&TagSpecification.3.Tag.1.Value=v");
}

TEST(Launch, APublicAddressMovesSubnetAndGroupsToTheInterface) {
  Scripted cloud;
  cloud.then(200, "<R><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></R>");
  InstanceRequest request;
  request.client_token = "t";
  request.subnet = "subnet-1";
  request.security_groups = {"sg-1"};
  request.public_ip = false;
  ASSERT_TRUE(Aws(cloud.options()).run_instances(request));
  EXPECT_THAT(cloud.body(0), HasSubstr("&NetworkInterface.1.DeviceIndex=0&NetworkInterface.1.AssociatePublicIpAddress="
                                       "false&NetworkInterface.1.DeleteOnTermination=true&NetworkInterface.1.SubnetId="
                                       "subnet-1&NetworkInterface.1.SecurityGroupId.1=sg-1"));
  EXPECT_EQ(cloud.body(0).find("&SubnetId"), std::string::npos);
}

TEST(Resources, AreReadWithTheirTagsOverAllPages) {
  Scripted cloud;
  cloud.then(200, R"(<R><subnetSet><item><subnetId>subnet-1</subnetId><availabilityZone>z</availabilityZone>
    <vpcId>vpc-1</vpcId><availableIpAddressCount>9</availableIpAddressCount>
    <tagSet><item><key>k</key><value>v</value></item></tagSet></item></subnetSet><nextToken>n</nextToken></R>)");
  cloud.then(200, "<R><subnetSet><item><subnetId>subnet-2</subnetId></item></subnetSet></R>");
  const auto subnets = Aws(cloud.options()).describe_subnets({{"tag:k", {"v", "w"}}});
  ASSERT_TRUE(subnets && subnets->size() == 2);
  EXPECT_EQ(subnets->front().free_addresses, 9);
  EXPECT_EQ(subnets->front().tags.at("k"), "v");
  EXPECT_EQ(cloud.body(0),
            "Action=DescribeSubnets&Version=2016-11-15&Filter.1.Name=tag%3Ak&Filter.1.Value.1=v&Filter.1.Value.2=w"
            "&MaxResults=1000");
  EXPECT_THAT(cloud.body(1), HasSubstr("&NextToken=n"));
}

TEST(Resources, AnImageIsDeprecatedFromItsTimeOn) {
  Scripted cloud;
  const auto image = [](const std::string& id, const std::string& deprecated) {
    return "<item><imageId>" + id + "</imageId><creationDate>2026-05-01T00:00:00.000Z</creationDate><deprecationTime>" +
           deprecated + "</deprecationTime><imageOwnerAlias>amazon</imageOwnerAlias></item>";
  };
  cloud.then(200, "<R><imagesSet>" + image("ami-1", "2026-11-21T09:14:29.000Z") +
                      image("ami-2", "2026-11-21T09:14:30.000Z") + image("ami-3", "") + "</imagesSet></R>");
  const auto images = Aws(cloud.options()).describe_images({}, {"self"});
  ASSERT_TRUE(images && images->size() == 3);
  EXPECT_TRUE(images->at(0).deprecated);
  EXPECT_FALSE(images->at(1).deprecated);
  EXPECT_FALSE(images->at(2).deprecated);
  EXPECT_TRUE(images->at(0).own) << "they were listed for the owner self";
  EXPECT_EQ(micros(images->at(0).created), 1'777'593'600'000'000);
}

TEST(Resources, AParameterThatDoesNotExistIsNoError) {
  Scripted cloud;
  cloud.then(200, R"({"Parameter":{"Name":"/a","Value":"ami-1"}})");
  cloud.then(400, R"({"__type":"ParameterNotFound","message":"m"})");
  cloud.then(400, R"({"__type":"AccessDeniedException","message":"m"})");
  Aws aws(cloud.options());
  EXPECT_EQ(aws.get_parameter("/a").value().value_or(""), "ami-1");
  EXPECT_FALSE(aws.get_parameter("/a").value());
  EXPECT_EQ(aws.get_parameter("/a").error().code, Code::kPermissionDenied);
  EXPECT_EQ(cloud.seen[0].request.headers.get("X-Amz-Target"), "AmazonSSM.GetParameter");
  EXPECT_EQ(cloud.seen[0].request.headers.get("Content-Type"), "application/x-amz-json-1.1");
}

TEST(Resources, AnInstanceProfileIsCreatedOnceAndKeepsItsRole) {
  Scripted cloud;
  const auto none = "<ErrorResponse><Error><Code>NoSuchEntity</Code><Message>m</Message></Error></ErrorResponse>";
  const auto with = [](const std::string& roles) {
    return "<R><GetInstanceProfileResult><InstanceProfile><Roles>" + roles +
           "</Roles></InstanceProfile></GetInstanceProfileResult></R>";
  };
  const std::string nodes = "<member><RoleName>nodes</RoleName></member>";
  cloud.then(404, none).then(200, "<R/>").then(200, "<R/>");  // created
  cloud.then(200, with(nodes));                               // exists
  cloud.then(200, with("")).then(200, "<R/>");                // created, and the process ended before the role
  cloud.then(200, with(nodes));                               // another role is wanted
  auto options = cloud.options();
  options.endpoint.clear();
  options.region = "eu-west-1";
  Aws aws(options);
  EXPECT_TRUE(aws.ensure_instance_profile("p", "nodes"));
  EXPECT_TRUE(aws.ensure_instance_profile("p", "nodes"));
  EXPECT_TRUE(aws.ensure_instance_profile("p", "nodes"));
  const auto other = aws.ensure_instance_profile("p", "others");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("instance profile p has the role nodes, not others"));
  std::vector<std::string> actions;
  for (const auto& call : cloud.seen) actions.push_back(call.request.body.substr(7, call.request.body.find('&') - 7));
  EXPECT_THAT(actions, ElementsAre("GetInstanceProfile", "CreateInstanceProfile", "AddRoleToInstanceProfile",
                                   "GetInstanceProfile", "GetInstanceProfile", "AddRoleToInstanceProfile",
                                   "GetInstanceProfile"));
  EXPECT_EQ(cloud.seen[0].origin, "https://iam.amazonaws.com");
  const auto auth = parse_authorization(cloud.seen[0].request.headers.get("Authorization"));
  ASSERT_TRUE(auth);
  EXPECT_EQ(auth->region, "us-east-1") << "IAM has one region for all";
}

}  // namespace resources_test
}  // namespace qm::cloud
