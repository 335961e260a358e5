// CreateFleet with Type=instant, launch templates, and capacity by zone.
#include "aws_rig.hpp"

#include <gmock/gmock.h>

#include <set>

namespace qm::fleet {
namespace aws_fleet_test {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr const char *kA = "us-east-1a", *kB = "us-east-1b", *kBig = "p5.48xlarge", *kSmall = "g5.xlarge";

class AwsFleetTest : public AwsApiTest {
 protected:
  void SetUp() override {
    cloud::LaunchTemplate launch;
    launch.name = "nodes-1";
    launch.launch.image_id = kPlainImage;
    launch.tags = {{"owner", "gpu"}};
    ASSERT_TRUE(aws.create_launch_template(launch));
  }
  static cloud::FleetRequest fleet(std::vector<cloud::FleetOverride> overrides, int target, std::string token = {}) {
    cloud::FleetRequest out;
    out.client_token = std::move(token);
    out.launch_template = "nodes-1";
    out.overrides = std::move(overrides);
    out.target = target;
    return out;
  }
  static cloud::FleetOverride in(std::string type, std::string zone = {}, std::optional<double> priority = {}) {
    return {std::move(type), std::move(zone), {}, priority};
  }
  std::multiset<std::string> zones_of(const cloud::FleetResult& result) const {
    std::multiset<std::string> out;
    for (const auto& one : result.instances) out.insert(world.instance(one.id)->zone);
    return out;
  }
};

TEST_F(AwsFleetTest, LaunchesFromTheTemplateWithTagsAndOverrides) {
  auto request = fleet({in(kBig, kB)}, 2, "t");
  request.tags = {{"gang", "g1"}};
  const auto got = aws.create_fleet(request);
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_TRUE(got->errors.empty());
  EXPECT_TRUE(got->fleet_id.starts_with("fleet-"));
  ASSERT_EQ(got->instances.size(), 2U);
  EXPECT_EQ(got->instances[0].instance_type, kBig);
  EXPECT_EQ(got->instances[0].zone, kB);
  EXPECT_FALSE(got->instances[0].spot);
  const auto seen = aws.describe_instances({}, {{"tag:gang", {"g1"}}});
  ASSERT_TRUE(seen);
  ASSERT_EQ(seen->size(), 2U);
  EXPECT_EQ((*seen)[0].image, kPlainImage);
  EXPECT_EQ((*seen)[0].zone, kB);
  EXPECT_EQ((*seen)[0].tags.at("aws:ec2:fleet-id"), got->fleet_id);
}

TEST_F(AwsFleetTest, ARepeatedTokenLaunchesNothingAndOtherParametersAreRefused) {
  const auto first = aws.create_fleet(fleet({in(kBig, kA)}, 3, "t"));
  const auto again = aws.create_fleet(fleet({in(kBig, kA)}, 3, "t"));
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->instances, again->instances);
  EXPECT_EQ(world.instances().size(), 3U);
  const auto other = aws.create_fleet(fleet({in(kBig, kA)}, 4, "t"));
  ASSERT_FALSE(other);
  EXPECT_EQ(cloud::service_code(other.error()), "IdempotentParameterMismatch");
  world.advance(std::chrono::hours(25));
  EXPECT_NE(aws.create_fleet(fleet({in(kBig, kA)}, 3, "t"))->instances, first->instances);
}

TEST_F(AwsFleetTest, APartOfTheTargetIsAResultWithErrors) {
  world.limit_capacity(kBig, Market::kOnDemand, 2, kA);
  const auto got = aws.create_fleet(fleet({in(kBig, kA)}, 5));
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->instances.size(), 2U);
  ASSERT_EQ(got->errors.size(), 1U);
  const auto& error = got->errors[0];
  EXPECT_EQ(error.code, "InsufficientInstanceCapacity");
  EXPECT_EQ(error.kind, (cloud::ErrorKind{cloud::ErrorClass::kCapacity, cloud::ErrorScope::kOffering, false}));
  EXPECT_EQ(error.instance_type, kBig);
  EXPECT_EQ(error.zone, kA);
  EXPECT_FALSE(error.spot);
}

