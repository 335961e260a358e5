// Settings of node groups, priorities of a ConfigMap, and nodes with pods of kube-system.
#include "qm/autoscaler/node_groups.hpp"

#include "qm/autoscaler/settings.hpp"
#include "qm/config/yaml_reader.hpp"
#include "qm/node_groups/flags.hpp"
#include "qm/testing/testing.hpp"
#include "src/shell/observed.hpp"
#include "test/shell/rig.hpp"

namespace qm::autoscaler {
namespace node_groups_test {

using namespace autoscaler::testing;
using namespace std::chrono_literals;

Json config_map(const std::string& priorities) {
  return Json::object(
      {{"metadata", Json::object({{"name", "cluster-autoscaler-priority-expander"}, {"namespace", "kube-system"}})},
       {"data", Json::object({{"priorities", priorities}})}});
}

std::vector<Pool> two_pools() {
  Pool ondemand, spot;
  ondemand.name = "a";
  ondemand.group = "h100-ondemand-asg";
  spot.name = "b-spot-pool";
  return {ondemand, spot};
}

std::vector<std::optional<std::int64_t>> ranks(const PriorityWatch& watch) {
  auto pools = two_pools();
  watch.rank(pools);
  return {pools[0].expander_priority, pools[1].expander_priority};
}

using Ranks = std::vector<std::optional<std::int64_t>>;

// S-163: the expander is a setting; a wrong chain lists the valid names.
TEST(NodeGroupSettings, HaveTheNamesOfTheFlags) {
  const auto& table = settings_table();
  const auto read = table.read({{"expander", "priority,least-waste"},
                                {"balance-similar-node-groups", "true"},
                                {"scale-down-delay-after-add", "10m"},
                                {"skip-nodes-with-system-pods", "false"},
                                {"scale-down-utilization-threshold", "0.65"},
                                {"scale-down-gpu-utilization-threshold", "0.125"},
                                {"max-drain-parallelism", "2"},
                                {"max-graceful-termination-sec", "300"}});
  ASSERT_TRUE(read) << read.error().to_string();
  Options options;
  apply(read->groups, options);
  EXPECT_EQ(options.expanders, (std::vector<Expander>{Expander::kPriority, Expander::kLeastWaste}));
  EXPECT_TRUE(options.balance_similar_pools);
  EXPECT_EQ(options.scale_down_delay, 10min);
  EXPECT_EQ(options.scale_down.utilization_milli, 650);
  EXPECT_EQ(options.scale_down.gpu_utilization_milli, 125);
  EXPECT_EQ(options.scale_down.max_drains, 2);
  EXPECT_EQ(options.scale_down.max_drain, 7min) << "and two minutes for evictions";
  EXPECT_FALSE(options.scale_down.skip_system_pods);
  EXPECT_EQ(Options().scale_down.utilization_milli, 0) << "off without a threshold";
  EXPECT_EQ(read->groups.system_pods(), SystemPods::kEvicted);
  EXPECT_TRUE(read->groups.by_priority());
  EXPECT_TRUE(table.read({{"expander", "weight"}})->groups.expanders.empty());
  EXPECT_EQ(table.read({{"expander", "grpc"}}).error().field, "expander");
  EXPECT_EQ(table.read({{"expander", "random,price"}}).error().field, "expander");
  EXPECT_EQ(table.read({{"expander-priorities", "name"}}).error().field, "expander-priorities");
}

// S-157: each setting that the import prints is one of the service.
TEST(NodeGroupSettings, AcceptThoseOfAnImportedDeployment) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto yaml = config::read_yaml(
      qm::testing::read_file(*shared + "/manifests/001-cluster-autoscaler-deployment.yaml"), "deployment");
  const auto args = node_groups::flags_of_workload(yaml.documents.at(0).content);
  ASSERT_TRUE(args) << args.error().to_string();
  const auto read = settings_table().read(node_groups::settings_of(*node_groups::read_flags(*args)));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_TRUE(read->groups.balance_similar);
  EXPECT_FALSE(read->groups.skip_system_pods);
  EXPECT_EQ(read->groups.delay_after_add, 10min);
}

// S-165: which number wins is a setting, upstream's by default.
TEST(PriorityWatch, RanksGroupsInTheOrderOfTheSetting) {
  Rig rig;
  PriorityWatch highest(rig.client, {});
  highest.take(config_map("10: ['.*-ondemand.*']\n50: ['.*-spot.*']\n"), false);
  EXPECT_EQ(ranks(highest), (Ranks{10, 50}));
  NodeGroupSettings settings;
  settings.priority_order = node_groups::PriorityOrder::kLowestWins;
  PriorityWatch lowest(rig.client, settings);
  lowest.take(config_map("10: ['.*-ondemand.*']\n50: ['.*-spot.*']\n"), false);
  EXPECT_EQ(ranks(lowest), (Ranks{-10, -50})) << "the higher is preferred";
}

TEST(PriorityWatch, KeepsThePreviousDocumentAfterAnInvalidEdit) {
  Rig rig;
  PriorityWatch watch(rig.client, {});
  EXPECT_EQ(ranks(watch), (Ranks{std::nullopt, std::nullopt}));
  watch.take(config_map("10: ['ondemand']\n"), false);
  watch.take(config_map("10: ['(']\n"), false);
  EXPECT_EQ(ranks(watch), (Ranks{10, std::nullopt}));
  watch.take(config_map("10: ['(']\n"), true);
  EXPECT_EQ(ranks(watch), (Ranks{std::nullopt, std::nullopt}));
}

Json pod(const std::string& ns, const std::string& owner, const std::string& annotations = "{}",
         const std::string& volumes = "[]") {
  return *Json::parse(R"({"metadata":{"name":"dns-1","namespace":")" + ns + R"(","uid":"u1","annotations":)" +
                      annotations + R"(,"ownerReferences":[{"kind":")" + owner +
                      R"(","controller":true}]},"spec":{"nodeName":"n1","volumes":)" + volumes +
                      R"(},"status":{"phase":"Running"}})");
}

