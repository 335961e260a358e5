// What Auto Scaling groups do on their own, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace group_members_cases_test {

TEST(GroupMembers, ALaunchIsGivenUpOnceTheCloudConfirmsThatItFails) {
  expect(R"(
    pool p types=a8 group=asg weight=9
    pool o types=h8
    want w/1 1x8
    => promise w/1 by=240 p-00001
    => group asg 1
    -- the failure of an earlier launch confirms nothing
    tick 899
    => promise w/1 by=959 p-00001
    group-seen asg desired=1 failed=no-capacity
    => claim p-00001 Failed
    => launch o-00002 h8 on-demand
    => promise w/1 by=1139 o-00002
    => group asg 0
  )");
}

TEST(GroupMembers, ALaunchThatIsGivenUpKeepsTheSizeUntilItsFailureIsConfirmed) {
  expect(R"(
    pool p types=a8 group=asg weight=9
    pool o types=h8
    want w/1 1x8
    => promise w/1 by=240 p-00001
    => group asg 1
    tick 900
    => claim p-00001 Failed
    => launch o-00002 h8 on-demand
    => promise w/1 by=1140 o-00002
    tick 1
    group-seen asg desired=1 failed=no-capacity
    => group asg 0
  )");
}

TEST(GroupMembers, ANewRequestUsesALaunchThatWasGivenUp) {
  expect(R"(
    show claims
    pool p types=a8 group=asg
    want w/1 1x8
    => claim p-00001 Requested
    => promise w/1 by=240 p-00001
    => group asg 1
    tick 900
    => claim p-00001 Failed
    => withdrawn w/1
    tick 180
    => claim p-00002 Requested
    => promise w/1 by=1320 p-00002
    cloud i-1 type=a8 node=n1 group=asg
    => claim p-00002 Launched i-1
  )");
}

// A rebalance of zones launches the replacement before it terminates the other instance.
TEST(GroupMembers, ARebalanceOfZonesIsToleratedWithoutASecondLaunch) {
  expect(R"(
    workload w saves
    pool p types=a8 group=asg after=60
    want w/1 1x8
    => promise w/1 by=240 p-00001
    => group asg 1
    group-seen asg desired=1
    cloud i-1 type=a8 node=n1 group=asg
    node n1 i-1 pods=1 | unwant w | runs w/1 n1
    group-seen asg desired=1 i-1=InService i-2=Pending
    cloud i-2 type=a8 node=n2 group=asg
    group-seen asg desired=1 i-1=Terminating:Wait i-2=InService hook=terminate:600
    => order w/1/n1 to n1 by=1800
    => drain n1 GroupTermination
    node n2 i-2
    ack w/1/n1 n1 step=7 uri=u
    => order w/1/n1 Acked step=7 uri=u
    => evict w/1 from n1 by=1800 step=7 uri=u
    released w/1 | node n1 i-1 cordoned
    => evict-over w/1
    => terminate p-00001 i-1 in asg
    => continue i-1 terminate-hook
  )");
}

TEST(GroupMembers, ALaunchHookContinuesWhenTheNodeIsReady) {
  expect(R"(
    pool p types=a8 group=asg
    want w/1 1x8
    => promise w/1 by=240 p-00001
    => group asg 1
    cloud i-1 type=a8 node=n1 group=asg
    group-seen asg desired=1 hook=launch:120 i-1=Pending:Wait
    tick 59
    tick 1
    => heartbeat i-1 launch-hook
    node n1 i-1
    => continue i-1 launch-hook
    tick 60
    group-seen asg desired=1 hook=launch:120 i-1=InService
  )");
}

TEST(GroupMembers, ATerminationHookGetsHeartbeatsWhileThePodsSaveAndAtMostHalfAnHour) {
  expect(R"(
    pool p types=a8 group=asg
    want w/1 1x8
    => promise w/1 by=240 p-00001
    => group asg 1
    cloud i-1 type=a8 node=n1 group=asg
    node n1 i-1 pods=1 | unwant w
    group-seen asg desired=1 hook=terminate:2400 i-1=Terminating:Wait
    => drain n1 GroupTermination
    => group asg 0
    tick 1200
    => withdrawn w/1
    => heartbeat i-1 terminate-hook
    tick 599
    tick 1
    => continue i-1 terminate-hook
  )");
}

TEST(GroupMembers, AWarmPoolIsFastCapacity) {
  expect(R"(
    pool p types=a8 group=asg
    group-seen asg desired=0 warm=1
    want w/1 1x8
    => promise w/1 by=60 p-00001
    => group asg 1
    want x/1 2x8
    => promise x/1 by=240 p-00002 p-00003
    => group asg 3
  )");
}

TEST(GroupMembers, AGroupThatIsSizedManuallyNeitherGrowsNorShrinks) {
  expect(R"(
    pool p types=a8 group=asg manual after=60
    cloud i-1 type=a8 node=n1 group=asg
    node n1 i-1
    tick 100
    want w/1 1x8
  )");
  EXPECT_NE(why(R"(
    pool p types=a8 group=asg manual
    want w/1 1x8
  )")
                .find("sized manually"),
            std::string::npos);
}

}  // namespace group_members_cases_test
}  // namespace qm::autoscaler::testing
