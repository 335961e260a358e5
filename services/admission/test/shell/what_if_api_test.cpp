// What a WhatIf call accepts as a change, and what it refuses.
#include "qm/admission/api/what_if_api.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace what_if_api_test {

namespace pb = quartermaster::v1;

constexpr const char* kJob = R"(
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team, labels: {kueue.x-k8s.io/queue-name: q}}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      containers: [{name: a, image: i, resources: {limits: {nvidia.com/gpu: "4"}}}]
)";
constexpr const char* kQueue = R"(
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
)";

Result<HypotheticalChange> read(const std::string& manifest, std::vector<std::string> deleted = {}) {
  pb::WhatIfRequest request;
  request.set_manifest(manifest);
  request.set_source("change.yaml");
  for (const auto& one : deleted) request.add_deleted(one);
  return supposed_from(request);
}

TEST(WhatIfCall, AcceptsQueuesAndJobsOfOneFile) {
  const auto found = read(std::string(kQueue) + "---" + kJob);
  ASSERT_TRUE(found) << found.error().to_string();
  ASSERT_EQ(found->objects.cluster_queues.size(), 1U);
  EXPECT_EQ(found->objects.cluster_queues[0].name.value(), "research");
  ASSERT_EQ(found->jobs.size(), 1U);
  EXPECT_EQ(found->jobs[0].spec.total_gpu_milli(), 8000);
  EXPECT_TRUE(found->jobs[0].suspended);
  EXPECT_TRUE(found->objects.warnings.empty()) << found->objects.warnings.front();
}

TEST(WhatIfCall, AcceptsDeletions) {
  const auto found = read("", {"ClusterQueue/research", "LocalQueue/team/q"});
  ASSERT_TRUE(found) << found.error().to_string();
  ASSERT_EQ(found->gone.size(), 2U);
  EXPECT_EQ(found->gone[0].name, "research");
  EXPECT_EQ(found->gone[1].ns.value(), "team");
  EXPECT_EQ(found->gone[1].name, "q");
}

TEST(WhatIfCall, RefusesUnreadableInput) {
  EXPECT_NE(read("").error().to_string().find("neither a manifest nor deleted objects"), std::string::npos);
  EXPECT_NE(read("a: [").error().to_string().find("change.yaml"), std::string::npos);
  for (const char* wrong : {"research", "ClusterQueue/", "LocalQueue/q", "Pod/a", "ClusterQueue/a/b", ""}) {
    const auto found = read(kQueue, {wrong});
    ASSERT_FALSE(found) << wrong;
    EXPECT_EQ(found.error().field, "deleted");
  }
}

}  // namespace what_if_api_test
}  // namespace qm::admission
