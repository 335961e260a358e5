// Topology spread that the scheduler applies by default.
#include "qm/kube_objects/default_spread.hpp"

#include <gtest/gtest.h>

namespace qm::kube_objects::testing {
namespace default_spread_test {

const LabelSelector kWeb{{{"app", LabelRequirement::Op::kIn, {"web"}}}};

TEST(DefaultSpread, OfTheSystemIsSoft) {
  const auto defaults = default_spread_of("system");
  ASSERT_TRUE(defaults);
  ASSERT_EQ(defaults->size(), 2U);
  EXPECT_EQ(defaults->at(0).topology_key, "kubernetes.io/hostname");
  EXPECT_EQ(defaults->at(0).max_skew, 3);
  EXPECT_FALSE(defaults->at(0).required);
  EXPECT_EQ(defaults->at(1).topology_key, "topology.kubernetes.io/zone");
  EXPECT_EQ(defaults->at(1).max_skew, 5);
  EXPECT_FALSE(defaults->at(1).required);
}

TEST(DefaultSpread, TextsAreReadAndWritten) {
  for (const char* text : {"none", "system", "topology.kubernetes.io/zone:1:DoNotSchedule",
                           "topology.kubernetes.io/zone:1:DoNotSchedule,kubernetes.io/hostname:2:ScheduleAnyway"}) {
    const auto read = default_spread_of(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(text_of(*read), text);
  }
  for (const char* wrong : {"", "zone", "zone:1", "zone:0:DoNotSchedule", "zone:x:DoNotSchedule", "zone:1:Never",
                            ":1:DoNotSchedule", "zone:1:DoNotSchedule,", "zone:1:DoNotSchedule,zone:2:DoNotSchedule"})
    EXPECT_FALSE(default_spread_of(wrong)) << wrong;
  EXPECT_EQ(default_spread_of("zone:0:DoNotSchedule").error().message,
            "the default constraint \"zone:0:DoNotSchedule\" has no skew of 1 or more");
}

TEST(DefaultSpread, AppliesToPodsOfAControllerOrServiceWithoutConstraintsOfTheirOwn) {
  const auto defaults = default_spread_of("zone:1:DoNotSchedule").value();
  kube_rules::PodTemplate pod, alone, own;
  add_default_spread(defaults, kWeb, pod);
  ASSERT_EQ(pod.rules.spread.size(), 1U);
  EXPECT_TRUE(pod.rules.spread[0].required);
  EXPECT_TRUE(pod.rules.spread[0].pods->matches({{"app", "web"}}));
  add_default_spread(defaults, {}, alone);
  EXPECT_TRUE(alone.rules.spread.empty());
  own.rules.spread = {kube_rules::Spread{"host"}};
  add_default_spread(defaults, kWeb, own);
  EXPECT_EQ(own.rules.spread[0].topology_key, "host");
}

}  // namespace default_spread_test
}  // namespace qm::kube_objects::testing