TEST_F(AwsFleetTest, BelowTheMinimumNothingIsLaunched) {
  world.limit_capacity(kBig, Market::kOnDemand, 3, kA);
  world.limit_capacity(kBig, Market::kOnDemand, 3, kB);
  auto request = fleet({in(kBig, kA), in(kBig, kB)}, 4, "t");
  request.min_target = 4;
  request.one_zone = true;
  const auto got = aws.create_fleet(request);
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_TRUE(got->instances.empty());
  EXPECT_EQ(got->errors.size(), 2U);
  EXPECT_TRUE(world.instances().empty());
  // Six are free in two zones together: without the single zone the gang fits.
  request.one_zone = false;
  request.one_type = true;
  request.client_token = "u";
  EXPECT_EQ(aws.create_fleet(request)->instances.size(), 4U);
}

TEST_F(AwsFleetTest, ASingleZoneIsTheFirstThatHoldsTheWholeTarget) {
  world.limit_capacity(kBig, Market::kOnDemand, 1, kA);
  auto request = fleet({in(kBig, kA), in(kBig, kB)}, 3);
  request.min_target = 3;
  request.one_zone = true;
  const auto got = aws.create_fleet(request);
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(zones_of(*got), (std::multiset<std::string>{kB, kB, kB}));
  ASSERT_EQ(got->errors.size(), 1U);
  EXPECT_EQ(got->errors[0].zone, kA);
}

TEST_F(AwsFleetTest, ASingleTypeIsNeverMixed) {
  world.limit_capacity(kSmall, Market::kOnDemand, 2);
  auto request = fleet({in(kSmall), in(kBig)}, 3);
  request.min_target = 3;
  request.one_type = true;
  const auto got = aws.create_fleet(request);
  ASSERT_TRUE(got) << got.error().to_string();
  ASSERT_EQ(got->instances.size(), 3U);
  for (const auto& one : got->instances) EXPECT_EQ(one.instance_type, kBig);
  // A minimum below the target accepts the type that has most.
  request = fleet({in(kSmall)}, 3);
  request.min_target = 2;
  request.one_type = true;
  EXPECT_EQ(aws.create_fleet(request)->instances.size(), 2U);
}

TEST_F(AwsFleetTest, StrategiesOrderTheOverrides) {
  const auto first_of = [&](cloud::FleetAllocation allocation, bool spot) {
    auto request = fleet({in(kBig, kA, 1), in(kSmall, kB, 2)}, 1);
    request.allocation = allocation;
    request.market = spot ? cloud::FleetMarket::kSpot : cloud::FleetMarket::kOnDemand;
    const auto got = aws.create_fleet(request);
    EXPECT_TRUE(got) << got.error().to_string();
    return got && !got->instances.empty() ? got->instances[0].instance_type : std::string();
  };
  using enum cloud::FleetAllocation;
  EXPECT_EQ(first_of(kLowestPrice, false), kSmall);
  EXPECT_EQ(first_of(kPrioritized, false), kBig);
  EXPECT_EQ(first_of(kLowestPrice, true), kSmall);
  EXPECT_EQ(first_of(kPriceCapacityOptimized, true), kSmall);
  world.limit_capacity(kSmall, Market::kSpot, 100, kB);
  EXPECT_EQ(first_of(kCapacityOptimized, true), kBig) << "unlimited";
  world.limit_capacity(kBig, Market::kSpot, 1, kA);
  EXPECT_EQ(first_of(kCapacityOptimizedPrioritized, true), kSmall);
  EXPECT_THAT(aws.create_fleet([&] {
                   auto bad = fleet({in(kBig)}, 1);
                   bad.allocation = kDiversified;
                   return bad;
                 }())
                  .error()
                  .message,
              HasSubstr("diversified"));
}

TEST_F(AwsFleetTest, DiversifiedTakesTurns) {
  auto request = fleet({in(kBig, kA), in(kSmall, kB)}, 4);
  request.market = cloud::FleetMarket::kSpot;
  request.allocation = cloud::FleetAllocation::kDiversified;
  const auto got = aws.create_fleet(request);
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(zones_of(*got), (std::multiset<std::string>{kA, kA, kB, kB}));
  for (const auto& one : got->instances) EXPECT_TRUE(one.spot);
}

TEST_F(AwsFleetTest, WeightsCountUnits) {
  auto eight = in(kBig, kA);
  eight.weight = 8;
  const auto got = aws.create_fleet(fleet({eight}, 20));
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->instances.size(), 3U) << "two are 16 units";
}

