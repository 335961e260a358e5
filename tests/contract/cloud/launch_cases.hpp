#pragma once
// The cases of launches from EC2NodeClasses: what the account has, and what an instance has after the launch.
#include "qm/autoscaler/node_class/launch_parameters.hpp"
#include "qm/config/manifest.hpp"
#include "suite.hpp"

#include <filesystem>

namespace qm::contract {

using autoscaler::Inventory;

class LaunchContract : public CloudContract {
 protected:
  /// Tags a subnet of the zone and a security group of its VPC, as a cluster does for its nodes, and reads them by the
  /// selectors of the class.
  Inventory inventory(const config::NodeClass& node_class) {
    Inventory out;
    const auto tags = [](const config::NodeClassTerm& term) { return term.tags; };
    const auto zone = aws_->describe_subnets({{"availability-zone", {"us-east-1b"}}});
    EXPECT_TRUE(zone && !zone->empty()) << (zone ? "" : zone.error().to_string());
    if (!zone || zone->empty()) return out;
    const auto groups = aws_->describe_security_groups({{"vpc-id", {zone->front().vpc}}});
    EXPECT_TRUE(groups && !groups->empty());
    if (!groups || groups->empty()) return out;
    EXPECT_TRUE(aws_->create_tags({zone->front().id}, tags(node_class.subnets.at(0))));
    EXPECT_TRUE(aws_->create_tags({groups->front().id}, tags(node_class.security_groups.at(0))));
    const auto filters = [](const config::NodeClassTerm& term) {
      cloud::Filters all;
      for (const auto& [key, value] : term.tags) all["tag:" + key] = {value};
      return all;
    };
    out.subnets = aws_->describe_subnets(filters(node_class.subnets.at(0))).value_or(std::vector<cloud::Subnet>{});
    out.security_groups = aws_->describe_security_groups(filters(node_class.security_groups.at(0)))
                              .value_or(std::vector<cloud::SecurityGroup>{});
    read_images(node_class, out);
    return out;
  }
  void read_images(const config::NodeClass& node_class, Inventory& out) {
    std::vector<std::string> ids;
    for (const auto& parameter : autoscaler::image_parameters(node_class, "1.34")) {
      if (missing(Trait::kImageParameters) != nullptr) {
        out.parameters[parameter.name] = "ami-00000000";
        continue;
      }
      const auto id = aws_->get_parameter(parameter.name);
      ASSERT_TRUE(id && *id) << parameter.name;
      out.parameters[parameter.name] = **id;
      ids.push_back(**id);
    }
    if (!ids.empty()) out.images = aws_->describe_images({{"image-id", ids}}).value_or(std::vector<cloud::Image>{});
    if (out.images.empty()) {
      out.images.resize(1);
      out.images[0].id = "ami-00000000";
    }
  }
  static std::vector<config::NodeClass> classes() {
    std::vector<config::NodeClass> out;
    std::vector<std::string> files{std::string(QM_SOURCE_DIR) + "/examples/capacity/nodeclass.yaml"};
    if (const auto dir = testing::shared_dir()) {
      for (const char* name : {"gpu-optimized", "gpu-training"})
        files.push_back(fmt::format("{}/manifests/004-ec2nodeclass-{}.yaml", *dir, name));
    }
    for (const auto& file : files) {
      if (!std::filesystem::exists(file)) continue;
      for (const auto& object : config::load_path(file).objects) {
        if (const auto* read = std::get_if<config::NodeClass>(&object.typed)) out.push_back(*read);
      }
    }
    return out;
  }
};

TEST_P(LaunchContract, AnInstanceOfANodeClassHasItsParameters) {
  int n = 0;
  for (const config::NodeClass& node_class : classes()) {
    SCOPED_TRACE(node_class.name);
    auto resolved = resolve(node_class, inventory(node_class), "1.34");
    ASSERT_TRUE(resolved.faults.empty()) << resolved.faults.front().message;
    const autoscaler::ClusterIdentity cluster{mark_, "https://api.test", "10.100.0.0/16", "Q0E=", "1.34"};
    resolved.node_class.instance_profile = autoscaler::instance_profile_of(node_class, cluster.name, "us-east-1");
    const auto profile = aws_->ensure_instance_profile(resolved.node_class.instance_profile, node_class.role);
    EXPECT_EQ(profile.has_value(), missing(Trait::kRoles) == nullptr);
    autoscaler::PlannedInstance planned;
    planned.claim = fmt::format("pool-{:05}", ++n);
    planned.pool = "pool";
    planned.instance_type = "p5.48xlarge";
    planned.architecture = "x86_64";
    planned.accelerator = autoscaler::Accelerator::kNvidia;
    planned.zone = "us-east-1b";
    if (missing(Trait::kImageParameters) != nullptr) {
      for (auto& one : resolved.images) one.image.architecture = "x86_64";
    }
    auto request = launch_parameters(resolved, cluster, planned);
    ASSERT_TRUE(request) << request.error().to_string();
    request->client_token = fmt::format("{}-{}", mark_, n);
    request->tags["qm-test"] = mark_ + planned.claim;
    ASSERT_EQ(run(*request).size(), 1u);
    const auto seen = described({{"tag:qm-test", {mark_ + planned.claim}}});
    ASSERT_EQ(seen.size(), 1u);
    const cloud::Instance& got = seen.front();
    EXPECT_EQ(got.type, "p5.48xlarge");
    EXPECT_EQ(got.zone, "us-east-1b");
    EXPECT_EQ(got.image, request->image_id);
    EXPECT_EQ(got.subnet, request->subnet);
    EXPECT_EQ(got.security_groups, request->security_groups);
    EXPECT_TRUE(got.profile.ends_with("/" + request->instance_profile)) << got.profile;
    for (const auto& [key, value] : request->tags) EXPECT_EQ(got.tags.at(key), value) << key;
    EXPECT_FALSE(got.spot);
    if (missing(Trait::kImageParameters) == nullptr) {
      const auto image = aws_->describe_images({{"image-id", {got.image}}});
      ASSERT_TRUE(image && image->size() == 1);
      EXPECT_NE(image->front().name.find("al2023-x86_64-nvidia"), std::string::npos) << image->front().name;
    }
  }
  EXPECT_GT(n, 0);
}

TEST_P(LaunchContract, UnknownResourcesAreRefused) {
  QM_NEEDS(Trait::kRefusesLaunches);
  const auto refusal = [&](const auto& change) {
    auto asked = request();
    change(asked);
    const auto got = aws_->run_instances(asked);
    EXPECT_FALSE(got);
    return got ? std::string() : got.error().message.substr(0, got.error().message.find(':'));
  };
  using R = cloud::InstanceRequest;
  EXPECT_EQ(refusal([](R& r) { r.image_id.clear(); }), "MissingParameter");
  EXPECT_EQ(refusal([](R& r) { r.image_id = "ami-0123456789abcdef0"; }), "InvalidAMIID.NotFound");
  EXPECT_EQ(refusal([](R& r) { r.subnet = "subnet-0123456789abcdef0"; }), "InvalidSubnetID.NotFound");
  EXPECT_EQ(refusal([](R& r) { r.security_groups = {"sg-0123456789abcdef0"}; }), "InvalidGroup.NotFound");
  EXPECT_EQ(refusal([](R& r) { r.instance_profile = "none"; }), "InvalidParameterValue");
  const auto elsewhere = aws_->describe_subnets({{"availability-zone", {"us-east-1b"}}});
  ASSERT_TRUE(elsewhere && !elsewhere->empty());
  EXPECT_EQ(refusal([&](R& r) { r.subnet = elsewhere->front().id; }), "InvalidParameterValue")
      << "the request names the zone us-east-1a";
}

TEST_P(LaunchContract, ParametersImagesAndGroupsThatDoNotExistAreNoErrors) {
  const auto parameter = aws_->get_parameter("/qm/none");
  ASSERT_TRUE(parameter) << parameter.error().to_string();
  EXPECT_FALSE(*parameter);
  const auto images = aws_->describe_images({{"image-id", {"ami-0123456789abcdef0"}}});
  ASSERT_TRUE(images) << images.error().to_string();
  EXPECT_TRUE(images->empty());
  const auto subnets = aws_->describe_subnets({{"tag:qm-none", {"*"}}});
  ASSERT_TRUE(subnets) << subnets.error().to_string();
  EXPECT_TRUE(subnets->empty());
}

TEST_P(LaunchContract, ReservationsAndPlacementGroupsAreListed) {
  QM_NEEDS(Trait::kReservations);
  EXPECT_TRUE(aws_->describe_capacity_reservations({}));
  const auto groups = aws_->describe_placement_groups({{"group-name", {"*"}}});
  ASSERT_TRUE(groups) << groups.error().to_string();
  EXPECT_FALSE(groups->empty());
  EXPECT_TRUE(groups->front().id.starts_with("pg-"));
}

}  // namespace qm::contract
