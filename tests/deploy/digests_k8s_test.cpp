// The chart pins images by digest if one is given: a tag can be moved after it was tested.
#include "support.hpp"

#include <fstream>

namespace qm::deploy {
namespace digests_k8s_test {

TEST(ChartImages, ADigestIsUsedInsteadOfATag) {
  if (setting("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
  const std::string digest = "sha256:" + std::string(64, 'c');
  const std::string other = "registry.example.com/redis@sha256:" + std::string(64, 'd');
  const std::string chart = source("deploy/helm/quartermaster");
  const Ran ran =
      run({setting("QM_HELM"), "template", "qm", chart, "-f", chart + "/ci/full.yaml", "--kube-version", "1.36.0",
           "--set", "image.digest=" + digest, "--set", "image.tag=v9", "--set", "bundled.redis.image=" + other});
  ASSERT_EQ(ran.code, 0) << ran.output;
  const testing::TempDir folder;
  const std::string file = folder.path() + "/rendered.yaml";
  std::ofstream(file) << ran.output.substr(std::min(ran.output.find("---\n"), ran.output.size()));
  std::size_t ours = 0, redis = 0;
  for (const auto& object : objects_of(file)) {
    const Json& document = object.document.content;
    const Json& pod = document["kind"].string() == "Pod" ? document["spec"] : document["spec"]["template"]["spec"];
    for (const Json& container : pod["containers"].items()) {
      const std::string& image = container["image"].string();
      if (container["command"].at(0).string().starts_with("qm")) {
        EXPECT_EQ(image, "quartermaster/quartermaster@" + digest) << object.document.name;
        ++ours;
      }
      redis += image == other ? 1 : 0;
    }
  }
  EXPECT_EQ(ours, 12u) << "five services, five migrations, the agent and the test";
  EXPECT_EQ(redis, 1u);
}

TEST(ChartImages, ANameWithoutTagAndDigestIsRefused) {
  if (setting("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
  const std::string chart = source("deploy/helm/quartermaster");
  for (const char* value :
       {"image.digest=latest", "bundled.redis.image=redis", "bundled.postgres.image=localhost:5000/postgres"}) {
    const Ran ran = run({setting("QM_HELM"), "template", "qm", chart, "-f", chart + "/ci/trial.yaml", "--kube-version",
                         "1.36.0", "--set", value});
    EXPECT_NE(ran.code, 0) << value;
    EXPECT_NE(ran.output.find("does not match pattern"), std::string::npos) << ran.output;
  }
}

}  // namespace digests_k8s_test
}  // namespace qm::deploy
