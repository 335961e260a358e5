// Node pools of gcloud and node groups of eksctl.
#include "qm/node_groups/commands.hpp"

#include "qm/config/typed.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::node_groups::testing {
namespace commands_test {

NodeGroup gke(const std::string& flags, std::vector<std::string>* notes = nullptr) {
  const auto read = gke_node_pools("gcloud container node-pools create p --cluster=c " + flags);
  EXPECT_TRUE(read) << (read ? "" : read.error().to_string());
  if (!read) return {};
  if (notes != nullptr) *notes = read->front().notes;
  return read->front().group;
}

std::string gke_error(const std::string& flags) {
  const auto read = gke_node_pools("gcloud container node-pools create p " + flags);
  return read ? "" : read.error().to_string();
}

config::NodePool parsed(const Json& pool) {
  const auto read = config::typed_object<config::NodePool>(pool, "NodePool");
  EXPECT_TRUE(read) << (read ? "" : read.error().to_string());
  return read.value_or(config::NodePool{});
}

const config::NodePoolRequirement* requirement_on(const config::NodePool& pool, std::string_view key) {
  const auto it = std::ranges::find(pool.requirements, key, &config::NodePoolRequirement::key);
  return it == pool.requirements.end() ? nullptr : &*it;
}

// S-154: the command becomes a pool that any provider can serve.
TEST(GkeNodePool, OfTheReferenceIsANeutralSpotPoolOfEightGpus) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto read = gke_node_pools(qm::testing::read_file(*shared + "/manifests/001-gcloud-nodepool-gpu-spot.sh"));
  ASSERT_TRUE(read) << read.error().to_string();
  ASSERT_EQ(read->size(), 1U);
  const NodeGroup& group = read->front().group;
  EXPECT_TRUE(group.spot);
  EXPECT_EQ(group.min, 0);
  EXPECT_EQ(group.max, 10);
  EXPECT_EQ(group.gpus, 8);
  EXPECT_EQ(group.gpu_model, "a100");
  const auto pool = parsed(node_pool_of(group, "", std::chrono::minutes(10)));
  EXPECT_EQ(pool.name, "gpu-spot-pool");
  EXPECT_EQ(pool.limits.at("nodes").units(), 10);
  EXPECT_EQ(pool.limits.at("nvidia.com/gpu").units(), 80);
  EXPECT_EQ(pool.taints, (std::vector<Taint>{{"nvidia.com/gpu", "present", "NoSchedule"}}));
  EXPECT_EQ(requirement_on(pool, "karpenter.sh/capacity-type")->values, std::vector<std::string>{"spot"});
  EXPECT_EQ(requirement_on(pool, "karpenter.k8s.aws/instance-gpu-name")->values, std::vector<std::string>{"a100"});
  EXPECT_EQ(requirement_on(pool, "karpenter.k8s.aws/instance-gpu-count")->values, std::vector<std::string>{"8"});
  EXPECT_EQ(requirement_on(pool, "node.kubernetes.io/instance-type"), nullptr) << "no other provider has it";
}

TEST(GkeNodePool, BoundsCountTheNodesOfEachZone) {
  std::vector<std::string> notes;
  const NodeGroup group =
      gke("--enable-autoscaling --min-nodes 1 --max-nodes 4 --node-locations us-central1-a,us-central1-b", &notes);
  EXPECT_EQ(group.min, 2);
  EXPECT_EQ(group.max, 8);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("no minimum"), std::string::npos);
  EXPECT_EQ(gke("--enable-autoscaling --total-max-nodes 5 --node-locations a,b").max, 5);
  (void)gke("--enable-autoscaling --max-nodes 4", &notes);
  EXPECT_NE(notes.at(0).find("one zone"), std::string::npos);
}

TEST(GkeNodePool, WithoutAutoscalingIsSizedManuallyAndStatic) {
  const NodeGroup group = gke("--num-nodes=4 --machine-type=g2-standard-4 --accelerator type=nvidia-l4");
  EXPECT_FALSE(group.autoscaled);
  const auto pool = parsed(node_pool_of(group, "", std::chrono::minutes(10)));
  EXPECT_EQ(pool.replicas, 4);
  EXPECT_EQ(pool.limits.size(), 1U);
}

TEST(GkeNodePool, HasTheGpusOfItsMachineType) {
  EXPECT_EQ(gke("--machine-type=a3-highgpu-8g --num-nodes=1").gpus, 8);
  EXPECT_EQ(gke("--machine-type=n1-standard-8 --num-nodes=1 --accelerator=type=nvidia-tesla-t4,count=2").gpus, 2);
  EXPECT_EQ(gke("--machine-type=n1-standard-8 --num-nodes=1 --accelerator=type=nvidia-h100-80gb,count=1").gpu_model,
            "h100");
  EXPECT_NE(gke_error("--machine-type=a2-highgpu-8g --accelerator=type=nvidia-tesla-a100,count=4 --num-nodes=1")
                .find("count 4 does not match a2-highgpu-8g, which has 8 GPUs"),
            std::string::npos);
}

