// Stabilization windows, rate limits and bounds.
#include "fixtures.hpp"

namespace qm::autoscaler::replicas {
namespace limits_test {

using namespace fixtures;

Follower follower(const std::string& behavior, std::int32_t replicas, int max = 1000) {
  Follower out;
  out.spec = hpa(
      fmt::format(R"("maxReplicas": {}, {}{})", max, kQueue, behavior.empty() ? "" : R"(, "behavior": )" + behavior));
  out.replicas = replicas;
  return out;
}

TEST(Windows, WithoutBehaviorTheEdgeCountsAndWithBehaviorItDoesNot) {
  auto plain = follower("", 20);
  EXPECT_EQ(plain.tick(0, 20).desired, 20);
  EXPECT_EQ(plain.tick(300, 4).rule, HpaRule::kStabilizedDown);
  EXPECT_EQ(plain.tick(301, 4).desired, 4);
  auto behavior = follower("{}", 20);
  EXPECT_EQ(behavior.tick(0, 20).desired, 20);
  EXPECT_EQ(behavior.tick(299, 4).desired, 20);
  EXPECT_EQ(behavior.tick(300, 4).desired, 4);
}

TEST(Windows, KeepTheSizeBetweenTheLowestAndTheHighestRecent) {
  auto both = follower(R"({"scaleUp": {"stabilizationWindowSeconds": 60,
      "policies": [{"type": "Pods", "value": 1000, "periodSeconds": 15}]}, "scaleDown": {"stabilizationWindowSeconds": 60}})",
                       10);
  EXPECT_EQ(both.tick(0, 10).desired, 10);
  EXPECT_EQ(both.tick(15, 30).rule, HpaRule::kStabilizedUp);
  EXPECT_EQ(both.reason("AbleToScale"), "ScaleUpStabilized");
  EXPECT_EQ(both.tick(30, 5).rule, HpaRule::kStabilizedDown);
  EXPECT_EQ(both.tick(90, 40).desired, 40);  // the recommendation of second 30 is 60 s old
}

TEST(Windows, FailedSyncsStoreNothing) {
  auto plain = follower("", 20);
  auto now = seen(0, 20);
  static_cast<void>(sync(plain.spec, plain.options, now, plain.state));
  EXPECT_EQ(plain.state.recommendations->size(), 1U);  // the size that the first sync found
  EXPECT_EQ(plain.tick(15, 20).desired, 20);
  EXPECT_EQ(plain.state.recommendations->size(), 2U);
}

TEST(Rates, WithoutBehaviorTheSizeDoublesOrBecomesFour) {
  auto plain = follower("", 1);
  std::vector<std::int32_t> sizes;
  for (int i = 0; i < 5; ++i) sizes.push_back(plain.tick(15 * i, 100).desired);
  EXPECT_EQ(sizes, (std::vector<std::int32_t>{4, 8, 16, 32, 64}));
  EXPECT_EQ(plain.reason("ScalingLimited"), "ScaleUpLimit");
}

// S-222: no smaller size within the window, then a tenth a minute down to the floor.
TEST(Rates, ScaleDownWaitsForItsWindowAndShrinksByATenthAMinute) {
  auto slow = follower(R"({"scaleDown": {"stabilizationWindowSeconds": 120,
      "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}})",
                       80);
  EXPECT_EQ(slow.tick(0, 80).desired, 80);
  std::vector<std::int32_t> sizes;
  for (int minute = 1; minute <= 7; ++minute) sizes.push_back(slow.tick(60 * minute, 60).desired);
  // The window ends at minute 2. Ten percent of 72 is 7.2, and 64.8 is truncated; the floor is 60.
  EXPECT_EQ(sizes, (std::vector<std::int32_t>{80, 72, 64, 60, 60, 60, 60}));
}

TEST(Rates, EventsOfThePeriodCountFromItsStart) {
  auto up = follower(R"({"scaleUp": {"policies": [{"type": "Pods", "value": 5, "periodSeconds": 60}]}})", 10);
  EXPECT_EQ(up.tick(0, 100).desired, 15);
  EXPECT_EQ(up.tick(30, 100).rule, HpaRule::kRateUp);
  EXPECT_EQ(up.replicas, 15);
  EXPECT_EQ(up.tick(60, 100).desired, 20);  // the event is exactly as old as the period
  auto percent = follower(R"({"scaleUp": {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}})", 1);
  EXPECT_EQ(percent.tick(0, 100).desired, 2);  // rounded up, or it would never grow
}

TEST(Rates, SelectPolicyTakesTheFarthestTheNearestOrNone) {
  const auto with = [](const char* select) {
    return follower(fmt::format(R"({{"scaleUp": {{"selectPolicy": "{}", "policies": [
        {{"type": "Pods", "value": 2, "periodSeconds": 60}}, {{"type": "Percent", "value": 100, "periodSeconds": 60}}]}}}})",
                                select),
                    10);
  };
  EXPECT_EQ(with("Max").tick(0, 100).desired, 20);
  EXPECT_EQ(with("Min").tick(0, 100).desired, 12);
  auto disabled = with("Disabled");
  EXPECT_EQ(disabled.tick(0, 100).rule, HpaRule::kDisabledUp);
  EXPECT_EQ(disabled.replicas, 10);
}

TEST(Rates, ASlotIsUsedAgainOnceItIsOlderThanTheLongestPeriodOfItsDirection) {
  auto both = follower(R"({"scaleUp": {"policies": [{"type": "Pods", "value": 5, "periodSeconds": 30}]},
      "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 50, "periodSeconds": 600}]}})",
                       10);
  EXPECT_EQ(both.tick(0, 100).desired, 15);
  EXPECT_EQ(both.tick(31, 100).desired, 20);
  EXPECT_EQ(both.state.ups.size(), 1U);  // although the other direction looks back for ten minutes
  EXPECT_EQ(both.tick(62, 100).desired, 25);
  EXPECT_EQ(both.state.ups.size(), 1U);
}

TEST(Bounds, AreCorrectedWithoutMetricsAndRecordAnEvent) {
  auto above = follower("{}", 50, 20);
  EXPECT_EQ(above.tick(0, 50).rule, HpaRule::kAboveMax);
  EXPECT_EQ(above.replicas, 20);
  EXPECT_EQ(above.state.downs.size(), 1U);
  EXPECT_EQ(above.state.recommendations->size(), 1U);  // the first sync recorded the size that it found
  auto below = follower("{}", 1);
  below.spec.min = 3;
  const auto decision = below.tick(0, 50);
  EXPECT_EQ(decision.rule, HpaRule::kBelowMin);
  EXPECT_EQ(decision.desired, 3);
  EXPECT_FALSE(decision.proposals);
}

TEST(Bounds, LimitWhatTheMetricsAskFor) {
  auto small = follower("{}", 3, 5);
  EXPECT_EQ(small.tick(0, 100).rule, HpaRule::kMax);
  EXPECT_EQ(small.reason("ScalingLimited"), "TooManyReplicas");
  small = follower("", 3, 5);
  small.options.downscale_stabilization = Duration::zero();
  small.spec.min = 2;
  EXPECT_EQ(small.tick(0, 3).desired, 3);
  EXPECT_EQ(small.tick(15, 0).rule, HpaRule::kMin);
  EXPECT_EQ(small.replicas, 2);
}

}  // namespace limits_test
}  // namespace qm::autoscaler::replicas