TEST(SystemPods, OnlyThoseThatMayBeEvictedDoNotKeepTheirNode) {
  const std::string key = R"("cluster-autoscaler.kubernetes.io/safe-to-evict")";
  const std::string local = R"([{"emptyDir":{}}])";
  EXPECT_TRUE(is_evictable_system_pod(pod("kube-system", "ReplicaSet")));
  EXPECT_FALSE(is_evictable_system_pod(pod("team", "ReplicaSet")));
  EXPECT_FALSE(is_evictable_system_pod(pod("kube-system", "DaemonSet"))) << "it is part of the node";
  EXPECT_FALSE(is_evictable_system_pod(pod("kube-system", "ReplicaSet", "{" + key + R"(:"false"})")));
  EXPECT_FALSE(is_evictable_system_pod(pod("kube-system", "ReplicaSet", "{}", local)));
  EXPECT_TRUE(is_evictable_system_pod(pod("kube-system", "ReplicaSet", "{}", R"([{"emptyDir":{"medium":"Memory"}}])")));
  EXPECT_TRUE(is_evictable_system_pod(pod("kube-system", "ReplicaSet", "{" + key + R"(:"true"})", local)));
  EXPECT_FALSE(is_evictable_system_pod(pod("kube-system", "ReplicaSet", R"({"karpenter.sh/do-not-disrupt":"true"})")));
  Json naked = pod("kube-system", "ReplicaSet");
  naked.set("metadata").erase("ownerReferences");
  EXPECT_FALSE(is_evictable_system_pod(naked));
}

// S-161: with the flag a node with pods of kube-system stays; without it they are evicted first. DaemonSets never count.
TEST(SystemPods, KeepTheirNodeOnlyIfTheFlagIsSet) {
  Rig rig;
  rig.run(rig.launch);
  const store::IntentRow terminate{"terminate/p-1/5", "instance.terminate", "p-1", 0,
                                   R"({"claim":"p-1","instance":"i-1","node":"n1"})"};
  rig.kube.pods = Json::array({pod("kube-system", "DaemonSet"), pod("kube-system", "ReplicaSet")});
  EXPECT_TRUE(rig.run(terminate)["busy"].boolean()) << "skip-nodes-with-system-pods=true";
  Executor evicting(rig.client, rig.aws, Driver::kEc2, "east", plain_parameters, SystemPods::kEvicted);
  const auto first = evicting.execute(terminate);
  ASSERT_FALSE(first) << "the pod is still there";
  EXPECT_EQ(first.error().code, Code::kUnavailable);
  EXPECT_EQ(rig.kube.evicted, std::vector<std::string>{"kube-system/dns-1"});
  EXPECT_EQ(rig.ec2.count("TerminateInstances"), 0);
  rig.kube.pods = Json::array({pod("kube-system", "DaemonSet")});
  const auto second = evicting.execute(terminate);
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_EQ(rig.ec2.count("TerminateInstances"), 1);
  // A workload's pod keeps the node in both modes.
  rig.kube.pods = Json::array({pod("team", "ReplicaSet")});
  EXPECT_TRUE(Json::parse(evicting.execute(terminate)->bytes)->find("busy") != nullptr);
}

}  // namespace node_groups_test
}  // namespace qm::autoscaler
