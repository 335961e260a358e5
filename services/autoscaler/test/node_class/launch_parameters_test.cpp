// The exact parameters of a launch, and the reason for none.
#include "qm/autoscaler/node_class/launch_parameters.hpp"

#include "account.hpp"
#include "qm/cloud/aws.hpp"
#include "qm/config/manifest.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace qm::autoscaler {
namespace launch_parameters_test {

using namespace autoscaler::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Result<cloud::InstanceRequest> parameters(const config::NodeClass& node_class, const Inventory& has,
                                          const PlannedInstance& planned) {
  return launch_parameters(resolve(node_class, has, "1.31"), cluster_of_tests(), planned);
}

TEST(LaunchParameters, AreThoseOfTheClass) {
  auto node_class = class_of();
  node_class.tags = {{"Environment", "production"}, {"Name", "mine"}};
  node_class.detailed_monitoring = true;
  node_class.public_ip = false;
  config::NodeClassVolume volume;
  volume.device = "/dev/xvda";
  volume.size_gib = 200;
  volume.type = "gp3";
  volume.iops = 6000;
  volume.throughput_mib = 250;
  volume.encrypted = true;
  volume.delete_on_termination = true;
  node_class.volumes = {volume};
  auto planned = machine_of("p5.48xlarge", "us-east-1b");
  planned.spot = true;
  planned.labels = {{"team", "ml"}, {"node-restriction.kubernetes.io/tenant", "ml"}};
  const auto got = parameters(node_class, account(), planned);
  ASSERT_TRUE(got) << got.error().to_string();
  cloud::InstanceRequest want;
  want.instance_type = "p5.48xlarge";
  want.zone = "us-east-1b";
  want.image_id = "ami-3";  // x86_64, nvidia
  want.spot = true;
  want.subnet = "subnet-b1";
  want.security_groups = {"sg-1", "sg-2"};
  want.instance_profile = "nodes";
  cloud::BlockDevice device;
  device.device = "/dev/xvda";
  device.size_gib = 200;
  device.type = "gp3";
  device.iops = 6000;
  device.throughput_mib = 250;
  device.encrypted = true;
  device.delete_on_termination = true;
  want.block_devices = {device};
  want.metadata = cloud::MetadataAccess{"enabled", "disabled", "required", 1};
  want.detailed_monitoring = true;
  want.public_ip = false;
  want.tag_resources = true;
  want.tags = {{"Environment", "production"},
               {"Name", "mine"},
               {"eks:eks-cluster-name", "ml"},
               {"karpenter.k8s.aws/ec2nodeclass", "gpu"},
               {"karpenter.sh/nodeclaim", "pool-00001"},
               {"karpenter.sh/nodepool", "pool"},
               {"kubernetes.io/cluster/ml", "owned"}};
  want.user_data = got->user_data;
  EXPECT_EQ(*got, want);
  EXPECT_THAT(got->user_data, HasSubstr("karpenter.sh/capacity-type=spot"));
  EXPECT_THAT(got->user_data, HasSubstr("team=ml"));
  EXPECT_THAT(got->user_data, Not(HasSubstr("node-restriction"))) << "a kubelet with it does not start";
}

TEST(LaunchParameters, TheImageFitsArchitectureAndAccelerator) {
  const std::pair<const char*, const char*> cases[] = {
      {"m5.large", "ami-1"},     {"c7g.large", "ami-2"},   {"g6f.large", "ami-3"},   {"g5g.xlarge", "ami-4"},
      {"trn1.2xlarge", "ami-5"}, {"inf2.xlarge", "ami-5"}, {"g4ad.xlarge", "ami-1"}, {"p5.48xlarge", "ami-3"}};
  for (const auto& [type, image] : cases)
    EXPECT_EQ(parameters(class_of(), account(), machine_of(type))->image_id, image) << type;
  const auto rocket = class_of("bottlerocket@latest", "Bottlerocket");
  EXPECT_EQ(parameters(rocket, account(rocket), machine_of("p5.48xlarge"))->image_id, "ami-3");
  EXPECT_EQ(parameters(rocket, account(rocket), machine_of("trn1.2xlarge"))->image_id, "ami-1");
  const auto al2 = class_of("al2@latest", "AL2");
  const auto none = parameters(al2, account(al2), machine_of("g5g.xlarge"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().field, "spec.amiSelectorTerms");
  EXPECT_THAT(none.error().message, HasSubstr("none of its 3 images is for g5g.xlarge (arm64, nvidia)"));
}

TEST(LaunchParameters, TheSubnetIsInTheZoneAndHasTheMostFreeAddresses) {
  EXPECT_EQ(parameters(class_of(), account(), machine_of("m5.large"))->subnet, "subnet-a2");
  EXPECT_EQ(parameters(class_of(), account(), machine_of("m5.large", "us-east-1b"))->subnet, "subnet-b1");
  const auto elsewhere = parameters(class_of(), account(), machine_of("m5.large", "us-east-1d"));
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message,
              HasSubstr("none of its 3 subnets is in zone us-east-1d, they are in us-east-1a, us-east-1b"));
  auto full = account();
  for (auto& subnet : full.subnets) subnet.free_addresses = 0;
  const auto refused = parameters(class_of(), full, machine_of("m5.large", "us-east-1a"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
}

TEST(LaunchParameters, LaunchesBeforeTheNextResolutionShareTheAddressesOfTheZone) {
  auto has = account();
  has.subnets[0].free_addresses = 2;
  has.subnets[1].free_addresses = 3;
  auto resolved = resolve(class_of(), has, "1.31");
  std::vector<std::string> used;
  for (int i = 0; i < 5; ++i) {
    const auto request = launch_parameters(resolved, cluster_of_tests(), machine_of("m5.large", "us-east-1a"));
    ASSERT_TRUE(request) << request.error().to_string();
    used.push_back(request->subnet);
    count_launch(resolved, *request);
  }
  EXPECT_THAT(used, ElementsAre("subnet-a2", "subnet-a1", "subnet-a2", "subnet-a1", "subnet-a2"));
  const auto full = launch_parameters(resolved, cluster_of_tests(), machine_of("m5.large", "us-east-1a"));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kExhausted);
  EXPECT_EQ(full.error().field, "capacity") << "the offering is blocked for a while, as after a refusal of EC2";
}

TEST(LaunchParameters, SecurityGroupsAreOfTheVpcOfTheSubnet) {
  auto has = account();
  for (auto& group : has.security_groups) group.vpc = "vpc-2";
  const auto refused = parameters(class_of(), has, machine_of("m5.large"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("none of its 2 security groups is in vpc-1, the VPC of subnet subnet-a2"));
}

TEST(LaunchParameters, VolumesHaveTheDefaultsOfTheFamily) {
  EXPECT_EQ(parameters(class_of(), account(), machine_of("m5.large"))->block_devices.at(0).size_gib, 20);
  const auto rocket = class_of("bottlerocket@latest", "Bottlerocket");
  const auto devices = parameters(rocket, account(rocket), machine_of("m5.large"))->block_devices;
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].size_gib, 4);
  EXPECT_EQ(devices[1].device, "/dev/xvdb");
  EXPECT_EQ(devices[1].encrypted, true);
  EXPECT_TRUE(
      parameters(class_of("al2023@latest", "Custom"), account(), machine_of("m5.large"))->block_devices.empty());
}

TEST(LaunchParameters, APlannedReservationIsTargeted) {
  auto node_class = class_of();
  node_class.reservations.resize(1);
  node_class.reservations[0].tags = {{"team", "ml"}};
  auto has = account();
  for (const char* kind : {"default", "capacity-block"}) {
    has.reservations.push_back({fmt::format("cr-{}", kind),
                                "1",
                                "p5.48xlarge",
                                "us-east-1b",
                                "targeted",
                                kind,
                                "active",
                                8,
                                {{"team", "ml"}}});
  }
  auto planned = machine_of("p5.48xlarge", "us-east-1b");
  planned.count = 8;
  EXPECT_EQ(parameters(node_class, has, planned)->capacity_reservation, "") << "on demand is not reserved by chance";
  planned.reservation = "cr-default";
  const auto got = parameters(node_class, has, planned);
  EXPECT_EQ(got->capacity_reservation, "cr-default");
  EXPECT_FALSE(got->capacity_block);
  EXPECT_EQ(got->count, 8);
  EXPECT_THAT(got->user_data, HasSubstr("karpenter.sh/capacity-type=reserved"));
  planned.reservation = "cr-capacity-block";
  EXPECT_TRUE(parameters(node_class, has, planned)->capacity_block);
  // It was canceled since the decision: other capacity is tried, as after a refusal of EC2.
  planned.reservation = "cr-gone";
  const auto gone = parameters(node_class, has, planned);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().field, "capacity");
  EXPECT_THAT(gone.error().message, HasSubstr("does not select cr-gone any more"));
}

