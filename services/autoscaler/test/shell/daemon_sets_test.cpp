// DaemonSet objects as pod sets, and what they take from nodes of the catalog.
#include "qm/autoscaler/cluster.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace daemon_sets_test {

PodSet daemon_set(const std::string& cpu, const std::string& pod_spec) {
  const auto object = Json::parse(
      R"({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "exporter", "namespace": "kube-system"},
          "spec": {"template": {"metadata": {"labels": {"app": "exporter"}}, "spec": {"containers": [{"name": "c",
          "image": "i", "resources": {"requests": {"cpu": ")" +
      cpu + R"("}}}])" + pod_spec + "}}}}");
  EXPECT_TRUE(object);
  auto set = daemon_set_from(*object);
  EXPECT_TRUE(set) << (set ? "" : set.error().to_string());
  return set ? *set : PodSet{};
}

/// The type that is launched for one pod of 1,500 m from m5.large (1,930 m) and m5.xlarge (3,920 m).
std::string launched_with(const std::vector<PodSet>& daemons) {
  Engine engine(catalog_types());
  Pool pool;
  pool.name = "p";
  pool.markets = {Market::kOnDemand};
  pool.instance_types = {"m5.large", "m5.xlarge"};
  pool.taints = {{"dedicated", "", "NoSchedule"}};
  PodSet pods;
  pods.shape.cpu_milli = 1500;
  pods.shape.tolerations = {{"dedicated", "Exists", "", ""}};
  const Instant now = from_micros(1'800'000'000'000'000);
  const std::vector<Command> batch{PoolsApplied{{pool}}, DaemonSetsUpdated{daemons},
                                   DemandUpdated{{{{WorkloadUid("w"), 1}, {pods}, 0, now}}}};
  const auto launches = engine.step(batch, now).launches;
  EXPECT_EQ(launches.size(), 1U);
  return launches.size() == 1 ? launches[0].row.type : "";
}

const std::string kTolerate = R"(, "tolerations": [{"operator": "Exists"}])";

std::string affinity(const std::string& expressions) {
  return R"(, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchExpressions": [)" +
         expressions + "]}]}}}";
}

TEST(DaemonSets, ThoseThatRunOnANodeReduceIt) {
  EXPECT_EQ(launched_with({}), "m5.large");
  auto four = std::vector<PodSet>(4, daemon_set("150m", kTolerate));
  for (std::size_t i = 0; i < four.size(); ++i) four[i].name += std::to_string(i);
  EXPECT_EQ(launched_with(four), "m5.xlarge");
  EXPECT_EQ(launched_with({daemon_set("600m", "")}), "m5.large") << "the taint is not tolerated";
  EXPECT_EQ(launched_with({daemon_set("600m", kTolerate + R"(, "nodeSelector": {"disk": "fast"})")}), "m5.large");
  const std::string family = R"({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [)";
  EXPECT_EQ(launched_with({daemon_set("600m", kTolerate + affinity(family + R"("g5"]})"))}), "m5.large");
  EXPECT_EQ(launched_with({daemon_set("600m", kTolerate + affinity(family + R"("g5", "m5"]})"))}), "m5.xlarge");
}

TEST(DaemonSets, RequestsThatCannotBeReadAreAnError) {
  const auto object = Json::parse(
      R"({"metadata": {"name": "bad", "namespace": "x"}, "spec": {"template": {"spec": {"containers": [{"name": "c",
          "resources": {"requests": {"cpu": "many"}}}]}}}})");
  ASSERT_TRUE(object);
  EXPECT_FALSE(daemon_set_from(*object));
}

}  // namespace daemon_sets_test
}  // namespace qm::autoscaler
