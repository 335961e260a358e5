#include "qm/model/scalers.hpp"

#include <gtest/gtest.h>

namespace qm {
namespace scalers_test {

Json parsed(const std::string& text) {
  auto out = Json::parse(text);
  EXPECT_TRUE(out) << text;
  return std::move(out).value_or(Json());
}

Json hpa(const std::string& behavior) {
  return parsed(R"({"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},"spec":{)" +
                (behavior.empty() ? std::string() : R"("behavior":)" + behavior + ",") + R"("maxReplicas":9}})");
}

Json scaled_object(const std::string& metadata) {
  return parsed(R"({"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject","metadata":)" + metadata +
                R"(,"spec":{"scaleTargetRef":{"name":"web"}}})");
}

const std::string kBehavior =
    R"({"scaleUp":{"policies":[{"type":"Pods","value":2,"periodSeconds":60}],"selectPolicy":"Min"},"scaleDown":{"stabilizationWindowSeconds":300}})";

TEST(Scalers, AreGivenBackByteForByte) {
  for (const auto& object :
       {hpa(""), hpa(kBehavior), hpa(R"({"scaleDown":{"selectPolicy":"Disabled"}})"), scaled_object(R"({"name":"q"})"),
        scaled_object(R"({"name":"q","annotations":{"autoscaling.keda.sh/paused":"false","a":"b"}})")}) {
    ASSERT_TRUE(is_scaler(object));
    EXPECT_FALSE(is_suspended(object));
    const auto off = suspended(object);
    EXPECT_TRUE(is_suspended(off)) << off.dump();
    EXPECT_EQ(suspended(off).dump(), off.dump()) << "once more changes nothing";
    EXPECT_EQ(restored(off)["spec"]["behavior"].dump(), object["spec"]["behavior"].dump());
    EXPECT_EQ(restored(off), object);
    EXPECT_EQ(restored(object), object);
  }
}

TEST(Scalers, SuspendedHaveNoPolicyInEitherDirection) {
  const auto off = suspended(hpa(kBehavior));
  EXPECT_EQ(off["spec"]["behavior"]["scaleUp"]["selectPolicy"].string(), "Disabled");
  EXPECT_EQ(off["spec"]["behavior"]["scaleDown"]["selectPolicy"].string(), "Disabled");
  EXPECT_EQ(off["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"].integer(), 300);
  EXPECT_EQ(suspended(scaled_object("{}"))["metadata"]["annotations"]["autoscaling.keda.sh/paused"].string(), "true");
}

TEST(Scalers, AnUpdateOfASuspendedOneIsTheNewOriginal) {
  const auto before = suspended(hpa(kBehavior));
  auto update = before;
  update.set("spec").set("maxReplicas", 12);
  EXPECT_EQ(restored(suspended(update, before))["spec"]["behavior"].dump(), kBehavior);
  update.set("spec").set("behavior").set("scaleDown").set("stabilizationWindowSeconds", 60);
  const auto next = suspended(update, before);
  EXPECT_TRUE(is_suspended(next));
  const auto back = restored(next);
  EXPECT_EQ(back["spec"]["behavior"]["scaleDown"].dump(), R"({"stabilizationWindowSeconds":60})");
  EXPECT_EQ(back["spec"]["behavior"]["scaleUp"]["selectPolicy"].string(), "Min");
  EXPECT_EQ(back["spec"]["maxReplicas"].integer(), 12);
}

TEST(Scalers, TargetsHaveTheDefaultsOfTheirKind) {
  const auto ref = scale_target_of(scaled_object("{}"));
  EXPECT_EQ(ref.api_version, "apps/v1");
  EXPECT_EQ(ref.group(), "apps");
  EXPECT_EQ(ref.kind, "Deployment");
  EXPECT_EQ(ref.name, "web");
  auto core = hpa("");
  core.set("spec").set("scaleTargetRef", parsed(R"({"apiVersion":"v1","kind":"ReplicationController","name":"r"})"));
  EXPECT_EQ(scale_target_of(core).group(), "");
}

}  // namespace scalers_test
}  // namespace qm
