// qmctl import: objects of other tools become NodePools and settings.
#include "fake_suite.hpp"
#include "qm/config/manifest.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace qm::cli {
namespace import_test {

class Import : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(dir_); }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
  const std::string dir_ = ::testing::TempDir() + "import_test";
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// S-154: what is printed can be applied, and so can the reference files.
TEST_F(Import, PrintsAPoolThatCanBeApplied) {
  const auto ran = qmctl({"import", "gke", file("pool.sh", R"(gcloud container node-pools create gpu-spot \
    --machine-type=a2-highgpu-8g --accelerator=type=nvidia-tesla-a100,count=8 --spot --enable-autoscaling --max-nodes=10)")});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto loaded = config::load_text(ran.out, "out");
  ASSERT_TRUE(loaded.ok());
  ASSERT_EQ(loaded.objects.size(), 1U);
  const auto* pool = std::get_if<config::NodePool>(&loaded.objects[0].typed);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->limits.at("nodes").units(), 10);
  EXPECT_TRUE(has(ran.out, "# gpu-spot: --max-nodes counts the nodes of one zone")) << ran.out;
}

// S-157 and S-165: flags become settings, and the ambiguous priorities are reported.
TEST_F(Import, ClusterAutoscalerBecomesSettingsAndPools) {
  const auto deployment = file("ca.yaml", R"(apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  template:
    spec:
      containers:
      - name: cluster-autoscaler
        command: [./cluster-autoscaler, --cloud-provider=aws, "--nodes=1:20:h100", --expander=priority, --scan-interval=30s]
)");
  const auto priorities = file("priorities.yaml", R"(apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-autoscaler-priority-expander, namespace: kube-system}
data:
  priorities: |
    10: [.*-ondemand.*]
    50: [.*-spot.*]
)");
  const auto ran = qmctl({"import", "cluster-autoscaler", deployment, priorities, "-o", "json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto out = Json::parse(ran.out);
  ASSERT_TRUE(out) << ran.out;
  EXPECT_EQ((*out)["settings"]["expander"].string(), "priority");
  ASSERT_EQ((*out)["objects"].size(), 1U);
  EXPECT_EQ((*out)["objects"].at(0).path("spec.limits.nodes").string(), "20");
  EXPECT_TRUE(has(ran.out, "spot capacity (priority 50) is preferred to on-demand capacity (priority 10)"));
  EXPECT_TRUE(has(ran.out, "--scan-interval has no effect"));
}

TEST_F(Import, WithoutScaleDownNoNodeIsTerminated) {
  const auto deployment = file("ca.yaml", R"(kind: Deployment
spec: {template: {spec: {containers: [{command: [./cluster-autoscaler, "--nodes=0:4:a", --scale-down-enabled=false,
  --scale-down-utilization-threshold=0.7]}]}}}
)");
  const auto ran = qmctl({"import", "cluster-autoscaler", deployment});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "consolidateAfter: Never")) << ran.out;
  EXPECT_TRUE(has(ran.out, "utilization thresholds have no effect")) << ran.out;
}

TEST_F(Import, RefusesWhatItCannotReadWithTheFile) {
  const auto wrong = file("wrong.yaml", R"(kind: Deployment
spec: {template: {spec: {containers: [{command: [./cluster-autoscaler, "--nodes=20:0:asg"]}]}}}
)");
  const auto reversed = qmctl({"import", "cluster-autoscaler", wrong});
  EXPECT_NE(reversed.code, 0);
  EXPECT_TRUE(has(reversed.err, "wrong.yaml:1")) << reversed.err;
  EXPECT_TRUE(has(reversed.err, "the minimum 20 is above the maximum 0")) << reversed.err;
  EXPECT_NE(qmctl({"import", "cluster-autoscaler", file("other.yaml", "kind: Service\n")}).code, 0);
  EXPECT_NE(qmctl({"import", "eksctl", file("empty.sh", "echo\n")}).code, 0);
  EXPECT_NE(qmctl({"import", "nomad", wrong}).code, 0);
}

}  // namespace import_test
}  // namespace qm::cli
