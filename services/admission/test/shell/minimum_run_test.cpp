// The annotation that protects workloads from preemption for some time.
#include "qm/admission/translate/translate.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace minimum_run_test {

std::string queue_and_class_with(const std::string& value) {
  return fmt::format(R"(
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: research, annotations: {{quartermaster.dev/minimum-run-time: "{0}"}}}}
spec: {{namespaceSelector: {{}}}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {{name: steady, annotations: {{quartermaster.dev/minimum-run-time: "{0}"}}}}
value: 5
)",
                     value);
}

TEST(MinimumRunTime, IsReadFromQueueAndClass) {
  const auto read = objects_from_manifest(queue_and_class_with("90m"), "q.yaml");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->cluster_queues.at(0).minimum_run, std::chrono::minutes(90));
  EXPECT_EQ(read->priority_classes.at(0).minimum_run, std::chrono::minutes(90));
}

TEST(MinimumRunTime, InvalidDurationIsRefusedWithField) {
  for (const char* wrong : {"soon", "-5m"}) {
    const auto read = objects_from_manifest(queue_and_class_with(wrong), "q.yaml");
    ASSERT_FALSE(read) << wrong;
    const auto text = read.error().to_string();
    EXPECT_NE(text.find("q.yaml"), std::string::npos) << text;
    EXPECT_NE(text.find("quartermaster.dev/minimum-run-time"), std::string::npos) << text;
    EXPECT_NE(text.find("30m or 2h"), std::string::npos) << text;
  }
}

}  // namespace minimum_run_test
}  // namespace qm::admission
