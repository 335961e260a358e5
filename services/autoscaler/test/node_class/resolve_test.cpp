// Each selector of an EC2NodeClass, and the fault if it selects nothing.
#include "qm/autoscaler/node_class/resolve.hpp"

#include "account.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace resolve_test {

using namespace autoscaler::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> image_ids(const ResolvedClass& resolved) {
  std::vector<std::string> out;
  for (const auto& one : resolved.images) out.push_back(one.image.id);
  return out;
}
template <class T>
std::vector<std::string> ids(const std::vector<T>& all) {
  std::vector<std::string> out;
  for (const auto& one : all) out.push_back(one.id);
  return out;
}

TEST(Resolve, SelectsByTagsAndOrdersByFreeAddresses) {
  const auto resolved = resolve(class_of(), account(), "1.31");
  EXPECT_THAT(resolved.faults, IsEmpty());
  EXPECT_THAT(ids(resolved.subnets), ElementsAre("subnet-a2", "subnet-b1", "subnet-a1"));
  EXPECT_THAT(ids(resolved.security_groups), ElementsAre("sg-1", "sg-2"));
  EXPECT_EQ(resolved.images.size(), 5u);
}

TEST(Resolve, TheParametersOfAnAliasAreThoseThatAwsPublishes) {
  const auto names = [](const std::string& alias) {
    std::vector<std::string> out;
    for (const auto& one : image_parameters(class_of(alias), "1.31")) out.push_back(one.name);
    return out;
  };
  const std::string eks = "/aws/service/eks/optimized-ami/1.31/";
  EXPECT_THAT(names("al2023@latest"), ElementsAre(eks + "amazon-linux-2023/x86_64/standard/recommended/image_id",
                                                  eks + "amazon-linux-2023/arm64/standard/recommended/image_id",
                                                  eks + "amazon-linux-2023/x86_64/nvidia/recommended/image_id",
                                                  eks + "amazon-linux-2023/arm64/nvidia/recommended/image_id",
                                                  eks + "amazon-linux-2023/x86_64/neuron/recommended/image_id"));
  EXPECT_EQ(names("al2023@v20240807")[2],
            eks + "amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.31-v20240807/image_id");
  EXPECT_THAT(names("al2@latest"), ElementsAre(eks + "amazon-linux-2/recommended/image_id",
                                               eks + "amazon-linux-2-arm64/recommended/image_id",
                                               eks + "amazon-linux-2-gpu/recommended/image_id"));
  EXPECT_EQ(names("al2@v20240807")[2], eks + "amazon-linux-2-gpu/amazon-eks-gpu-node-1.31-v20240807/image_id");
  EXPECT_THAT(names("bottlerocket@v1.20.0"),
              ElementsAre("/aws/service/bottlerocket/aws-k8s-1.31/x86_64/1.20.0/image_id",
                          "/aws/service/bottlerocket/aws-k8s-1.31/arm64/1.20.0/image_id",
                          "/aws/service/bottlerocket/aws-k8s-1.31-nvidia/x86_64/1.20.0/image_id",
                          "/aws/service/bottlerocket/aws-k8s-1.31-nvidia/arm64/1.20.0/image_id"));
}

TEST(Resolve, ImagesByNameAreOfTheAccountOrOfAmazonUnlessAnOwnerIsNamed) {
  auto node_class = class_of();
  node_class.images[0] = {};
  node_class.images[0].name = "gpu-*";
  auto has = account();
  auto own = image_of("ami-own", "x86_64", 20, "gpu-1"), amazon = image_of("ami-amazon", "x86_64", 30, "gpu-2"),
       third = image_of("ami-third", "x86_64", 40, "gpu-3"), other = image_of("ami-other", "x86_64", 50, "cpu");
  own.own = true;
  own.owner = "111122223333";
  own.owner_alias.clear();
  third.owner = "999999999999";
  third.owner_alias.clear();
  has.images = {own, amazon, third, other};
  EXPECT_THAT(image_ids(resolve(node_class, has, "1.31")), ElementsAre("ami-amazon", "ami-own")) << "the newest first";
  node_class.images[0].owner = "self";
  EXPECT_THAT(image_ids(resolve(node_class, has, "1.31")), ElementsAre("ami-own"));
  node_class.images[0].owner = "999999999999";
  EXPECT_THAT(image_ids(resolve(node_class, has, "1.31")), ElementsAre("ami-third"));
  has.images[1].deprecated = true;
  node_class.images[0].owner.clear();
  EXPECT_THAT(image_ids(resolve(node_class, has, "1.31")), ElementsAre("ami-own", "ami-amazon")) << "deprecated last";
  has.images[0].state = "pending";
  EXPECT_THAT(image_ids(resolve(node_class, has, "1.31")), ElementsAre("ami-amazon"));
}

