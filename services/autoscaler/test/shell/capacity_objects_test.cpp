// NodeOverlays and CapacityBuffers as objects of the API server.
#include "qm/autoscaler/capacity_objects.hpp"

#include "qm/autoscaler/nodes/node_watch.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace capacity_objects_test {

using namespace std::chrono_literals;

Json json(const char* text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

BufferSource source(std::optional<std::int64_t> replicas) {
  return {json(R"({"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","resources":
      {"requests":{"cpu":"500m","memory":"1Gi","nvidia.com/gpu":"2"},"limits":{"nvidia.com/gpu":"2"}}}]}})"),
          replicas};
}

Result<Buffer> buffer(const std::string& spec, std::optional<std::int64_t> replicas = std::nullopt) {
  return buffer_from(json(("{\"metadata\":{\"namespace\":\"ml\",\"name\":\"warm\"},\"spec\":" + spec + "}").c_str()),
                     source(replicas));
}

TEST(CapacityBuffer, ReplicasAndPercentageTakeTheMaximum) {
  const auto count = [](const std::string& spec, std::optional<std::int64_t> replicas = std::nullopt) {
    const auto read = buffer(spec, replicas);
    EXPECT_TRUE(read) << read.error().to_string();
    return read ? read->pods.count : -1;
  };
  EXPECT_EQ(count(R"({"replicas":3})"), 3);
  EXPECT_EQ(count(R"({"percentage":10})", 25), 3) << "rounded up";
  EXPECT_EQ(count(R"({"replicas":2,"percentage":10})", 25), 3);
  EXPECT_EQ(count(R"({"replicas":5,"percentage":10})", 25), 5);
  EXPECT_EQ(count(R"({"replicas":5,"limits":{"nvidia.com/gpu":"6"}})"), 3);
  EXPECT_EQ(count(R"({"limits":{"cpu":"4","memory":"6Gi"}})"), 6) << "the least of the limits";
  EXPECT_EQ(count(R"({"replicas":0})"), 0);
  const auto one = buffer(R"({"replicas":3})");
  EXPECT_EQ(one->name, "ml/warm");
  EXPECT_EQ(one->pods.shape.gpu.whole, 2);
  EXPECT_EQ(one->pods.shape.cpu_milli, 500);
}

TEST(CapacityBuffer, WhatCannotBeReadIsRefusedWithItsField) {
  const auto field = [](const Result<Buffer>& read) { return read ? std::string("accepted") : read.error().field; };
  EXPECT_EQ(field(buffer("{}")), "spec");
  EXPECT_EQ(field(buffer(R"({"percentage":10})")), "spec.percentage");
  EXPECT_EQ(field(buffer(R"({"replicas":1,"provisioningStrategy":"other"})")), "spec.provisioningStrategy");
  EXPECT_EQ(field(buffer(R"({"replicas":1,"limits":{"cpu":"many"}})")), "spec.limits[cpu]");
}

TEST(NodeOverlay, IsReadWithAllItsFields) {
  const auto overlay = overlay_from(json(R"({"metadata":{"name":"own"},"spec":{"weight":10,"priceAdjustment":"-10%",
      "capacity":{"example.com/fpga":"2"},
      "requirements":[{"key":"node.kubernetes.io/instance-type","operator":"In","values":["g5.xlarge"]}]}})"));
  ASSERT_TRUE(overlay) << overlay.error().to_string();
  EXPECT_EQ(overlay->weight, 10);
  EXPECT_EQ(overlay->adjustment, (PriceAdjustment{true, -10'000'000}));
  EXPECT_EQ(overlay->capacity.at("example.com/fpga"), 2);
  EXPECT_NE(overlay->requirements.find("node.kubernetes.io/instance-type"), nullptr);
  EXPECT_EQ(overlay_from(json(R"({"metadata":{"name":"p"},"spec":{"price":"1.5"}})"))->price->to_usd(2), "1.50");
}

TEST(NodeOverlay, WhatCannotActIsRefusedWithItsField) {
  const auto field = [](const char* spec) {
    const auto read =
        overlay_from(json((std::string("{\"metadata\":{\"name\":\"o\"},\"spec\":") + spec + "}").c_str()));
    return read ? std::string("accepted") : read.error().field;
  };
  EXPECT_EQ(field(R"({"price":"1","priceAdjustment":"+1"})"), "spec.price");
  EXPECT_EQ(field(R"({"price":"cheap"})"), "spec.price");
  EXPECT_EQ(field(R"({"priceAdjustment":"10"})"), "spec.priceAdjustment");
  EXPECT_EQ(field(R"({"capacity":{"cpu":"4"}})"), "spec.capacity[cpu]");
  EXPECT_EQ(field(R"({"requirements":[{"key":"a","operator":"Near"}]})"), "spec.requirements[0].operator");
  EXPECT_EQ(field(R"({"requirements":[{"key":"a","operator":"Gt","values":["x"]}]})"), "spec.requirements[0]");
}

// What decides about a node is in its object: taints, extended resources, conditions, the annotation.
TEST(NodeDetails, AreReadFromTheNode) {
  const auto details =
      details_of_node(json(R"({"metadata":{"name":"n1","annotations":{"karpenter.sh/do-not-disrupt":"true"}},
      "spec":{"providerID":"aws:///us-east-1a/i-1","taints":[{"key":"karpenter.sh/unregistered","effect":"NoExecute"}]},
      "status":{"capacity":{"cpu":"8","memory":"64Gi","nvidia.com/gpu":"4"},"allocatable":{"cpu":"7","nvidia.com/gpu":"4"},
      "conditions":[{"type":"Ready","status":"Unknown","lastTransitionTime":"2026-03-11T12:00:00Z"}]}})"));
  EXPECT_EQ(details.instance, InstanceId("i-1"));
  EXPECT_EQ(details.taints, (std::vector<Taint>{{"karpenter.sh/unregistered", "", "NoExecute"}}));
  EXPECT_EQ(details.allocatable, (std::map<std::string, std::int64_t>{{"nvidia.com/gpu", 4}}));
  EXPECT_EQ(details.capacity.at("cpu"), 8000);
  EXPECT_TRUE(details.do_not_disrupt);
  EXPECT_EQ(details.unhealthy, "Ready is Unknown");
  EXPECT_EQ(details.repair_at, *from_rfc3339("2026-03-11T12:30:00Z"));
}

TEST(NodeDetails, TheAnnotationIsTrueOrADuration) {
  const auto of = [](const std::string& value) {
    return do_not_disrupt_of(
        json(("{\"metadata\":{\"annotations\":{\"karpenter.sh/do-not-disrupt\":\"" + value + "\"}}}").c_str()));
  };
  EXPECT_EQ(of("true"), Duration::max());
  EXPECT_EQ(of("1h30m"), Duration(90min));
  for (const char* none : {"false", "0s", "-1h", "soon", "True"}) EXPECT_EQ(of(none), std::nullopt) << none;
  EXPECT_EQ(do_not_disrupt_of(json("{}")), std::nullopt);
}

}  // namespace capacity_objects_test
}  // namespace qm::autoscaler
