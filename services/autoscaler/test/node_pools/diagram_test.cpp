// The picture of NodePools, from the objects alone.
#include "qm/autoscaler/node_pools/diagram.hpp"

#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::autoscaler {
namespace diagram_test {

std::vector<config::Object> objects_of(const std::string& dir, const std::vector<std::string>& files) {
  std::vector<config::Object> out;
  for (const auto& file : files) std::ranges::move(config::load_path(dir + file).objects, std::back_inserter(out));
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(PoolDiagram, ShowsPoolsByWeightAndWhatTheirClassesHave) {
  const auto text = diagram_of(
      objects_of(qm::testing::data_dir() + "/manifests/", {"nodepool-edge-tiers.yaml", "ec2nodeclass-science.yaml"}));
  EXPECT_TRUE(text.starts_with("flowchart TB\n  pods([pending pods])\n  class0[(\"science<br/>")) << text;
  const auto first = text.find("edge-first<br/>weight 95"), second = text.find("edge-second<br/>weight 44"),
             last = text.find("edge-last<br/>weight 3");
  EXPECT_TRUE(first < second && second < last && last != std::string::npos) << text;
  EXPECT_TRUE(has(text, "limit nvidia.com/gpu 9<br/>at most ")) << text;
  EXPECT_TRUE(has(text, "  pods --> pool0\n  pool0 --> class0\n")) << text;
}

// S-213: of the reference drawing, weight 50 and the class of 100 GB are in no manifest; they are not invented.
TEST(PoolDiagram, DrawsWhatTheReferenceObjectsHave) {
  for (const auto& manifests : qm::testing::manifest_folders()) {
    if (manifests.own) continue;
    const auto text =
        diagram_of(objects_of(manifests.dir, {"004-nodepool-gpu-inference.yaml", "004-nodepool-gpu-training.yaml",
                                              "004-nodepool-multi-arch.yaml", "004-ec2nodeclass-gpu-optimized.yaml",
                                              "004-ec2nodeclass-gpu-training.yaml"}));
    EXPECT_TRUE(has(text, "gpu-inference<br/>weight 60<br/>spot and on-demand")) << text;
    EXPECT_TRUE(has(text, "gpu-training<br/>weight 90<br/>on-demand")) << text;
    EXPECT_TRUE(has(text, "gpu-optimized<br/>200 GiB gp3")) << text;
    EXPECT_TRUE(has(text, "gpu-training<br/>500 GiB gp3")) << text;
    EXPECT_TRUE(has(text, "multi-arch<br/>no weight")) << text;
    EXPECT_TRUE(has(text, "default<br/>not among the objects")) << text;
    EXPECT_FALSE(has(text, "100 GiB")) << text;
    EXPECT_LT(text.find("gpu-training<br/>weight"), text.find("gpu-inference<br/>weight")) << text;
  }
}

TEST(PoolDiagram, TextsOfUsersAreQuoted) {
  config::Object object;
  config::NodePool pool;
  pool.name = "a\"]<b";
  object.typed = pool;
  const auto text = diagram_of(std::vector<config::Object>{object});
  EXPECT_TRUE(has(text, "a&quot;]&lt;b<br/>")) << text;
}

}  // namespace diagram_test
}  // namespace qm::autoscaler
