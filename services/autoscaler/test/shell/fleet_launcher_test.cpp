// Launches of which the cloud chooses the offering, against an EC2 that refuses, loses answers and forgets templates.
#include "test/shell/rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace fleet_launcher_test {

using namespace autoscaler::testing;
using ::testing::HasSubstr;
using ::testing::Not;

std::string error_xml(const std::string& type, const std::string& zone, const std::string& code) {
  return "<item><launchTemplateAndOverrides><overrides><instanceType>" + type + "</instanceType><availabilityZone>" +
         zone +
         "</availabilityZone></overrides></launchTemplateAndOverrides><lifecycle>on-demand</lifecycle><errorCode>" +
         code + "</errorCode><errorMessage>m</errorMessage></item>";
}

struct Choice : Rig {
  Choice() { fleet({"i-9", "i-5"}); }
  /// The last request of this action.
  std::string body(const std::string& action) {
    std::string out;
    for (const auto& body : ec2.bodies)
      if (body.starts_with("Action=" + action + "&")) out = body;
    return out;
  }
  std::vector<Command> commands(const Json& outcome) {
    service::Input in;
    in.source = service::Source::kOutcome;
    in.name = "gang.launch";
    in.bytes = outcome.dump();
    const auto decoded = Codec{}.decode(in);
    EXPECT_TRUE(decoded);
    return decoded ? *decoded : std::vector<Command>{};
  }
};

TEST(FleetLauncher, OneRequestNamesEveryOfferingAndLaunchesAllOrNone) {
  Choice rig;
  const Json outcome = rig.run(rig.choice);
  EXPECT_EQ(outcome["error"].string(), "");
  ASSERT_EQ(outcome["members"].size(), 2U);
  EXPECT_EQ(outcome["members"].at(0)["instance"].string(), "i-5") << "in the order of the ids";
  EXPECT_EQ(rig.ec2.count("RunInstances"), 0);
  const auto fleet = rig.body("CreateFleet");
  for (const char* part : {"Type=instant", "ClientToken=east%2Fp-1x2", "Overrides.1.InstanceType=p5.48xlarge",
                           "Overrides.1.AvailabilityZone=z1", "Overrides.2.AvailabilityZone=z2",
                           "Overrides.3.InstanceType=p4d.24xlarge", "OnDemandOptions.AllocationStrategy=prioritized",
                           "Overrides.3.Priority=2", "OnDemandOptions.MinTargetCapacity=2",
                           "OnDemandOptions.SingleInstanceType=true", "OnDemandOptions.SingleAvailabilityZone=true",
                           "TargetCapacitySpecification.TotalTargetCapacity=2", "quartermaster.dev%2Flaunch"})
    EXPECT_THAT(fleet, HasSubstr(part));
  EXPECT_THAT(fleet, Not(HasSubstr("karpenter.sh%2Fnodeclaim"))) << "its members have different claims";
  EXPECT_THAT(rig.body("DescribeInstances"), HasSubstr("quartermaster.dev%2Flaunch&Filter.1.Value.1=p-1x2"));
  const Json requirements = rig.kube.objects.at("p-2").path("spec.requirements");
  EXPECT_EQ(requirements.at(0)["values"].size(), 2U) << "the types of which the cloud may choose";
  EXPECT_EQ(requirements.at(2)["values"].size(), 2U) << "the zones";
}

TEST(FleetLauncher, ASingleSpotInstanceIsChosenByPriceAndCapacity) {
  Choice rig;
  rig.fleet({"i-5"});
  store::IntentRow single = rig.launch;
  Json want = *Json::parse(single.payload);
  want.set("others", Json::array({Json::object({{"type", "p5.48xlarge"}, {"zone", "z3"}})}));
  single.payload = want.dump();
  const Json outcome = rig.run(single);
  EXPECT_EQ(outcome["instance"].string(), "i-5");
  EXPECT_EQ(outcome["zone"].string(), "z1") << "that of the instance";
  const auto fleet = rig.body("CreateFleet");
  EXPECT_THAT(fleet, HasSubstr("SpotOptions.AllocationStrategy=price-capacity-optimized"));
  EXPECT_THAT(fleet, Not(HasSubstr("MinTargetCapacity")));
  EXPECT_THAT(fleet, HasSubstr("karpenter.sh%2Fnodeclaim"));
}

TEST(FleetLauncher, EachRefusedOfferingIsRemembered) {
  Choice rig;
  rig.fleet({}, {},
            error_xml("p5.48xlarge", "z1", "InsufficientInstanceCapacity") +
                error_xml("p4d.24xlarge", "z1", "VcpuLimitExceeded") +
                error_xml("p5.48xlarge", "z2", "InvalidSubnetID.NotFound"));
  const Json outcome = rig.run(rig.choice);
  EXPECT_THAT(outcome["error"].string(), HasSubstr("InsufficientInstanceCapacity: m (3 offerings refused)"));
  EXPECT_TRUE(rig.kube.objects.empty());
  const auto commands = rig.commands(outcome);
  ASSERT_EQ(commands.size(), 3U) << "the offerings, then each member";
  const auto& refused = std::get<OfferingsRefused>(commands[0]).offerings;
  ASSERT_EQ(refused.size(), 2U) << "a wrong parameter says nothing about capacity";
  EXPECT_EQ(refused[0].zone, "z1");
  EXPECT_EQ(refused[0].refusal, Refusal::kCapacity);
  EXPECT_EQ(refused[1].type, "p4d.24xlarge");
  EXPECT_EQ(refused[1].refusal, Refusal::kType);
  EXPECT_EQ(std::get<LaunchEnded>(commands[2]).refusal, Refusal::kCapacity);
  // Also where another offering has launched.
  rig.fleet({"i-5", "i-9"}, {}, error_xml("p5.48xlarge", "z2", "InsufficientInstanceCapacity"));
  const auto launched = rig.commands(rig.run(rig.choice));
  ASSERT_EQ(launched.size(), 3U);
  EXPECT_EQ(std::get<OfferingsRefused>(launched[0]).offerings.front().zone, "z2");
  EXPECT_EQ(std::get<LaunchEnded>(launched[1]).type, "p5.48xlarge");
}

