// Instances of an Auto Scaling group: its size is a number, and the group never selects the instance to terminate.
#include "test/shell/rig.hpp"

namespace qm::autoscaler {
namespace group_test {

using namespace autoscaler::testing;

std::string group_xml(int max, int desired, const std::vector<std::pair<std::string, std::string>>& members) {
  std::string instances;
  for (const auto& [id, lifecycle] : members) {
    instances +=
        "<member><InstanceId>" + id + "</InstanceId><LifecycleState>" + lifecycle + "</LifecycleState></member>";
  }
  return fmt::format(
      "<R><DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>gpus</AutoScalingGroupName>"
      "<MinSize>0</MinSize><MaxSize>{}</MaxSize><DesiredCapacity>{}</DesiredCapacity><Instances>{}</Instances>"
      "</member></AutoScalingGroups></DescribeAutoScalingGroupsResult></R>",
      max, desired, instances);
}

struct GroupRig : Rig {
  store::IntentRow terminate_one{"terminate/p-1/5", "instance.terminate", "group/gpus", 0,
                                 R"({"claim":"p-1","instance":"i-1","group":"gpus"})"};

  GroupRig() {
    ec2.set("SetDesiredCapacity", "<R/>");
    ec2.set("TerminateInstanceInAutoScalingGroup", "<R/>");
  }
  void has(int max, int desired, const std::vector<std::pair<std::string, std::string>>& members) {
    ec2.set("DescribeAutoScalingGroups", group_xml(max, desired, members));
  }
  static store::IntentRow size(int n) {
    return {"group/gpus/7", "group.size", "group/gpus", 0, fmt::format(R"({{"group":"gpus","size":{}}})", n)};
  }
  /// The size in the last AWS request, -1 if there was none.
  int asked() {
    const std::scoped_lock lock(ec2.mutex);
    int out = -1;
    for (const auto& body : ec2.bodies) {
      const auto at = body.find("&DesiredCapacity=");
      if (body.starts_with("Action=SetDesiredCapacity") && at != std::string::npos)
        out = std::stoi(body.substr(at + 17));
    }
    return out;
  }
};

TEST(GroupExecutor, SetsTheSizeOnceHoweverOftenItIsRequested) {
  GroupRig rig;
  rig.has(8, 2, {{"i-1", "InService"}, {"i-2", "InService"}});
  EXPECT_EQ(rig.run(GroupRig::size(4))["error"].string(), "");
  EXPECT_EQ(rig.asked(), 4);
  rig.has(8, 4, {{"i-1", "InService"}, {"i-2", "InService"}, {"i-3", "Pending"}});
  EXPECT_EQ(rig.run(GroupRig::size(4))["error"].string(), "");
  EXPECT_EQ(rig.ec2.count("SetDesiredCapacity"), 1);
  EXPECT_TRUE(rig.kube.objects.empty()) << "an instance of a group has no NodeClaim";
}

TEST(GroupExecutor, NeverMakesItSmallerThanWhatItHas) {
  GroupRig rig;
  rig.has(8, 5, {{"i-1", "InService"}, {"i-2", "Pending"}, {"i-3", "Terminating:Wait"}, {"i-4", "Terminated"}});
  EXPECT_EQ(rig.run(GroupRig::size(0))["error"].string(), "");
  EXPECT_EQ(rig.asked(), 2);
}

// S-152
TEST(GroupExecutor, ReportsWhyAGroupCannotScaleUp) {
  GroupRig rig;
  rig.has(3, 2, {});
  const Json over = rig.run(GroupRig::size(4));
  EXPECT_EQ(over["error"].string(),
            "Auto Scaling group gpus has MaxSize 3 and 4 instances are needed; raise its MaxSize");
  EXPECT_EQ(over["granted"].integer(), 3);
  EXPECT_EQ(rig.asked(), -1) << "the group does not choose the claims that fail";
  rig.ec2.set("DescribeAutoScalingGroups",
              "<R><DescribeAutoScalingGroupsResult><AutoScalingGroups/></DescribeAutoScalingGroupsResult></R>");
  EXPECT_EQ(rig.run(GroupRig::size(1))["error"].string(),
            "Auto Scaling group gpus does not exist; create it, or correct the annotation of the NodePool");
  EXPECT_EQ(rig.ec2.count("SetDesiredCapacity"), 0);
  rig.has(8, 0, {});
  rig.ec2.errors["SetDesiredCapacity"] = "ValidationError";
  EXPECT_NE(rig.run(GroupRig::size(1))["error"].string().find("ValidationError"), std::string::npos);
  rig.ec2.errors["SetDesiredCapacity"] = "ScalingActivityInProgress";
  const auto busy = rig.executor.execute(GroupRig::size(1));
  ASSERT_FALSE(busy);
  EXPECT_TRUE(busy.error().retryable()) << "it is asked again";
}

TEST(GroupExecutor, TerminatesAnInstanceThroughItsGroupOnce) {
  GroupRig rig;
  rig.has(8, 2, {{"i-1", "InService"}, {"i-2", "InService"}});
  EXPECT_EQ(rig.run(rig.terminate_one)["error"].string(), "");
  EXPECT_EQ(rig.ec2.count("TerminateInstanceInAutoScalingGroup"), 1);
  rig.has(8, 1, {{"i-1", "Terminating"}, {"i-2", "InService"}});
  EXPECT_EQ(rig.run(rig.terminate_one)["error"].string(), "");
  EXPECT_EQ(rig.ec2.count("TerminateInstanceInAutoScalingGroup"), 1)
      << "a second decrement would terminate another instance";
  rig.ec2.errors["TerminateInstanceInAutoScalingGroup"] = "ScalingActivityInProgress";
  rig.has(8, 2, {{"i-1", "InService"}});
  const auto busy = rig.executor.execute(rig.terminate_one);
  ASSERT_FALSE(busy);
  EXPECT_TRUE(busy.error().retryable());
}

TEST(GroupExecutor, ContinuesAnInstanceAtAHookOrProlongsItsWait) {
  GroupRig rig;
  rig.ec2.set("CompleteLifecycleAction", "<R/>");
  rig.ec2.set("RecordLifecycleActionHeartbeat", "<R/>");
  const auto answer = [](bool done) {
    const Json payload = Json::object({{"group", "gpus"}, {"hook", "drain"}, {"instance", "i-1"}, {"done", done}});
    return store::IntentRow{"hook/i-1/1", "group.hook", "hook/i-1", 0, payload.dump()};
  };
  rig.run(answer(false));
  rig.run(answer(true));
  EXPECT_EQ(rig.ec2.count("RecordLifecycleActionHeartbeat"), 1);
  ASSERT_EQ(rig.ec2.count("CompleteLifecycleAction"), 1);
  EXPECT_NE(rig.ec2.bodies.back().find("LifecycleActionResult=CONTINUE"), std::string::npos);
  rig.ec2.errors["CompleteLifecycleAction"] = "ValidationError";
  EXPECT_TRUE(rig.executor.execute(answer(true))) << "it does not wait anymore";
  rig.ec2.errors["CompleteLifecycleAction"] = "Unavailable";
  const auto away = rig.executor.execute(answer(true));
  ASSERT_FALSE(away);
  EXPECT_TRUE(away.error().retryable());
}

TEST(GroupExecutor, ProtectsThoseInstancesThatAreInServiceAndNotProtected) {
  GroupRig rig;
  rig.ec2.set("SetInstanceProtection", "<R/>");
  rig.has(8, 3, {{"i-1", "InService"}, {"i-2", "Terminating:Wait"}, {"i-3", "InService"}});
  const auto protect = [](bool on) {
    const Json payload =
        Json::object({{"group", "gpus"}, {"instances", Json::array({"i-1", "i-2", "i-3", "i-gone"})}, {"protect", on}});
    return store::IntentRow{"protect/gpus/1", "group.protect", "protect/gpus", 0, payload.dump()};
  };
  rig.run(protect(true));
  ASSERT_EQ(rig.ec2.count("SetInstanceProtection"), 1);
  EXPECT_NE(rig.ec2.bodies.back().find("InstanceIds.member.1=i-1&InstanceIds.member.2=i-3"), std::string::npos)
      << rig.ec2.bodies.back();
  EXPECT_NE(rig.ec2.bodies.back().find("ProtectedFromScaleIn=true"), std::string::npos);
  rig.run(protect(false));
  EXPECT_EQ(rig.ec2.count("SetInstanceProtection"), 1) << "none of them is protected";
  rig.ec2.errors["SetInstanceProtection"] = "Unavailable";
  EXPECT_TRUE(rig.executor.execute(protect(true)).error().retryable());
}

TEST(GroupExecutor, NamesTheClaimAndTheGroupWhenItGivesUp) {
  GroupRig rig;
  const Error error{Code::kUnavailable, "away", {}, {}};
  EXPECT_EQ((*Json::parse(rig.executor.failed(rig.terminate_one, error).bytes))["claim"].string(), "p-1");
  EXPECT_EQ((*Json::parse(rig.executor.failed(GroupRig::size(1), error).bytes))["group"].string(), "gpus");
}

TEST(GroupCodec, ARefusalFailsTheClaimsOfTheGroupAndSuccessHasNoEvent) {
  const auto decoded = [](const std::string& bytes) {
    service::Input in;
    in.source = service::Source::kOutcome;
    in.name = "group.size";
    in.bytes = bytes;
    return *Codec().decode(in);
  };
  EXPECT_TRUE(decoded(R"({"group":"gpus","error":""})").empty());
  const auto refused = decoded(R"({"group":"gpus","error":"why","granted":3})");
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(std::get<GroupRefused>(refused[0]).group, "gpus");
  EXPECT_EQ(std::get<GroupRefused>(refused[0]).error, "why");
  EXPECT_EQ(std::get<GroupRefused>(refused[0]).granted, 3);
}

}  // namespace group_test
}  // namespace qm::autoscaler
