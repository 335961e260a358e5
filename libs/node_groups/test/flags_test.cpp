// Flags of Cluster Autoscaler.
#include "qm/node_groups/flags.hpp"

#include "qm/config/yaml_reader.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::node_groups::testing {
namespace flags_test {

using namespace std::chrono_literals;

std::string error_of(const std::vector<std::string>& args) {
  const auto read = read_flags(args);
  return read ? "" : read.error().to_string();
}

// S-157: every flag of the Deployment has its meaning in the settings, or in the NodePool of the group.
TEST(ClusterAutoscalerFlags, OfTheReferenceDeploymentAreRead) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto yaml =
      config::read_yaml(qm::testing::read_file(*shared + "/manifests/001-cluster-autoscaler-deployment.yaml"), "f");
  ASSERT_EQ(yaml.documents.size(), 1U);
  const auto args = flags_of_workload(yaml.documents[0].content);
  ASSERT_TRUE(args) << args.error().to_string();
  EXPECT_EQ(args->size(), 7U) << "the program itself is the eighth word of the command";
  const auto flags = read_flags(*args);
  ASSERT_TRUE(flags) << flags.error().to_string();
  EXPECT_EQ(flags->cloud_provider, "aws");
  EXPECT_EQ(flags->nodes, (std::vector<NodesFlag>{{0, 20, "h100-training-asg"}}));
  EXPECT_EQ(flags->scale_down.delay_after_add, 10min);
  EXPECT_EQ(flags->scale_down.unneeded, 10min);
  EXPECT_FALSE(flags->scale_down.skip_system_pods);
  EXPECT_TRUE(flags->balance_similar);
  EXPECT_EQ(flags->expanders, std::vector<std::string>{"priority"});
  EXPECT_EQ(flags->notes, std::vector<std::string>{});
  EXPECT_EQ(settings_of(*flags), (std::map<std::string, std::string>{{"expander", "priority"},
                                                                     {"balance-similar-node-groups", "true"},
                                                                     {"scale-down-delay-after-add", "10m"},
                                                                     {"scale-down-unready-time", "20m"},
                                                                     {"scale-down-utilization-threshold", "0.5"},
                                                                     {"skip-nodes-with-system-pods", "false"}}));
}

TEST(ClusterAutoscalerFlags, AnUnknownFlagIsAnError) {
  EXPECT_NE(error_of({"--expandr=priority"}).find("--expandr: unknown flag"), std::string::npos);
  EXPECT_NE(error_of({"--expandr=priority"}).find("did you mean --expander?"), std::string::npos);
  EXPECT_NE(error_of({"--cloud-provider=gce"}).find("'gce' has no driver"), std::string::npos);
  EXPECT_NE(error_of({"stray"}).find("unexpected argument 'stray'"), std::string::npos);
}

// S-158: bounds and name of a group; reversed bounds are refused.
TEST(ClusterAutoscalerFlags, NodesHasBoundsAndAName) {
  EXPECT_EQ(*nodes_flag("0:20:h100-training-asg"), (NodesFlag{0, 20, "h100-training-asg"}));
  EXPECT_EQ(nodes_flag("1:3:name:with:colons")->name, "name:with:colons");
  const auto reversed = nodes_flag("20:0:asg");
  ASSERT_FALSE(reversed);
  EXPECT_NE(reversed.error().to_string().find("the minimum 20 is above the maximum 0"), std::string::npos);
  EXPECT_NE(reversed.error().remedy.find("--nodes=0:20:asg"), std::string::npos);
  for (const char* text :
       {"", "asg", "0:asg", "a:b:asg", "-1:2:asg", "0:0:asg", "0:2:", "0 :2:asg", "0:99999999999999999999:asg"})
    EXPECT_FALSE(nodes_flag(text)) << text;
  EXPECT_NE(error_of({"--nodes=0:2:a", "--nodes=0:3:a"}).find("a is named twice"), std::string::npos);
}