TEST(FleetLauncher, AFleetWithoutInstancesAndWithoutCapacityErrorsHoldsNothing) {
  Choice rig;
  rig.fleet({}, {}, error_xml("p5.48xlarge", "z1", "SomethingThatNoTableHas"));
  EXPECT_EQ(rig.run(rig.choice)["refusal"].string(), "launch");
}

TEST(FleetLauncher, APartIsTerminated) {
  Choice rig;
  rig.fleet({"i-5", "i-9"}, {{"i-5", "shutting-down"}});
  const Json outcome = rig.run(rig.choice);
  EXPECT_EQ(outcome["error"].string(), "1 of 2 instances came, and were terminated");
  EXPECT_THAT(rig.body("TerminateInstances"), HasSubstr("InstanceId.1=i-9"));
}

TEST(FleetLauncher, WaitsUntilTheInstancesAreListed) {
  Choice rig;
  rig.ec2.set("DescribeInstances", described(instance_xml("i-5", "")));
  const auto early = rig.executor.execute(rig.choice);
  ASSERT_FALSE(early);
  EXPECT_TRUE(early.error().retryable());
  EXPECT_EQ(rig.ec2.count("TerminateInstances"), 0) << "it was launched a moment ago";
  rig.fleet({"i-5", "i-9"});
  EXPECT_EQ(rig.run(rig.choice)["error"].string(), "");
}

TEST(FleetLauncher, ATokenWithOtherParametersFindsTheFirstLaunch) {
  Choice rig;
  rig.ec2.errors["CreateFleet"] = "IdempotentParameterMismatch";
  EXPECT_EQ(rig.run(rig.choice)["members"].at(1)["instance"].string(), "i-9");
  // The first request launched nothing: after some lists of the cloud that is certain.
  rig.ec2.set("DescribeInstances", described(""));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(rig.executor.execute(rig.choice).error().retryable());
  EXPECT_EQ(rig.run(rig.choice)["refusal"].string(), "launch");
}

TEST(FleetLauncher, OneTemplateForEqualLaunchesAndUnusedOnesAreDeleted) {
  Choice rig;
  (void)rig.run(rig.choice);
  (void)rig.run(rig.choice);
  EXPECT_EQ(rig.ec2.count("CreateLaunchTemplate"), 1);
  const auto created = rig.body("CreateLaunchTemplate");
  const auto at = created.find("LaunchTemplateName=") + 19;
  const std::string name = created.substr(at, created.find('&', at) - at);
  EXPECT_THAT(rig.body("CreateFleet"), HasSubstr("LaunchTemplateSpecification.LaunchTemplateName=" + name));
  EXPECT_THAT(created, Not(HasSubstr("p-1x2"))) << "a template has nothing of one launch";
  // A further process: the template exists, another one is of an earlier image.
  Executor other(rig.client, rig.aws, Driver::kEc2, "east", plain_parameters);
  rig.ec2.set("DescribeLaunchTemplates", "<R><launchTemplates><item><launchTemplateName>" + name +
                                             "</launchTemplateName></item><item><launchTemplateName>quartermaster-old"
                                             "</launchTemplateName></item></launchTemplates></R>");
  ASSERT_TRUE(other.execute(rig.choice));
  EXPECT_EQ(rig.ec2.count("DeleteLaunchTemplate"), 1);
  EXPECT_THAT(rig.body("DeleteLaunchTemplate"), HasSubstr("quartermaster-old"));
  EXPECT_THAT(rig.body("DescribeLaunchTemplates"), HasSubstr("quartermaster.dev%2Fshard&Filter.1.Value.1=east"));
}

TEST(FleetLauncher, ADeletedTemplateIsCreatedAgain) {
  Choice rig;
  (void)rig.run(rig.choice);
  rig.ec2.errors["CreateFleet"] = "InvalidLaunchTemplateName.NotFoundException";
  EXPECT_TRUE(rig.executor.execute(rig.choice).error().retryable());
  rig.ec2.errors.clear();
  EXPECT_EQ(rig.run(rig.choice)["error"].string(), "");
  EXPECT_EQ(rig.ec2.count("CreateLaunchTemplate"), 2);
}

TEST(FleetLauncher, WithoutThePermissionTheBestOfferingIsRequestedAlone) {
  for (const char* action : {"CreateLaunchTemplate", "CreateFleet"}) {
    Choice rig;
    rig.ec2.errors[action] = "UnauthorizedOperation";
    rig.ec2.set("DescribeInstances", described(""));
    rig.ec2.set("RunInstances",
                "<R><instancesSet>" + instance_xml("i-5", "") + instance_xml("i-9", "") + "</instancesSet></R>");
    EXPECT_EQ(rig.run(rig.choice)["members"].at(1)["instance"].string(), "i-9") << action;
    EXPECT_THAT(rig.body("RunInstances"), HasSubstr("Placement.AvailabilityZone=z1"));
    // It was permitted when the launch was first requested: its instances are found.
    rig.ec2.set("DescribeInstances", described(instance_xml("i-7", "") + instance_xml("i-8", "")));
    EXPECT_EQ(rig.run(rig.choice)["members"].at(0)["instance"].string(), "i-7") << action;
    EXPECT_EQ(rig.ec2.count("RunInstances"), 1) << action;
  }
}

}  // namespace fleet_launcher_test
}  // namespace qm::autoscaler
