// The executor crashes at each of its crash points and is called again, as after a restart: one claim, one instance.
#include "qm/base/crash_point.hpp"
#include "test/shell/rig.hpp"

#include <gtest/gtest.h>

#include <set>

namespace qm::autoscaler {
namespace crash_points_test {

using namespace autoscaler::testing;

struct Death {};

/// Whether the executor reached the crash point and ended there.
bool dies_at(std::string_view point, Rig& rig, const store::IntentRow& intent) {
  arm_crash_point(point, 1, [](std::string_view) { throw Death{}; });
  bool died = false;
  try {
    (void)rig.executor.execute(intent);
  } catch (const Death&) {
    died = true;
  }
  disarm_crash_points();
  return died;
}

TEST(CrashPoints, EachOfTheAutoscalerIsSurvived) {
  std::set<std::string_view> unseen;
  for (const auto name : crash_points())
    if (name.starts_with("autoscaler.") && name != "autoscaler.before_scale")
      unseen.insert(name);  // see ReplicaExecution
  EXPECT_GE(unseen.size(), 4U);
  for (const auto point : std::set<std::string_view>(unseen)) {
    Rig rig;
    if (dies_at(point, rig, rig.launch)) unseen.erase(point);
    EXPECT_EQ(rig.run(rig.launch)["instance"].string(), "i-1") << point;
    EXPECT_EQ(rig.kube.objects.size(), 1U) << point;
    std::set<std::string> launches;  // any number of them: EC2 treats equal ones as one
    for (const auto& body : rig.ec2.bodies) launches.insert(body);
    EXPECT_EQ(launches.size(), 1U) << point;
    if (dies_at(point, rig, rig.terminate)) unseen.erase(point);
    EXPECT_EQ(rig.run(rig.terminate)["error"].string(), "") << point;
    EXPECT_TRUE(rig.kube.objects.empty()) << point;
    EXPECT_GE(rig.ec2.count("TerminateInstances"), 1) << point;
    rig.ec2.set(
        "DescribeAutoScalingGroups",
        "<R><DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>g</AutoScalingGroupName>"
        "<MinSize>0</MinSize><MaxSize>9</MaxSize><DesiredCapacity>1</DesiredCapacity><Instances></Instances></member>"
        "</AutoScalingGroups></DescribeAutoScalingGroupsResult></R>");
    rig.ec2.set("SetDesiredCapacity", "<R/>");
    // A gang: whole, and with a part that is rolled back.
    rig.ec2.set("RunInstances",
                "<R><instancesSet>" + instance_xml("i-8", "") + instance_xml("i-7", "") + "</instancesSet></R>");
    rig.ec2.set("CreateTags", "<R/>");
    if (dies_at(point, rig, rig.gang)) unseen.erase(point);
    const Json whole = rig.run(rig.gang);
    EXPECT_EQ(whole["members"].at(0)["instance"].string(), "i-7") << point;
    EXPECT_EQ(whole["members"].at(1)["instance"].string(), "i-8") << point;
    EXPECT_EQ(rig.kube.objects.size(), 2U) << point;
    rig.kube.objects.clear();
    rig.ec2.set("RunInstances", "<R><instancesSet>" + instance_xml("i-8", "", "terminated") + instance_xml("i-7", "") +
                                    "</instancesSet></R>");
    if (dies_at(point, rig, rig.gang)) unseen.erase(point);
    EXPECT_EQ(rig.run(rig.gang)["error"].string(), "1 of 2 instances came, and were terminated") << point;
    EXPECT_TRUE(rig.kube.objects.empty()) << point;
    // A gang of which the cloud chooses the offering.
    rig.kube.objects.clear();
    rig.fleet({"i-7", "i-8"});
    if (dies_at(point, rig, rig.choice)) unseen.erase(point);
    EXPECT_EQ(rig.run(rig.choice)["members"].at(0)["instance"].string(), "i-7") << point;
    EXPECT_EQ(rig.kube.objects.size(), 2U) << point;
    std::set<std::string> fleets;
    for (const auto& body : rig.ec2.bodies)
      if (body.starts_with("Action=CreateFleet")) fleets.insert(body);
    EXPECT_EQ(fleets.size(), 1U) << point;
    const store::IntentRow resize{"group/g/7", "group.size", "group/g", 0, R"({"group":"g","size":3})"};
    if (dies_at(point, rig, resize)) unseen.erase(point);
    EXPECT_EQ(rig.run(resize)["error"].string(), "") << point;
    std::set<std::string> sizes;  // setting a size twice has the same effect
    for (const auto& body : rig.ec2.bodies)
      if (body.starts_with("Action=SetDesiredCapacity")) sizes.insert(body);
    EXPECT_EQ(sizes.size(), 1U) << point;
  }
  for (const auto point : unseen)
    ADD_FAILURE() << point << " is passed by no launch, termination or change of a group's size";
}

}  // namespace crash_points_test
}  // namespace qm::autoscaler