TEST(LaunchParameters, TheInstancesOfAGangAreInOneSubnetWithEnoughAddresses) {
  auto has = account();
  auto planned = machine_of("p5.48xlarge");
  const auto one = parameters(class_of(), has, planned);
  for (auto& subnet : has.subnets) subnet.free_addresses = subnet.id == one->subnet ? 3 : 4;
  planned.count = 4;
  EXPECT_NE(parameters(class_of(), has, planned)->subnet, one->subnet);
  planned.count = 5;
  const auto full = parameters(class_of(), has, planned);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().field, "capacity");
  EXPECT_THAT(full.error().message, HasSubstr("no subnet has 5 free addresses"));
}

TEST(LaunchParameters, UserDataAndTagsAreBounded) {
  auto node_class = class_of();
  node_class.user_data = "#!/bin/bash\n" + std::string(20'000, '#') + "\n";
  EXPECT_THAT(parameters(node_class, account(), machine_of("m5.large")).error().message,
              HasSubstr("EC2 accepts 16384"));
  node_class = class_of();
  for (int i = 0; i < 45; ++i) node_class.tags["tag-" + std::to_string(i)] = "x";
  EXPECT_THAT(parameters(node_class, account(), machine_of("m5.large")).error().message,
              HasSubstr("would have 51 tags, EC2 accepts 50; remove 1 of them"));
}

TEST(LaunchParameters, OfTheReferenceManifests) {
  const auto dir = qm::testing::shared_dir();
  if (!dir || !std::filesystem::exists(*dir + "/manifests")) GTEST_SKIP() << "QM_SHARED has no manifests";
  const auto read = [&](const std::string& file) {
    return std::get<config::NodeClass>(config::load_path(*dir + "/manifests/" + file).objects.at(0).typed);
  };
  auto has = account();
  for (auto& subnet : has.subnets) subnet.tags = {{"karpenter.sh/discovery", "my-cluster"}};
  has.subnets[2].tags["network-type"] = "private";
  for (auto& group : has.security_groups) group.tags = {{"karpenter.sh/discovery", "my-cluster"}};
  has.subnets.back().vpc = "vpc-1";

  const auto optimized = parameters(read("004-ec2nodeclass-gpu-optimized.yaml"), has, machine_of("p5.48xlarge"));
  ASSERT_TRUE(optimized) << optimized.error().to_string();
  EXPECT_EQ(optimized->subnet, "subnet-b1") << "the only private one";
  EXPECT_EQ(optimized->metadata->hop_limit, 2);
  EXPECT_EQ(optimized->block_devices.at(0).iops, 6000);
  EXPECT_EQ(optimized->tags.at("NodeType"), "gpu");
  EXPECT_THAT(optimized->user_data, HasSubstr("GPU node bootstrap"));
  EXPECT_LT(optimized->user_data.find("GPU node bootstrap"), optimized->user_data.find("kind: NodeConfig"));

  const auto training = parameters(read("004-ec2nodeclass-gpu-training.yaml"), has, machine_of("p5.48xlarge"));
  ASSERT_TRUE(training) << training.error().to_string();
  EXPECT_EQ(training->subnet, "subnet-x") << "the most free addresses";
  EXPECT_EQ(training->metadata->hop_limit, 1);
  EXPECT_EQ(training->block_devices.at(0).size_gib, 500);
  EXPECT_EQ(training->block_devices.at(0).throughput_mib, 1000);
  EXPECT_EQ(training->image_id, "ami-3");
  EXPECT_THAT(training->user_data, Not(HasSubstr("shellscript")));
}

/// The parameters of RunInstances as EC2 receives them, without user data, client token and tags of the cluster.
std::map<std::string, std::string> received(const cloud::InstanceRequest& request) {
  std::string body;
  cloud::AwsOptions options;
  options.endpoint = "http://127.0.0.1:1";
  options.access_key = options.secret_key = "test";
  options.outside.send = [&](const std::string&, const http::Request& sent, std::chrono::milliseconds) {
    body = sent.body;
    return Result<http::Response>(http::Response{400, {}, "<Response/>"});
  };
  EXPECT_FALSE(cloud::Aws(options).run_instances(request));
  auto out = http::parse_form(body);
  std::erase_if(out, [](const auto& field) {
    return field.first == "UserData" || field.first == "ClientToken" || field.first.starts_with("TagSpecification.");
  });
  return out;
}

// S-188, S-190: the launch has the fields of the class, with these values, and no others.
TEST(LaunchParameters, OfTheReferenceManifestsAreAllThatEc2Receives) {
  const auto dir = qm::testing::shared_dir();
  if (!dir || !std::filesystem::exists(*dir + "/manifests")) GTEST_SKIP() << "QM_SHARED has no manifests";
  const auto of = [&](const std::string& file) {
    auto has = account();
    for (auto& subnet : has.subnets) subnet.tags = {{"karpenter.sh/discovery", "my-cluster"}};
    has.subnets[2].tags["network-type"] = "private";
    for (auto& group : has.security_groups) group.tags = {{"karpenter.sh/discovery", "my-cluster"}};
    has.subnets.back().vpc = "vpc-1";
    const auto read = std::get<config::NodeClass>(config::load_path(*dir + "/manifests/" + file).objects.at(0).typed);
    EXPECT_EQ(read.role, "KarpenterNodeRole-my-cluster");
    const auto request = parameters(read, has, machine_of("p5.48xlarge"));
    EXPECT_TRUE(request) << request.error().to_string();
    for (const auto& [key, value] : read.tags) EXPECT_EQ(request->tags.at(key), value);
    return received(*request);
  };
  using Fields = std::map<std::string, std::string>;
  const Fields common{{"Action", "RunInstances"},
                      {"Version", "2016-11-15"},
                      {"MinCount", "1"},
                      {"MaxCount", "1"},
                      {"InstanceType", "p5.48xlarge"},
                      {"ImageId", "ami-3"},
                      {"SecurityGroupId.1", "sg-1"},
                      {"SecurityGroupId.2", "sg-2"},
                      {"BlockDeviceMapping.1.DeviceName", "/dev/xvda"},
                      {"BlockDeviceMapping.1.Ebs.VolumeType", "gp3"},
                      {"BlockDeviceMapping.1.Ebs.Encrypted", "true"},
                      {"BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"},
                      {"MetadataOptions.HttpEndpoint", "enabled"},
                      {"MetadataOptions.HttpTokens", "required"},
                      {"MetadataOptions.HttpProtocolIpv6", "disabled"}};
  Fields optimized{{"SubnetId", "subnet-b1"},  // the only private one
                   {"Placement.AvailabilityZone", "us-east-1b"},
                   {"BlockDeviceMapping.1.Ebs.VolumeSize", "200"},
                   {"BlockDeviceMapping.1.Ebs.Iops", "6000"},
                   {"BlockDeviceMapping.1.Ebs.Throughput", "250"},
                   {"MetadataOptions.HttpPutResponseHopLimit", "2"}};
  Fields training{{"SubnetId", "subnet-x"},  // the most free addresses
                  {"Placement.AvailabilityZone", "us-east-1a"},
                  {"BlockDeviceMapping.1.Ebs.VolumeSize", "500"},
                  {"BlockDeviceMapping.1.Ebs.Iops", "16000"},
                  {"BlockDeviceMapping.1.Ebs.Throughput", "1000"},
                  {"MetadataOptions.HttpPutResponseHopLimit", "1"}};
  for (Fields* own : {&optimized, &training}) own->insert(common.begin(), common.end());
  EXPECT_EQ(of("004-ec2nodeclass-gpu-optimized.yaml"), optimized);
  EXPECT_EQ(of("004-ec2nodeclass-gpu-training.yaml"), training);
}

}  // namespace launch_parameters_test
}  // namespace qm::autoscaler
