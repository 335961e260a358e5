#pragma once
#include "aws.hpp"
#include "aws_wire.hpp"
#include "qm/cloud/resources.hpp"
#include "world.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::fleet {

/// Name and alternatives; '*' and '?' stand for any text and any character.
using Filters = std::vector<std::pair<std::string, std::vector<std::string>>>;
using Facts = std::multimap<std::string, std::string>;
/// The call's filters; a name that is not in `names` and is not "tag:KEY" is refused.
[[nodiscard]] Answered<Filters> read_filters(const AwsCall& call, const std::set<std::string>& names);
[[nodiscard]] bool passes(const Facts& facts, const Filters& filters);
/// Adds the tags as "tag-key" and "tag:KEY".
void add_tag_facts(Facts& facts, const std::map<std::string, std::string>& tags);
void write_tags(AwsXml& xml, const std::map<std::string, std::string>& tags);

/// What the simulated account has for launches: images of EKS and Bottlerocket in two releases with their public
/// parameters, an image of its own, one subnet for each zone in one VPC, security groups, a placement group, and
/// instance profiles. Subnets and security groups have the tag karpenter.sh/discovery=quartermaster.
///
/// EC2      DescribeImages, DescribeSubnets, DescribeSecurityGroups, DescribeCapacityReservations (none),
///          DescribePlacementGroups
/// IAM      GetInstanceProfile, CreateInstanceProfile, AddRoleToInstanceProfile
/// SSM      GetParameter
/// Threads  under the world's lock.
class AwsAccount {
 public:
  static constexpr const char* kOwner = "000000000000";

  explicit AwsAccount(World& world);
  [[nodiscard]] AwsReply describe(const AwsCall& call);
  [[nodiscard]] AwsReply iam(const AwsCall& call);
  [[nodiscard]] Answered<http::Answer> ssm(const AwsCall& call) const;
  /// Refuses the launch as EC2 does: an unknown image, a subnet of another zone, an unknown security group, profile or
  /// placement group, user data that is not base64. Sets what the instance has.
  [[nodiscard]] Answered<void> check_launch(const AwsCall& call, LaunchSpec& spec) const;
  /// Whether it has the resource; then it gets the tags.
  [[nodiscard]] bool set_tags(const std::string& id, const std::map<std::string, std::string>& tags);
  [[nodiscard]] bool has(const std::string& id) const;
  [[nodiscard]] const std::string& vpc() const { return vpc_; }

 private:
  [[nodiscard]] cloud::Tags* tags_of(const std::string& id);
  void add_images(std::string_view release, Instant created);
  [[nodiscard]] AwsReply describe_images(const AwsCall& call) const;
  [[nodiscard]] AwsReply describe_subnets(const AwsCall& call) const;
  [[nodiscard]] AwsReply describe_groups(const AwsCall& call) const;
  [[nodiscard]] AwsReply describe_placement_groups(const AwsCall& call) const;
  [[nodiscard]] Answered<void> check_network(const AwsCall& call, LaunchSpec& spec) const;

  World& world_;
  std::string vpc_;
  std::vector<cloud::Image> images_;
  std::vector<cloud::Subnet> subnets_;  ///< free addresses without the instances
  std::vector<cloud::SecurityGroup> groups_;
  std::vector<cloud::PlacementGroup> placement_groups_;
  std::map<std::string, std::string> parameters_;  ///< public names without the Kubernetes version -> image
  std::map<std::string, std::string> profiles_;    ///< name -> role; empty = none yet
};

}  // namespace qm::fleet
