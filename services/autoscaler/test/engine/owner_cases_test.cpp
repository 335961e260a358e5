// The owner of instances, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace owner_cases_test {

TEST(Owner, NothingIsLaunchedForWorkOfANamespaceThatIsAnothers) {
  expect(R"(
    pool p types=a8
    owner * karpenter ours quartermaster
    want v/1 1x8 ns=theirs
    want w/1 1x8 ns=ours
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    -- once scaling is enabled, it acts at once
    owner * karpenter ours quartermaster theirs quartermaster
    => launch p-00002 a8 on-demand
    => promise v/1 by=240 p-00002
  )");
}

TEST(Owner, ExistingClaimsAreFollowedToTheirEndAndNoneAreCreated) {
  expect(R"(
    pool p types=a8
    want w/1 1x8 ns=team
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    owner * quartermaster team karpenter
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    unwant w
    tick 240
    => withdrawn w/1
    want w/2 1x8 ns=team
    -- its instance is idle again, and may be terminated
    unwant w
    node n1 i-1
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
}

TEST(Owner, AFailedInstanceIsNotReplacedUnderAnotherController) {
  expect(R"(
    pool p types=a8
    want w/1 1x8 ns=team
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    owner * quartermaster team none
    refused p-00001 InsufficientInstanceCapacity
    => claim p-00001 Failed
    => withdrawn w/1
  )");
}

TEST(Owner, WithoutScalingInAnyNamespaceEmptyInstancesStayToo) {
  expect(kRunning + std::string(R"(
    unwant w
    tick 240
    => withdrawn w/1
    owner * none
    node n1 i-1
    tick 600
    owner * none team quartermaster
    => drain n1 Empty
  )"));
}

TEST(Owner, ReportsWhatWouldBeLaunchedAndByWhichController) {
  const auto reported = why(R"(
    pool p types=a8
    owner * none
    want w/1 2x8 ns=team
  )");
  EXPECT_NE(
      reported.find(
          "no autoscaler launches nodes for its namespace; Quartermaster would launch 2 x a8 on-demand at 80.00 USD/h"),
      std::string::npos)
      << reported;
  const auto nothing = why(R"(
    owner * karpenter
    want w/1 2x8 ns=team
  )");
  EXPECT_NE(nothing.find("karpenter launches the nodes of its namespace; for Quartermaster: no NodePool is configured"),
            std::string::npos)
      << nothing;
}

TEST(Owner, TheNamespaceOfAWorkloadCountsWithoutOneInTheDemand) {
  Script script;
  ASSERT_EQ(script.run(R"(
    pool p types=a8
    owner * quartermaster team karpenter
  )"),
            "");
  auto update = script.step({WorkloadUpdated{WorkloadUid("w"), 1, false, false, "team"}});
  DemandUpdated demand;
  demand.items.push_back({attempt_id("w/1"), {pod_set(1, 8)}, 0, script.now()});
  EXPECT_TRUE(script.step({demand}).launches.empty());
  demand.items.push_back({attempt_id("v/1"), {pod_set(1, 8)}, 0, script.now()});
  EXPECT_EQ(script.step({demand}).launches.size(), 1U) << "of v nothing is known, so the cluster's owner counts";
  EXPECT_EQ(script.complaint(), "");
}

TEST(Owner, PodsBoundDuringARetirementKeepTheInstance) {
  expect(kRunning + std::string(R"(
    unwant w
    tick 300
    => withdrawn w/1
    node n1 i-1
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate p-00001 i-1
    terminate-busy p-00001
    => lifted n1
    node n1 i-1 pods=1
  )"));
}

}  // namespace owner_cases_test
}  // namespace qm::autoscaler::testing
