// Annotations of a ClusterQueue: who may pass whom.
#include "qm/admission/translate.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace {

using namespace std::chrono_literals;

Result<ApplyObjects> read(const std::string& annotation, const std::string& value) {
  return objects_from_manifest(fmt::format(R"(
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: research
  annotations:
    quartermaster.dev/{}: '{}'
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu", cpu]
    flavors:
    - name: h100
      resources: [{{name: "nvidia.com/gpu", nominalQuota: 8}}, {{name: cpu, nominalQuota: 0}}]
)",
                                           annotation, value),
                               "q.yaml");
}
std::string refusal(const std::string& annotation, const std::string& value) {
  const auto found = read(annotation, value);
  return found ? "" : found.error().to_string();
}
void expect_refused(const std::string& annotation, const std::string& value, const std::string& why) {
  const auto text = refusal(annotation, value);
  EXPECT_NE(text.find("q.yaml"), std::string::npos) << value << ": " << text;
  EXPECT_NE(text.find("metadata.annotations[quartermaster.dev/" + annotation + "]"), std::string::npos) << text;
  EXPECT_NE(text.find(why), std::string::npos) << text;
}

TEST(QueueAnnotations, BackfillIsReadAndWhatIsNotKnownIsRefused) {
  const auto found = read("backfill", "conservative");
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_TRUE(found->cluster_queues.at(0).backfill);
  EXPECT_FALSE(read("backfill", "")->cluster_queues.at(0).backfill);
  expect_refused("backfill", "aggressive", "aggressive is not a known value");
}

TEST(QueueAnnotations, AgeingIsReadAndWhatIsNotKnownIsRefused) {
  const auto found = read("ageing", "bound=168h,ceiling=100");
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(found->cluster_queues.at(0).ageing, (forecast::Ageing{168h, 100}));
  EXPECT_EQ(read("ageing", "bound=30m")->cluster_queues.at(0).ageing, (forecast::Ageing{30min, 0}));
  EXPECT_FALSE(read("ageing", "")->cluster_queues.at(0).ageing);
  expect_refused("ageing", "168h", "168h is not understood");
  expect_refused("ageing", "ceiling=5", "it has no bound");
  expect_refused("ageing", "bound=0s", "the bound is no duration");
  expect_refused("ageing", "bound=soon", "the bound is no duration");
  expect_refused("ageing", "bound=1h,ceiling=high", "the ceiling is no priority");
  expect_refused("ageing", "bound=1h,ceiling=5,floor=1", "floor=1 is not understood");
  expect_refused("ageing", "bound=1h,bound=2h", "bound=2h is not understood");
}

}  // namespace
}  // namespace qm::admission