TEST(Resolve, ImagesByIdByTagAndByParameter) {
  auto node_class = class_of();
  node_class.images.assign(3, {});
  node_class.images[0].id = "ami-third";
  node_class.images[1].tags = {{"team", "*"}};
  node_class.images[2].ssm_parameter = "/ml/image";
  auto has = account();
  auto third = image_of("ami-third", "x86_64", 1), tagged = image_of("ami-tagged", "arm64", 2),
       parameter = image_of("ami-parameter", "x86_64", 3), none = image_of("ami-none", "x86_64", 4);
  third.owner_alias.clear();
  tagged.tags = {{"team", "ml"}};
  has.images = {third, tagged, parameter, none};
  has.parameters["/ml/image"] = "ami-parameter";
  EXPECT_THAT(image_ids(resolve(node_class, has, "1.31")), ElementsAre("ami-parameter", "ami-tagged", "ami-third"));
}

TEST(Resolve, OfReservationsOnlyActiveOnes) {
  auto node_class = class_of();
  node_class.reservations.resize(2);
  node_class.reservations[0].tags = {{"team", "ml"}};
  node_class.reservations[0].owner = "1";
  node_class.reservations[1].match_criteria = "targeted";
  auto has = account();
  has.reservations = {{"cr-4", "1", "p5.48xlarge", "us-east-1a", "open", "default", "expired", 8, {{"team", "ml"}}},
                      {"cr-3", "1", "p5.48xlarge", "us-east-1a", "open", "default", "active", 8, {{"team", "ml"}}},
                      {"cr-2", "2", "p5.48xlarge", "us-east-1a", "open", "default", "active", 8, {{"team", "ml"}}},
                      {"cr-1", "2", "p5.48xlarge", "us-east-1a", "targeted", "default", "active", 8, {}}};
  EXPECT_THAT(ids(resolve(node_class, has, "1.31").reservations), ElementsAre("cr-1", "cr-3"));
}

TEST(Resolve, EachEmptySelectionIsAFaultWithItsField) {
  auto node_class = class_of();
  node_class.placement_group_name = "tight";
  const auto resolved = resolve(node_class, {}, "1.31");
  std::vector<std::string> conditions, fields;
  for (const auto& fault : resolved.faults) {
    conditions.push_back(fault.condition);
    fields.push_back(fault.field);
  }
  EXPECT_THAT(conditions, ElementsAre("AMIsReady", "SubnetsReady", "SecurityGroupsReady", "PlacementGroupReady"));
  EXPECT_THAT(fields, ElementsAre("spec.amiSelectorTerms", "spec.subnetSelectorTerms",
                                  "spec.securityGroupSelectorTerms", "spec.placementGroupSelector"));
  EXPECT_EQ(resolved.faults[1].message,
            "EC2NodeClass gpu: no subnet matches tag karpenter.sh/discovery=ml; tag a subnet, or correct "
            "subnetSelectorTerms");
  EXPECT_THAT(resolved.faults[0].message, HasSubstr("no available image matches alias al2023@latest (searched "
                                                    "parameters: /aws/service/eks/optimized-ami/1.31/"));
}

TEST(Resolve, APlacementGroupByNameOrId) {
  auto node_class = class_of();
  node_class.placement_group_name = "tight";
  auto has = account();
  has.placement_groups = {{"pg-1", "loose", "spread", "available"}, {"pg-2", "tight", "cluster", "available"}};
  EXPECT_EQ(resolve(node_class, has, "1.31").placement_group->id, "pg-2");
  node_class.placement_group_name.clear();
  node_class.placement_group_id = "pg-1";
  EXPECT_EQ(resolve(node_class, has, "1.31").placement_group->id, "pg-1");
}

TEST(Resolve, WindowsIsRefused) {
  const auto node_class = class_of("windows2022@latest", "Windows2022");
  const auto resolved = resolve(node_class, account(), "1.31");
  ASSERT_FALSE(resolved.faults.empty());
  EXPECT_EQ(resolved.faults.back().condition, "ValidationSucceeded");
}

}  // namespace resolve_test
}  // namespace qm::autoscaler
