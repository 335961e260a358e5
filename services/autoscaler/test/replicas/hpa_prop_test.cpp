// Laws of an autoscaler on generated series, and a reference of the windows and rates that keeps the whole history.
#include "fixtures.hpp"

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

namespace qm::autoscaler::replicas {
namespace hpa_prop_test {

using namespace fixtures;

ScalingRules any_rules(bool up) {
  ScalingRules out;
  out.stabilization = seconds(15 * *rc::gen::inRange(0, 20));
  out.select = *rc::gen::element(SelectPolicy::kMax, SelectPolicy::kMax, SelectPolicy::kMin, SelectPolicy::kDisabled);
  const auto policies = *rc::gen::inRange(1, 4);
  for (int i = 0; i < policies; ++i) {
    ScalingPolicy one;
    one.percent = *rc::gen::arbitrary<bool>();
    one.value = *rc::gen::inRange(1, one.percent && !up ? 101 : 200);
    one.period = seconds(15 * *rc::gen::inRange(1, 30));
    out.policies.push_back(one);
  }
  return out;
}

Follower any_follower(bool with_behavior) {
  Follower out;
  out.spec = hpa(R"("maxReplicas": 1, )" + kQueue);
  out.spec.min = *rc::gen::inRange(1, 10);
  out.spec.max = *rc::gen::inRange(out.spec.min, 120);
  out.replicas = *rc::gen::inRange(1, 130);
  if (with_behavior) out.spec.behavior = Behavior{any_rules(true), any_rules(false)};
  return out;
}

RC_GTEST_PROP(HpaLaws, EverySizeIsWithinTheBounds, ()) {
  auto follower = any_follower(*rc::gen::arbitrary<bool>());
  std::int64_t now = 0;
  for (int i = 0; i < 60; ++i) {
    const auto before = follower.replicas;
    const auto wanted = *rc::gen::inRange(0, 200);
    const auto decision = follower.tick(now += 15, wanted);
    RC_ASSERT(decision.desired >= follower.spec.min && decision.desired <= follower.spec.max);
    // Above what the metrics ask for it stays where it was, unless there is no behavior, whose window may raise it.
    if (follower.spec.behavior && before >= follower.spec.min) {
      RC_ASSERT(decision.desired <= std::max({before, wanted, follower.spec.min}));
    }
  }
}

RC_GTEST_PROP(HpaLaws, TheSameInputsGiveTheSameDecisions, ()) {
  auto a = any_follower(true);
  auto b = a;
  for (int i = 0; i < 40; ++i) {
    const auto wanted = *rc::gen::inRange(0, 200);
    RC_ASSERT(a.tick(15 * i, wanted).desired == b.tick(15 * i, wanted).desired);
  }
}

RC_GTEST_PROP(HpaLaws, AnAskForMoreNeverGivesLess, ()) {
  auto low = any_follower(*rc::gen::arbitrary<bool>());
  const auto steps = *rc::gen::inRange(0, 30);
  for (int i = 0; i < steps; ++i) static_cast<void>(low.tick(15 * i, *rc::gen::inRange(0, 200)));
  auto high = low;
  const auto wanted = *rc::gen::inRange(0, 200);
  const auto a = low.tick(15 * steps, wanted).desired;
  const auto b = high.tick(15 * steps, wanted + *rc::gen::inRange(0, 100)).desired;
  RC_ASSERT(b >= a);
}

/// The rules of behavior as the documentation states them, over the whole history: no slot is ever used again.
struct Reference {
  Behavior behavior;
  std::int32_t min, max;
  std::vector<std::pair<std::int64_t, std::int32_t>> recommendations, changes;

  std::int32_t changed(std::int64_t now, Duration period) const {
    std::int32_t out = 0;
    for (const auto& [when, change] : changes) {
      if (seconds(now - when) < period) out += change;
    }
    return out;
  }
  std::int32_t farthest(const ScalingRules& rules, bool up, std::int64_t now, std::int32_t current) const {
    if (rules.select == SelectPolicy::kDisabled) return current;
    std::vector<std::int32_t> allowed;
    for (const auto& policy : rules.policies) {
      const auto start = current - changed(now, policy.period);
      const double factor = static_cast<double>(policy.value) / 100;
      allowed.push_back(!policy.percent ? start + (up ? policy.value : -policy.value)
                        : up            ? static_cast<std::int32_t>(std::ceil(start * (1 + factor)))
                                        : static_cast<std::int32_t>(start * (1 - factor)));
    }
    const bool most = (rules.select == SelectPolicy::kMax) == up;
    return most ? *std::ranges::max_element(allowed) : *std::ranges::min_element(allowed);
  }
  std::int32_t decide(std::int64_t now, std::int32_t current, std::int32_t wanted) {
    auto lowest = wanted, highest = wanted;
    for (const auto& [when, replicas] : recommendations) {
      if (seconds(now - when) < *behavior.up.stabilization) lowest = std::min(lowest, replicas);
      if (seconds(now - when) < *behavior.down.stabilization) highest = std::max(highest, replicas);
    }
    recommendations.emplace_back(now, wanted);
    auto out = std::min(std::max(current, lowest), highest);
    if (out > current) out = std::min({out, max, std::max(current, farthest(behavior.up, true, now, current))});
    if (out < current) out = std::max({out, min, std::min(current, farthest(behavior.down, false, now, current))});
    if (out != current) changes.emplace_back(now, out - current);
    return out;
  }
};

// S-221: windows, and the policies of both directions.
TEST(HpaLaws, AThousandSeriesAreDecidedAsByTheReference) {
  rc::check("ten series a run, in a hundred runs", [] {
    for (int series = 0; series < 10; ++series) {
      auto follower = any_follower(true);
      follower.replicas = *rc::gen::inRange(follower.spec.min, follower.spec.max + 1);
      // With equal longest periods no slot is used again that the other direction still counts.
      auto& [up, down] = *follower.spec.behavior;
      up.policies[0].period = down.policies[0].period = seconds(450);
      Reference reference{{up, down}, follower.spec.min, follower.spec.max, {{0, follower.replicas}}, {}};
      auto expected = follower.replicas;
      for (int i = 0; i < 30; ++i) {
        const auto wanted = *rc::gen::inRange(0, 150);
        expected = reference.decide(30 * i, expected, wanted);
        RC_ASSERT(follower.tick(30 * i, wanted).desired == expected);
      }
    }
  });
}

}  // namespace hpa_prop_test
}  // namespace qm::autoscaler::replicas