TEST_F(AwsFleetTest, AnOverrideWithAWrongParameterIsAnErrorOfItsOwn) {
  auto cheap = in(kBig, kA);
  cheap.max_nano_usd_hour = 1'500'000'000;
  auto elsewhere = in(kBig);
  elsewhere.subnet = "subnet-none";
  auto request = fleet({cheap, elsewhere, in("p99.huge"), in(kSmall, kB)}, 1);
  request.market = cloud::FleetMarket::kSpot;
  const auto got = aws.create_fleet(request);
  ASSERT_TRUE(got) << got.error().to_string();
  ASSERT_EQ(got->instances.size(), 1U);
  std::set<std::string> codes;
  for (const auto& error : got->errors) codes.insert(error.code);
  EXPECT_EQ(codes, (std::set<std::string>{"SpotMaxPriceTooLow", "InvalidSubnetID.NotFound", "InvalidParameterValue"}));
}

TEST_F(AwsFleetTest, IceInAZoneConcernsThatZoneOnly) {
  world.block_capacity(kBig, Market::kSpot, world.now() + seconds(60), kA);
  auto request = fleet({in(kBig, kA)}, 1, "t");
  request.market = cloud::FleetMarket::kSpot;
  const auto blocked = aws.create_fleet(request);
  ASSERT_TRUE(blocked);
  EXPECT_TRUE(blocked->instances.empty());
  ASSERT_EQ(blocked->errors.size(), 1U);
  EXPECT_TRUE(blocked->errors[0].spot);
  EXPECT_EQ(world.capacity_left(kBig, Market::kSpot, kB), std::numeric_limits<int>::max());
  request.overrides = {in(kBig)};
  request.client_token = "u";
  const auto free = aws.create_fleet(request);
  ASSERT_EQ(free->instances.size(), 1U);
  EXPECT_EQ(zones_of(*free).count(kA), 0U);
}

TEST_F(AwsFleetTest, RequestsThatEc2RefusesAreRefused) {
  const auto message = [&](const cloud::FleetRequest& request) {
    const auto got = aws.create_fleet(request);
    EXPECT_FALSE(got);
    return got ? std::string() : got.error().message;
  };
  auto request = fleet({in(kBig)}, 3);
  request.min_target = 3;
  EXPECT_THAT(message(request), HasSubstr("InvalidParameterCombination"));
  request.one_zone = true;
  request.min_target = 4;
  EXPECT_THAT(message(request), HasSubstr("MinTargetCapacity is larger"));
  request = fleet({in(kBig)}, 1);
  request.launch_template = "none";
  EXPECT_THAT(message(request), HasSubstr("InvalidLaunchTemplateName.NotFoundException"));
  EXPECT_THAT(message(fleet({in(kBig)}, 0)), HasSubstr("TotalTargetCapacity"));
}

TEST_F(AwsFleetTest, ATemplateIsCreatedOnceAndDeletedOnce) {
  cloud::LaunchTemplate same;
  same.name = "nodes-1";
  same.launch.image_id = kPlainImage;
  EXPECT_TRUE(aws.create_launch_template(same));
  const auto listed = aws.describe_launch_templates({{"tag:owner", {"gpu"}}});
  ASSERT_TRUE(listed) << listed.error().to_string();
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().name, "nodes-1");
  EXPECT_EQ(listed->front().tags.at("owner"), "gpu");
  EXPECT_EQ(listed->front().created, world.now_floor());
  EXPECT_TRUE(aws.delete_launch_template("nodes-1"));
  EXPECT_TRUE(aws.delete_launch_template("nodes-1"));
  EXPECT_TRUE(aws.describe_launch_templates({})->empty());
  same.name = "ab";
  EXPECT_THAT(aws.create_launch_template(same).error().message, HasSubstr("3 to 128"));
}

TEST_F(AwsFleetTest, RunInstancesOfSeveralIsOneZoneWithCapacityForAll) {
  world.limit_capacity(kBig, Market::kOnDemand, 1, kA);
  world.limit_capacity(kBig, Market::kOnDemand, 4, kB);
  world.limit_capacity(kBig, Market::kOnDemand, 2, "us-east-1c");
  const auto three = aws.run_instances(request("t", 3));
  ASSERT_TRUE(three) << three.error().to_string();
  for (const auto& one : *three) EXPECT_EQ(one.zone, kB);
  const auto more = aws.run_instances(request("u", 3));
  ASSERT_FALSE(more) << "one zone holds two, none holds three";
  EXPECT_EQ(more.error().field, "capacity");
  EXPECT_EQ(world.instances().size(), 3U);
}

}  // namespace aws_fleet_test
}  // namespace qm::fleet