TEST(ClusterAutoscalerFlags, ValuesFollowTheFormsOfTheTool) {
  const auto flags = read_flags(std::vector<std::string>{
      "--scale-down-enabled=false", "--ignore-daemonsets-utilization", "--scale-down-unneeded-time", "1h30m",
      "--scale-down-utilization-threshold=0.65", "--scale-down-gpu-utilization-threshold=1", "--v=4",
      "--stderrthreshold=info",
      "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/ml=owned",
      "--scan-interval=30s"});
  ASSERT_TRUE(flags) << flags.error().to_string();
  EXPECT_FALSE(flags->scale_down.enabled);
  EXPECT_TRUE(flags->scale_down.ignore_daemon_sets);
  EXPECT_EQ(flags->scale_down.unneeded, 90min);
  EXPECT_EQ(flags->scale_down.utilization_milli, 650);
  EXPECT_EQ(flags->scale_down.gpu_utilization_milli, 1000);
  ASSERT_EQ(flags->discovery.size(), 1U);
  EXPECT_EQ(*discovery_flag(flags->discovery[0]),
            (std::map<std::string, std::string>{{"k8s.io/cluster-autoscaler/enabled", ""},
                                                {"k8s.io/cluster-autoscaler/ml", "owned"}}));
  EXPECT_EQ(flags->notes.size(), 1U);
  for (const char* wrong :
       {"--scale-down-unneeded-time=10", "--scale-down-unneeded-time=-1m", "--scale-down-enabled=no",
        "--scale-down-utilization-threshold=1.5", "--node-group-auto-discovery=mig:name=a", "--expander=grpc"})
    EXPECT_NE(error_of({wrong}), "") << wrong;
}

TEST(ClusterAutoscalerFlags, OfTheScaleDownAreSettings) {
  const auto flags = read_flags(std::vector<std::string>{
      "--scale-down-utilization-threshold=0.65", "--scale-down-gpu-utilization-threshold=0.125",
      "--scale-down-delay-after-delete=30s", "--scale-down-delay-after-failure=5m",
      "--skip-nodes-with-local-storage=false", "--skip-nodes-with-custom-controller-pods=false",
      "--ignore-daemonsets-utilization=true", "--max-empty-bulk-delete=20", "--max-drain-parallelism=2",
      "--max-graceful-termination-sec=300"});
  ASSERT_TRUE(flags) << flags.error().to_string();
  EXPECT_EQ(flags->notes, std::vector<std::string>{});
  EXPECT_EQ(settings_of(*flags),
            (std::map<std::string, std::string>{{"expander", "least-waste"},
                                                {"scale-down-delay-after-add", "10m"},
                                                {"scale-down-unready-time", "20m"},
                                                {"scale-down-utilization-threshold", "0.65"},
                                                {"scale-down-gpu-utilization-threshold", "0.125"},
                                                {"scale-down-delay-after-delete", "30s"},
                                                {"scale-down-delay-after-failure", "5m"},
                                                {"skip-nodes-with-local-storage", "false"},
                                                {"skip-nodes-with-custom-controller-pods", "false"},
                                                {"ignore-daemonsets-utilization", "true"},
                                                {"max-empty-bulk-delete", "20"},
                                                {"max-drain-parallelism", "2"},
                                                {"max-graceful-termination-sec", "300"}}));
  const auto off = read_flags(std::vector<std::string>{"--scale-down-enabled=false"});
  EXPECT_FALSE(settings_of(*off).contains("scale-down-utilization-threshold"));
}

TEST(Expanders, FormAChainWithoutRepetitions) {
  EXPECT_EQ(*expanders_of("priority,least-waste,random"),
            (std::vector<std::string>{"priority", "least-waste", "random"}));
  EXPECT_FALSE(expanders_of(""));
  EXPECT_FALSE(expanders_of("price,price"));
  EXPECT_FALSE(expanders_of("random,price"));
}

TEST(ClusterAutoscalerFlags, AreThoseOfItsContainer) {
  const auto args = [](const char* text) { return flags_of_workload(*Json::parse(text)); };
  EXPECT_EQ(*args(R"({"spec":{"template":{"spec":{"containers":[{"image":"x/other:1","args":["--a"]},
      {"image":"r.example/autoscaling/cluster-autoscaler:v1.30.0","args":["--expander=price"]}]}}}})"),
            std::vector<std::string>{"--expander=price"});
  EXPECT_FALSE(args(R"({"kind":"Deployment","metadata":{"name":"web"},"spec":{}})"));
}

}  // namespace flags_test
}  // namespace qm::node_groups::testing
