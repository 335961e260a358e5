// Reference manifests through the door that people use, down to what the engine makes of them.
#include "qm/admission/engine.hpp"
#include "qm/admission/translate.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace qm::admission {
namespace {

class ReferenceManifests : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = qm::testing::shared_dir();
    if (!shared || !std::filesystem::is_directory(*shared + "/manifests"))
      GTEST_SKIP() << qm::testing::no_shared();
    dir_ = *shared + "/manifests/";
  }
  /// Applies a file as it lies there; its warnings.
  std::vector<std::string> apply(const std::string& name) {
    const auto objects = objects_from_manifest(qm::testing::read_file(dir_ + name), name);
    EXPECT_TRUE(objects) << (objects ? "" : objects.error().to_string());
    if (!objects) return {};
    const std::vector<Command> batch{*objects};
    (void)engine_.step(batch, now_);
    engine_.commit();
    return objects->warnings;
  }
  void see(const std::string& uid, const std::string& ns, const std::string& priority_class) {
    JobSeen seen;
    seen.spec.uid = WorkloadUid(uid);
    seen.spec.ns = Namespace(ns);
    seen.spec.name = uid;
    seen.spec.priority_class = priority_class;
    PodSet pods;
    pods.shape.gpu.whole = 1;
    seen.spec.pod_sets.push_back(pods);
    const std::vector<Command> batch{seen};
    (void)engine_.step(batch, now_);
    engine_.commit();
  }
  [[nodiscard]] const Workload& workload(const std::string& uid) const {
    return *engine_.find(WorkloadUid(uid));
  }

  std::string dir_;
  Engine engine_;
  Instant now_ = from_micros(1'000'000);
};

// S-087: a job that names no queue lands in the namespace's LocalQueue, and so in research-queue.
TEST_F(ReferenceManifests, AJobWithoutAQueueLandsInResearchLocal) {
  apply("001-resourceflavor-h100-nvlink.yaml");
  apply("001-clusterqueue-research.yaml");
  apply("001-localqueue-research.yaml");
  see("train", "ml-research", "");
  EXPECT_EQ(workload("train").cluster_queue, QueueName("research-queue"));
  EXPECT_EQ(workload("train").phase, Phase::kQuotaReserved);
  see("stray", "elsewhere", "");
  EXPECT_EQ(workload("stray").cluster_queue, QueueName());
}

// S-089: both ways to write a value are taken; the one that Kueue does not have brings a warning each.
TEST_F(ReferenceManifests, PriorityClassesWithTheValueInSpecAreTakenWithAWarning) {
  const auto warnings = apply("001-workloadpriorityclass-scheduling.yaml");
  EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(),
                          [](const std::string& w) { return w.find("value") != std::string::npos; }),
            2)
      << warnings.size();
  const auto upstream = objects_from_manifest(
      "apiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\n"
      "metadata: {name: top}\nvalue: 7\n",
      "top.yaml");
  ASSERT_TRUE(upstream);
  EXPECT_TRUE(upstream->warnings.empty());
  ASSERT_EQ(upstream->priority_classes.size(), 1U);
  EXPECT_EQ(upstream->priority_classes[0].value, 7);
  see("serve", "a", "critical-inference");
  see("train", "a", "spot-training");
  EXPECT_EQ(workload("serve").spec.priority, 1000);
  EXPECT_EQ(workload("train").spec.priority, 100);
}

}  // namespace
}  // namespace qm::admission
