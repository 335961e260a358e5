// The launch of a gang by the executor, against an AWS that refuses, answers in part and loses responses.
#include "test/shell/rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace gang_executor_test {

using namespace autoscaler::testing;
using ::testing::HasSubstr;
using ::testing::Not;

struct Gang : Rig {
  Gang() {
    came(instance_xml("i-9", "") + instance_xml("i-5", ""));
    ec2.set("CreateTags", "<R/>");
  }
  void came(const std::string& instances) {
    ec2.set("RunInstances", "<R><instancesSet>" + instances + "</instancesSet></R>");
  }
  /// The first request of this action.
  std::string body(const std::string& action) {
    for (const auto& body : ec2.bodies)
      if (body.starts_with("Action=" + action + "&")) return body;
    return {};
  }
};

TEST(GangExecutor, OneRequestForAllAndAClaimForEach) {
  Gang rig;
  for (int i = 0; i < 2; ++i) {
    const Json outcome = rig.run(rig.gang);
    EXPECT_EQ(outcome["error"].string(), "");
    ASSERT_EQ(outcome["members"].size(), 2U);
    EXPECT_EQ(outcome["members"].at(0)["claim"].string(), "p-1");
    EXPECT_EQ(outcome["members"].at(0)["instance"].string(), "i-5") << "in the order of the ids";
    EXPECT_EQ(outcome["members"].at(1)["instance"].string(), "i-9");
  }
  EXPECT_EQ(rig.ec2.count("RunInstances"), 2);
  EXPECT_EQ(rig.ec2.bodies[0], rig.ec2.bodies[3]) << "the same token and parameters: no second launch";
  const auto run = rig.body("RunInstances");
  EXPECT_THAT(run, HasSubstr("MinCount=2&MaxCount=2"));
  EXPECT_THAT(run, HasSubstr("ClientToken=east%2Fp-1x2"));
  EXPECT_THAT(run, HasSubstr("quartermaster.dev%2Flaunch"));
  EXPECT_THAT(run, Not(HasSubstr("karpenter.sh%2Fnodeclaim"))) << "its members have different claims";
  EXPECT_THAT(rig.body("CreateTags"), HasSubstr("ResourceId.1=i-5"));
  EXPECT_THAT(rig.body("CreateTags"), HasSubstr("karpenter.sh%2Fnodeclaim&Tag.2.Value=p-1"));
  ASSERT_EQ(rig.kube.objects.size(), 2U);
  EXPECT_EQ(rig.kube.objects.at("p-2").path("status.providerID").string(), "aws:///z1/i-9");
}

TEST(GangExecutor, ARefusalIsThatOfEveryMemberWithItsScope) {
  const std::map<std::string, std::string> scopes = {{"InsufficientInstanceCapacity", "capacity"},
                                                     {"MaxSpotInstanceCountExceeded", "market"},
                                                     {"VcpuLimitExceeded", "type"},
                                                     {"InsufficientFreeAddressesInSubnet", "zone"},
                                                     {"UnauthorizedOperation", "launch"},
                                                     {"SomethingThatNoTableHas", "launch"}};
  for (const auto& [code, scope] : scopes) {
    Gang rig;
    rig.ec2.errors["RunInstances"] = code;
    const Json outcome = rig.run(rig.gang);
    EXPECT_EQ(outcome["refusal"].string(), scope) << code;
    EXPECT_THAT(outcome["error"].string(), HasSubstr(code));
    EXPECT_EQ(outcome["members"].size(), 2U);
    EXPECT_TRUE(rig.kube.objects.empty());
    EXPECT_EQ(rig.ec2.count("TerminateInstances"), 0);
    service::Input in;
    in.source = service::Source::kOutcome;
    in.name = "gang.launch";
    in.bytes = outcome.dump();
    const auto commands = Codec{}.decode(in);
    ASSERT_TRUE(commands && commands->size() == 2);
    EXPECT_EQ(name_of(std::get<LaunchEnded>(commands->back()).refusal), scope);
  }
}

TEST(GangExecutor, APartOfAGangIsTerminatedAsOftenAsItIsAsked) {
  Gang rig;
  rig.came(instance_xml("i-1", "", "shutting-down") + instance_xml("i-2", ""));
  for (int i = 0; i < 2; ++i) {
    const Json outcome = rig.run(rig.gang);
    EXPECT_EQ(outcome["error"].string(), "1 of 2 instances came, and were terminated");
    EXPECT_EQ(outcome["refusal"].string(), "capacity");
    EXPECT_TRUE(rig.kube.objects.empty());
  }
  EXPECT_THAT(rig.body("TerminateInstances"), HasSubstr("InstanceId.1=i-2"));
  EXPECT_THAT(rig.body("TerminateInstances"), Not(HasSubstr("i-1")));
  EXPECT_EQ(rig.ec2.count("CreateTags"), 0);
  // The termination is repeated until it has an effect.
  rig.ec2.errors["TerminateInstances"] = "RequestLimitExceeded";
  const auto again = rig.executor.execute(rig.gang);
  ASSERT_FALSE(again);
  EXPECT_TRUE(again.error().retryable());
}