TEST(GkeNodePool, RefusesWhatItCannotRead) {
  EXPECT_NE(gke_error("--max-nodez=4").find("did you mean --max-nodes?"), std::string::npos);
  EXPECT_NE(gke_error("--enable-autoscaling --max-nodes=$MAX").find("$MAX is a shell variable"), std::string::npos);
  EXPECT_NE(gke_error("--enable-autoscaling").find("no upper bound"), std::string::npos);
  EXPECT_NE(gke_error("--enable-autoscaling --min-nodes=5 --max-nodes=4").find("above the maximum 4"),
            std::string::npos);
  EXPECT_NE(gke_error("--num-nodes").find("no value"), std::string::npos);
  EXPECT_NE(gke_error("--node-taints=gpu").find("'gpu' is no taint"), std::string::npos);
  EXPECT_NE(gke_error("second --num-nodes=1").find("2 names"), std::string::npos);
  EXPECT_FALSE(gke_node_pools("kubectl get nodes"));
  EXPECT_FALSE(gke_node_pools("gcloud container node-pools create 'p"));
}

TEST(GkeNodePool, IsFoundAmongOtherCommandsWithQuotesAndComments) {
  const auto read = gke_node_pools(
      "#!/bin/sh\nset -e\n# gcloud container node-pools create no\n"
      "gcloud beta container node-pools create \"a\" --num-nodes=1 \\\n  --node-labels='team=x,tier=y' # last\n"
      "gcloud container node-pools create b --num-nodes 2 && echo done\n");
  ASSERT_TRUE(read) << read.error().to_string();
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(read->at(0).group.labels, (Labels{{"team", "x"}, {"tier", "y"}}));
  EXPECT_EQ(read->at(1).group.max, 2);
}

TEST(GkeNodePool, FlagsOfTheImageAreReported) {
  std::vector<std::string> notes;
  (void)gke("--num-nodes=1 --disk-size=200 --no-enable-autoupgrade", &notes);
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_EQ(notes[0], "--disk-size has no effect: the node class or the launch template of the pool has it");
}

// S-152: the group's bounds, labels and taint.
TEST(EksctlNodeGroup, OfTheReferenceScalesFromZeroToTwenty) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto read =
      eksctl_node_groups(qm::testing::read_file(*shared + "/manifests/001-eksctl-nodegroup-h100-training.sh"));
  ASSERT_TRUE(read) << read.error().to_string();
  const NodeGroup& group = read->front().group;
  EXPECT_EQ(group.instance_type, "p5.48xlarge");
  EXPECT_EQ(group.gpus, 8);
  EXPECT_EQ(group.min, 0);
  EXPECT_EQ(group.max, 20);
  EXPECT_EQ(group.labels, (Labels{{"gpu-type", "h100"}, {"workload", "training"}}));
  const auto pool = parsed(node_pool_of(group, "", std::chrono::minutes(10)));
  EXPECT_EQ(requirement_on(pool, "node.kubernetes.io/instance-type")->values, std::vector<std::string>{"p5.48xlarge"});
  EXPECT_EQ(pool.limits.at("nvidia.com/gpu").units(), 160);
  EXPECT_EQ(pool.consolidate_after, std::chrono::minutes(10));
}

TEST(EksctlNodeGroup, RefusesASizeOutsideOfItsBounds) {
  const auto error = [](const std::string& flags) {
    const auto read = eksctl_node_groups("eksctl create nodegroup --name g -t g5.xlarge " + flags);
    return read ? std::string() : read.error().to_string();
  };
  EXPECT_NE(error("--nodes=5 --nodes-min=0 --nodes-max=4").find("5 is not within 0 to 4"), std::string::npos);
  EXPECT_NE(error("-m 5 -M 4").find("the minimum 5 is above the maximum 4"), std::string::npos);
  EXPECT_NE(error("--nodes-mix=0").find("did you mean --nodes-min?"), std::string::npos);
  EXPECT_EQ(error("--nodes-min=1 --nodes-max=3"), "");
}

TEST(NodePool, OfAGroupHasANameOfTheApi) {
  NodeGroup group;
  group.name = "Team_A/H100 Group.";
  group.max = 1;
  EXPECT_EQ(node_pool_of(group, "Team_A/H100 Group.", {}).path("metadata.name").string(), "team-a-h100-group");
}

}  // namespace commands_test
}  // namespace qm::node_groups::testing
