// The SLO of a NodePool from its annotations, and the metrics of headroom.
#include "qm/autoscaler/metrics/headroom_metrics.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/json.hpp"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace qm::autoscaler {
namespace headroom_slo_test {

using ::testing::HasSubstr;
using ::testing::Not;

Pool with(const std::string& annotations, std::int64_t replicas = -1) {
  Pool pool;
  pool.name = "gpu";
  pool.replicas = replicas;
  read_headroom(*Json::parse(fmt::format(R"({{"metadata":{{"annotations":{{{}}}}}}})", annotations)), pool);
  return pool;
}

TEST(HeadroomSlo, IsReadFromBothAnnotations) {
  const Pool pool = with(R"("quartermaster.dev/headroom-wait":"1m30s","quartermaster.dev/headroom-quantile":"0.95")");
  EXPECT_EQ(pool.headroom, (HeadroomSlo{std::chrono::seconds(90), 950'000}));
  EXPECT_EQ(pool.not_ready, "");
  EXPECT_FALSE(with("").headroom);
  EXPECT_EQ(with("").not_ready, "");
}

TEST(HeadroomSlo, APoolWithAWrongOneIsNotReady) {
  EXPECT_THAT(with(R"("quartermaster.dev/headroom-wait":"60s")").not_ready,
              HasSubstr("metadata.annotations[quartermaster.dev/headroom-quantile]: it is missing"));
  EXPECT_THAT(with(R"("quartermaster.dev/headroom-wait":"soon","quartermaster.dev/headroom-quantile":"0.9")").not_ready,
              HasSubstr("\"soon\" is not a duration"));
  for (const char* quantile : {"95", "0", "1", "95%", "nan"}) {
    const std::string text =
        fmt::format(R"("quartermaster.dev/headroom-wait":"60s","quartermaster.dev/headroom-quantile":"{}")", quantile);
    EXPECT_THAT(with(text).not_ready, HasSubstr("is not a quantile")) << quantile;
  }
  EXPECT_THAT(
      with(R"("quartermaster.dev/headroom-wait":"60s","quartermaster.dev/headroom-quantile":"0.9")", 3).not_ready,
      HasSubstr("a NodePool with replicas has no headroom"));
}

TEST(HeadroomSlo, IsReadFromManifestsToo) {
  const qm::testing::TempDir dir;
  const std::string path = dir.path() + "/pool.yaml";
  std::ofstream(path) << R"(apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: warm
  annotations: {quartermaster.dev/headroom-wait: 60s, quartermaster.dev/headroom-quantile: "0.95"}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
)";
  const auto pools = pools_from_manifests(std::vector{path});
  ASSERT_TRUE(pools) << pools.error().to_string();
  ASSERT_EQ(pools->size(), 1U);
  EXPECT_EQ(pools->front().headroom, (HeadroomSlo{std::chrono::seconds(60), 950'000}));
}

// A buffer that is gone has no series any more.
TEST(HeadroomMetrics, ShowNodesAndPriceAndWhatWasAttained) {
  Pool pool = with(R"("quartermaster.dev/headroom-wait":"60s","quartermaster.dev/headroom-quantile":"0.95")");
  pool.instance_types = {"p5.48xlarge"};
  pool.markets = {Market::kOnDemand};
  Buffer buffer{"ml/warm", {}, "replicas 1"};
  buffer.pods.count = 1;
  buffer.pods.shape.gpu.whole = 8;
  Engine engine(catalog_types());
  const auto step = [&](const std::vector<Command>& batch) {
    (void)engine.step(batch, from_micros(1'800'000'000'000'000));
    engine.commit();
  };
  step({PoolsApplied{{pool}}, BuffersApplied{{buffer}}});
  metrics::Registry registry;
  registry.on_collect([&] { return headroom_families(engine); });
  EXPECT_THAT(registry.text(), HasSubstr("qm_autoscaler_headroom_nodes{buffer=\"ml/warm\"} 1\n"));
  EXPECT_THAT(registry.text(), HasSubstr("qm_autoscaler_headroom_usd_per_hour{buffer=\"ml/warm\"} "));
  EXPECT_THAT(registry.text(), HasSubstr("qm_autoscaler_headroom_arrivals_total{nodepool=\"gpu\"} 0\n"));
  EXPECT_THAT(registry.text(), HasSubstr("qm_autoscaler_headroom_in_time_total{nodepool=\"gpu\"} 0\n"));
  step({BuffersApplied{}});
  EXPECT_THAT(registry.text(), Not(HasSubstr("ml/warm")));
}

}  // namespace headroom_slo_test
}  // namespace qm::autoscaler