TEST(GangExecutor, InstancesThatCannotBeTaggedAreTerminated) {
  Gang rig;
  rig.ec2.errors["CreateTags"] = "InvalidInstanceID.NotFound";
  const auto early = rig.executor.execute(rig.gang);
  ASSERT_FALSE(early);
  EXPECT_TRUE(early.error().retryable()) << "it was launched a moment ago";
  rig.ec2.errors["CreateTags"] = "UnauthorizedOperation";
  const Json outcome = rig.run(rig.gang);
  EXPECT_THAT(outcome["error"].string(), HasSubstr("UnauthorizedOperation"));
  EXPECT_THAT(rig.body("TerminateInstances"), HasSubstr("InstanceId.1=i-5&InstanceId.2=i-9"));
  EXPECT_TRUE(rig.kube.objects.empty());
}

TEST(GangExecutor, AfterALostResponseTheSameLaunchIsFound) {
  Gang rig;
  rig.ec2.lose_next = true;
  EXPECT_TRUE(rig.executor.execute(rig.gang).error().retryable());
  EXPECT_EQ(rig.run(rig.gang)["members"].at(1)["instance"].string(), "i-9");
  // The class was resolved again in between, and the list of the cloud is delayed.
  rig.ec2.errors["RunInstances"] = "IdempotentParameterMismatch";
  rig.ec2.set("DescribeInstances", described(instance_xml("i-5", "")));
  EXPECT_TRUE(rig.executor.execute(rig.gang).error().retryable()) << "one request launched both";
  rig.ec2.set("DescribeInstances", described(instance_xml("i-5", "") + instance_xml("i-9", "")));
  EXPECT_EQ(rig.run(rig.gang)["members"].at(0)["instance"].string(), "i-5");
  // All were terminated since: nothing is left of the launch.
  rig.ec2.errors["RunInstances"] = "IdempotentInstanceTerminated";
  rig.ec2.set("DescribeInstances",
              described(instance_xml("i-5", "", "terminated") + instance_xml("i-9", "", "terminated")));
  EXPECT_EQ(rig.run(rig.gang)["error"].string(), "0 of 2 instances came, and were terminated");
}

TEST(GangExecutor, WithKarpenterEachMemberIsANodeClaimOfItsOwn) {
  Engine engine(catalog_types());
  Output out;
  for (const char* name : {"p-1", "p-2"}) {
    Claim claim;
    claim.pool = "p";
    claim.launch = "p-1x2";
    out.launches.push_back({ClaimName(name), claim, {}});
  }
  service::Effects ec2, karpenter;
  Codec{}.encode(engine, out, {}, ec2);
  Codec(false, Driver::kKarpenter).encode(engine, out, {}, karpenter);
  ASSERT_EQ(ec2.intents.size(), 1U);
  EXPECT_EQ(ec2.intents[0].kind, "gang.launch");
  EXPECT_EQ(ec2.intents[0].key, "p-1x2");
  ASSERT_EQ(karpenter.intents.size(), 2U);
  EXPECT_EQ(karpenter.intents[1].id, "launch/p-2");
  EXPECT_EQ(karpenter.intents[1].kind, "instance.launch");
}

// With the other services placement binds the pods, and nominates none.
TEST(GangExecutor, OnlyALaunchOfAnAutoscalerAloneHoldsItsNode) {
  Engine engine(catalog_types());
  Output out;
  out.launches.push_back({ClaimName("p-1"), {}, {}});
  for (const bool alone : {false, true}) {
    service::Effects effects;
    Codec(alone, Driver::kKarpenter).encode(engine, out, {}, effects);
    ASSERT_EQ(effects.intents.size(), 1U);
    const Json taints = Json::parse(effects.intents[0].payload)->path("lifecycle.startup_taints");
    EXPECT_EQ(taints.dump(),
              alone ? R"([{"key":"quartermaster.dev/nominating","value":"","effect":"NoSchedule"}])" : "[]");
  }
}

}  // namespace gang_executor_test
}  // namespace qm::autoscaler
