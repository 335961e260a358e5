// Groups of the account: discovered by tags, and described to the engine.
#include "qm/autoscaler/group_watch.hpp"

#include "test/shell/rig.hpp"

namespace qm::autoscaler {
namespace group_watch_test {

using namespace autoscaler::testing;
using namespace std::chrono_literals;

const std::string kTemplate = "k8s.io/cluster-autoscaler/node-template/";

cloud::AutoScalingGroup group(std::map<std::string, std::string> tags) {
  cloud::AutoScalingGroup out;
  out.name = "H100-Training";
  out.max = 20;
  out.instance_types = {"p5.48xlarge", "p5e.48xlarge"};
  out.zones = {"us-west-2a"};
  out.tags = std::move(tags);
  return out;
}

// S-152: labels, taints and resources of the tags, for scale-from-zero.
TEST(GroupPools, HaveTheNodesOfTheirTagsAndTheirFirstType) {
  const Pool pool = pool_of_group(group({{kTemplate + "label/gpu-type", "h100"},
                                         {kTemplate + "taint/nvidia.com/gpu", "present:NoSchedule"},
                                         {kTemplate + "resources/vpc.amazonaws.com/efa", "32"},
                                         {kTemplate + "resources/cpu", "192"},
                                         {kTemplate + "autoscaling-options/scaledownunneededtime", "30m"},
                                         {kTemplate + "autoscaling-options/scaledownunreadytime", "1h"}}));
  EXPECT_EQ(pool.name, "h100-training");
  EXPECT_EQ(pool.group, "H100-Training");
  EXPECT_EQ(pool.instance_types, std::vector<std::string>{"p5.48xlarge"});
  EXPECT_EQ(pool.limit_nodes, 20);
  EXPECT_EQ(pool.labels, (Labels{{"gpu-type", "h100"}}));
  EXPECT_EQ(pool.taints, (std::vector<Taint>{{"nvidia.com/gpu", "present", "NoSchedule"}}));
  EXPECT_EQ(pool.node_resources, (std::map<std::string, std::int64_t>{{"vpc.amazonaws.com/efa", 32}}));
  EXPECT_EQ(pool.consolidate_after, 30min);
  EXPECT_EQ(pool.unready_after, 1h);
  EXPECT_EQ(pool.zones, std::vector<std::string>{"us-west-2a"});
  EXPECT_EQ(pool.not_ready, "");
}

TEST(GroupPools, AreSpotByTheirPolicyOrTheirLabel) {
  auto mixed = group({});
  mixed.on_demand_percent = 0;
  EXPECT_EQ(pool_of_group(mixed).markets, std::vector<Market>{Market::kSpot});
  mixed.on_demand_base = 1;
  EXPECT_EQ(pool_of_group(mixed).markets, std::vector<Market>{Market::kOnDemand});
  auto tagged = group({{kTemplate + "label/node.kubernetes.io/instance-type", "inf2.48xlarge"},
                       {kTemplate + "label/karpenter.sh/capacity-type", "spot"}});
  tagged.instance_types.clear();
  const Pool pool = pool_of_group(tagged);
  EXPECT_EQ(pool.markets, std::vector<Market>{Market::kSpot});
  EXPECT_EQ(pool.instance_types, std::vector<std::string>{"inf2.48xlarge"});
}

TEST(GroupPools, AreNotReadyWithoutATypeOrWithATagThatCannotAct) {
  auto unknown = group({});
  unknown.instance_types.clear();
  EXPECT_NE(pool_of_group(unknown).not_ready.find("add the tag k8s.io/cluster-autoscaler/node-template/label/"),
            std::string::npos);
  unknown.instance_types = {"x9.huge"};
  EXPECT_NE(pool_of_group(unknown).not_ready.find("the catalog does not have the instance type x9.huge"),
            std::string::npos);
  EXPECT_NE(pool_of_group(group({{kTemplate + "taint/gpu", "present"}})).not_ready.find("taint/gpu"),
            std::string::npos);
}

std::string described_group(const std::string& name, const std::string& tag) {
  return "<member><AutoScalingGroupName>" + name +
         "</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>4</MaxSize><DesiredCapacity>1</DesiredCapacity>"
         "<AvailabilityZones><member>z1</member><member>z2</member></AvailabilityZones>"
         "<MixedInstancesPolicy><LaunchTemplate><Overrides><member><InstanceType>p5.48xlarge</InstanceType></member>"
         "</Overrides></LaunchTemplate><InstancesDistribution><OnDemandBaseCapacity>0</OnDemandBaseCapacity>"
         "<OnDemandPercentageAboveBaseCapacity>0</OnDemandPercentageAboveBaseCapacity></InstancesDistribution>"
         "</MixedInstancesPolicy><Instances><member><InstanceId>i-1</InstanceId><LifecycleState>Terminating:Wait"
         "</LifecycleState><ProtectedFromScaleIn>true</ProtectedFromScaleIn></member></Instances><Tags><member><Key>" +
         tag + "</Key><Value>owned</Value></member></Tags></member>";
}

TEST(GroupWatch, DiscoversGroupsByTheirTagsAndDescribesThem) {
  Rig rig;
  rig.ec2.set("DescribeAutoScalingGroups", "<R><DescribeAutoScalingGroupsResult><AutoScalingGroups>" +
                                               described_group("a", "k8s.io/cluster-autoscaler/ml") +
                                               described_group("b", "team") +
                                               "</AutoScalingGroups></DescribeAutoScalingGroupsResult></R>");
  GroupWatch watch(rig.aws, {{{"k8s.io/cluster-autoscaler/ml", ""}}});
  EXPECT_FALSE(watch.discovered()) << "not read yet";
  const auto seen = watch.look({});
  ASSERT_TRUE(seen) << seen.error().to_string();
  ASSERT_EQ(seen->size(), 1U);
  const ScalingGroup& facts = seen->at("a");
  EXPECT_EQ(facts.desired, 1);
  ASSERT_NE(facts.member(InstanceId("i-1")), nullptr);
  EXPECT_EQ(facts.member(InstanceId("i-1"))->lifecycle, "Terminating:Wait");
  EXPECT_TRUE(facts.member(InstanceId("i-1"))->scale_in_protected);
  ASSERT_EQ(watch.discovered()->size(), 1U);
  EXPECT_EQ(watch.discovered()->at(0).group, "a");
  EXPECT_EQ(watch.discovered()->at(0).markets, std::vector<Market>{Market::kSpot});
  EXPECT_EQ(watch.look({"b"})->size(), 2U) << "a NodePool names it";
  GroupWatch other(rig.aws, {{{"k8s.io/cluster-autoscaler/ml", "shared"}}});
  EXPECT_TRUE(other.look({})->empty()) << "the value differs";
}

TEST(GroupWatch, ReadsHooksWarmPoolsAndFailedLaunches) {
  Rig rig;
  std::string text = described_group("a", "team");
  text.replace(text.find("<DesiredCapacity>1"), 18, "<DesiredCapacity>2");
  rig.ec2.set("DescribeAutoScalingGroups", "<R><DescribeAutoScalingGroupsResult><AutoScalingGroups>" + text +
                                               "</AutoScalingGroups></DescribeAutoScalingGroupsResult></R>");
  rig.ec2.set("DescribeLifecycleHooks",
              "<R><DescribeLifecycleHooksResult><LifecycleHooks><member><LifecycleHookName>drain</LifecycleHookName>"
              "<LifecycleTransition>autoscaling:EC2_INSTANCE_TERMINATING</LifecycleTransition><HeartbeatTimeout>600"
              "</HeartbeatTimeout></member></LifecycleHooks></DescribeLifecycleHooksResult></R>");
  rig.ec2.set("DescribeWarmPool",
              "<R><DescribeWarmPoolResult><Instances><member><InstanceId>i-7</InstanceId><LifecycleState>Warmed:Stopped"
              "</LifecycleState></member></Instances></DescribeWarmPoolResult></R>");
  const auto activity = [](const std::string& status, const std::string& what, const std::string& start) {
    return "<member><StatusCode>" + status + "</StatusCode><Description>" + what + "</Description><StartTime>" + start +
           "</StartTime><StatusMessage>InsufficientInstanceCapacity</StatusMessage></member>";
  };
  rig.ec2.set("DescribeScalingActivities",
              "<R><DescribeScalingActivitiesResult><Activities>" +
                  activity("InProgress", "Launching a new EC2 instance", "2026-11-21T09:20:00Z") +
                  activity("Failed", "Launching a new EC2 instance", "2026-11-21T09:14:29Z") +
                  activity("Failed", "Launching a new EC2 instance", "2026-11-21T09:00:00Z") +
                  "</Activities></DescribeScalingActivitiesResult></R>");
  GroupWatch watch(rig.aws, {});
  for (int i = 0; i < 2; ++i) {
    const auto seen = watch.look({"a"});
    ASSERT_TRUE(seen) << seen.error().to_string();
    const ScalingGroup& facts = seen->at("a");
    EXPECT_EQ(facts.hooks, (std::vector<ScalingGroup::Hook>{{"drain", false, 600s}}));
    EXPECT_EQ(facts.warm, 1);
    EXPECT_TRUE(watch.is_warm("i-7") && !watch.is_warm("i-1"));
    EXPECT_EQ(facts.failed_at, *from_rfc3339("2026-11-21T09:14:29Z")) << "the newest failure";
    EXPECT_EQ(facts.failure, "InsufficientInstanceCapacity");
  }
  EXPECT_EQ(rig.ec2.count("DescribeLifecycleHooks"), 1) << "they rarely change";
}

TEST(GroupWatch, WithoutGroupsAsksNothing) {
  Rig rig;
  GroupWatch watch(rig.aws, {});
  EXPECT_TRUE(watch.look({})->empty());
  EXPECT_TRUE(watch.discovered()->empty());
  EXPECT_EQ(rig.ec2.count("DescribeAutoScalingGroups"), 0);
}

}  // namespace group_watch_test
}  // namespace qm::autoscaler
