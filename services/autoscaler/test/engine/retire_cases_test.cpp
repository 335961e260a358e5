// Spot notices, and terminated instances, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace retire_cases_test {

constexpr const char* kGang = R"(
    cloud i-1 type=h8 node=n1 spot
    cloud i-2 type=h8 node=n2 spot
    node n1 i-1 pods=2 | node n2 i-2 pods=1
    workload w saves
    runs w/1 n1 n2
)";

TEST(Notice, OrdersEveryNodeOfTheGangAndEvictsWithTheStepOfAllRanks) {
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    -- a repetition changes nothing, nor does an acknowledgement of an unknown node
    notice n1 60
    ack w/1/n1 n9 step=1
    ack w/1/n1 n1 step=60 uri=s3://60
    ack w/1/n1 n1 step=10 uri=s3://10
    ack w/1/n1 n2 step=60 uri=s3://60
    => order w/1/n1 Acked step=60 uri=s3://60
    => evict w/1 from n1 by=110 step=60 uri=s3://60
    ack w/1/n1 n2 step=99 uri=s3://99
    released w/1
    => evict-over w/1
  )");
}

TEST(Notice, OneOrderServesAllNodesOfAGangUnlessAnotherEndsEarlier) {
  expect(std::string(kGang) + R"(
    notice n1 120 | notice n2 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    => drain n2 SpotInterruption
    ack w/1/n1 n1 step=60 uri=s3://60
    ack w/1/n1 n2 step=60 uri=s3://60
    => order w/1/n1 Acked step=60 uri=s3://60
    => evict w/1 from n1 by=110 step=60 uri=s3://60
    released w/1
    => evict-over w/1
  )");
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    notice n2 60
    => order w/1/n2 to n1 n2 by=50
    => drain n2 SpotInterruption
  )");
}
TEST(Notice, TheDeadlineEndsTheWait) {
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    ack w/1/n1 n1 step=70 uri=s3://70
    tick 109
    tick 1
    => order w/1/n1 Late step=0 uri=
    => evict w/1 from n1 by=110 step=0 uri=
    ack w/1/n1 n2 step=60 uri=s3://60
    tick 500
  )");
}

TEST(Notice, OneRankThatCannotSaveEndsTheWait) {
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    ack w/1/n1 n2 failed
    => order w/1/n1 Failed step=0 uri=
    => evict w/1 from n1 by=110 step=0 uri=
  )");
}

TEST(Notice, WorkThatCannotSaveLeavesAtOnce) {
  expect(R"(
    node n1 i-1 pods=1
    workload w
    runs w/1 n1
    notice n1 120
    => evict w/1 from n1 by=110 step=0 uri=
    => drain n1 SpotInterruption
    -- work that saves, but not in time
    workload v saves
    tick 115
    runs v/1 n1
    => evict v/1 from n1 by=115 step=0 uri=
  )");
}

TEST(Notice, MayComeBeforeEverythingThatItConcerns) {
  expect(R"(
    notice n1 120
    runs w/1 n1
    -- its own topic shows whether it can save
    workload w saves
    => order w/1/n1 to n1 by=110
    node n1 i-1 pods=1
    => drain n1 SpotInterruption
    runs v/1 n1
    tick 110
    => order w/1/n1 Late step=0 uri=
    => evict v/1 from n1 by=110 step=0 uri=
    => evict w/1 from n1 by=110 step=0 uri=
  )");
}

// Placement repartitions its GPUs by MIG: the gang saves and is evicted, and the node is not drained for it.
TEST(Saving, AGangToEvictSavesFirst) {
  expect(std::string(kGang) + R"(
    save w/1 n1 300
    => order w/1/n1 to n1 n2 by=300
    save w/1 n1 300
    ack w/1/n1 n1 step=60 uri=s3://60
    ack w/1/n1 n2 step=60 uri=s3://60
    => order w/1/n1 Acked step=60 uri=s3://60
    => evict w/1 from n1 by=300 step=60 uri=s3://60
    released w/1
    => evict-over w/1
    save w/1 n1 over
  )");
  expect(std::string(kGang) + R"(
    save w/1 n1 300
    => order w/1/n1 to n1 n2 by=300
    tick 299
    tick 1
    => order w/1/n1 Late step=0 uri=
    => evict w/1 from n1 by=300 step=0 uri=
  )");
}

TEST(Saving, MayBeAskedForBeforeTheGangIsKnown) {
  expect(R"(
    save w/1 n1 300
    tick 10
    workload w saves
    runs w/1 n1
    => order w/1/n1 to n1 by=300
    save v/1 n1 200
    save v/1 n1 over
    workload v saves
    runs v/1 n1
  )");
}

TEST(Notice, AnAttemptThatEndsFirstNeedsNoEviction) {
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    released w/1
    => order w/1/n1 Released step=0 uri=
  )");
}

TEST(Notice, AMarkOnAnUnknownNodeIsDropped) {
  Script script;
  EXPECT_EQ(script.run(R"(
    notice n1 1200
    health n2 broken
    tick 900
  )"),
            "");
  EXPECT_EQ(script.engine().tables().nodes.size(), 1U);
  EXPECT_EQ(script.run("tick 300"), "");
  EXPECT_EQ(script.engine().tables().nodes.size(), 0U);
}

TEST(Notice, EndsWithTheNodeThatItWasFor) {
  Script script;
  EXPECT_EQ(script.run(R"(
    node n1 i-1
    notice n1 120
    => drain n1 SpotInterruption
    notice n1 over
    => lifted n1
    notice n1 over
    -- an old notice does not drain an unknown node
    notice n2 1200
    notice n2 over
    notice n3 over
  )"),
            "");
  EXPECT_EQ(script.engine().tables().nodes.size(), 1U);
  EXPECT_EQ(script.run(R"(
    notice n1 120
    => drain n1 SpotInterruption
  )"),
            "");
}

TEST(Notice, AnEmptiedNodeIsTerminatedEvenBeforeItIsTaken) {
  expect(R"(
    pool p types=h8 markets=spot
    want w/1 1x8
    => launch p-00001 h8 spot
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1 | unwant w | workload w | runs w/1 n1
    notice n1 120
    => evict w/1 from n1 by=110 step=0 uri=
    => drain n1 SpotInterruption
    node n1 i-1 pods=1 cordoned
    released w/1
    => evict-over w/1
    node n1 i-1 cordoned
    => terminate p-00001 i-1
    node-gone n1
    => lifted n1
    cloud i-1 stopped=9
    => claim p-00001 Gone i-1 stopped=9
  )");
}

// ---- terminated instances ----

constexpr const char* kOne = R"(
    pool p types=a8 after=60
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    unwant w
    tick 300
    => withdrawn w/1
)";

// S-182: empty for the pool's duration, and never with a workload on it.
TEST(Retire, EmptyForLongIsDrainedThenTerminatedWhenConfirmed) {
  expect(std::string(kOne) + R"(
    node n1 i-1
    tick 59
    tick 1
    => drain n1 Empty
    tick 5
    node n1 i-1 cordoned
    => terminate p-00001 i-1
    tick 5
  )");
}

// S-182: with a budget of one node the second empty one stays until the first has left; other reasons do not count.
// S-198: the table begins on 12 January 1970 at 13:46:40 UTC, a Monday.
TEST(Retire, ABudgetWithAScheduleKeepsEmptyNodesUntilItsWindowEnds) {
  expect(R"(
    pool p types=a8 after=60 budget=0/all/1800/45_13_*_*_MON
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    unwant w
    tick 300
    => withdrawn w/1
    node n1 i-1
    tick 60
    tick 1339
    tick 1
    => drain n1 Empty
  )");
}

// Nothing else happens when a window ends: the engine asks for a step at the next minute, 13:53 here.
TEST(Retire, ABudgetWithAScheduleIsEvaluatedAtEachMinute) {
  Script script;
  ASSERT_EQ(script.run(R"(
    pool p types=a8 after=60 budget=0/all/1800/45_13_*_*_MON
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    unwant w
    tick 300
    => withdrawn w/1
    node n1 i-1
    tick 60
  )"),
            "");
  const Output out = script.step({Tick{}});
  ASSERT_TRUE(out.wake_at);
  EXPECT_EQ(*out.wake_at - script.now(), std::chrono::seconds(20));
}

TEST(Retire, ABudgetOfOneNodeTerminatesEmptyNodesOneByOne) {
  const std::string two = R"(
    want w/1 2x8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise w/1 by=240 p-00001 p-00002
    up p-00001 i-1 n1 | up p-00002 i-2 n2
    node n1 i-1 pods=1 | node n2 i-2 pods=1
    unwant w
    tick 300
    => withdrawn w/1
    node n1 i-1 | node n2 i-2
    tick 59
    tick 1
    => drain n1 Empty
  )";
  expect("pool p types=a8 after=60 budget=1" + two + R"(
    tick 600
    node n1 i-1 cordoned
    => drain n2 Empty
    => terminate p-00001 i-1
  )");
  // Half of two nodes, and a budget for another reason.
  expect("pool p types=a8 after=60 budget=50%/Empty,Drifted budget=0/Drifted" + two);
  expect("pool p types=a8 after=60 budget=0/Drifted" + two + "=> drain n2 Empty");
}

// A budget that is not valid allows nothing, for any reason, and the explanation names it.
TEST(Retire, AMalformedBudgetKeepsEmptyNodes) {
  Script script;
  EXPECT_EQ(script.run(R"(
    pool p types=a8 after=60 budget=5 budget=5/Rebooted
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    unwant w
    tick 300
    => withdrawn w/1
    node n1 i-1
    tick 3600
  )"),
            "");
  const auto lines = script.engine().explain(script.now());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0],
            "no empty node of NodePool p is terminated: spec.disruption.budgets[1].reasons: Rebooted is not one of "
            "Underutilized, Empty, Drifted");
  EXPECT_EQ(lines[1],
            "NodeClaim p-00001 on node n1 is Empty and stays: spec.disruption.budgets[1].reasons: Rebooted is not one "
            "of Underutilized, Empty, Drifted");
}

// S-153: requested in the round in which the gang becomes pending, and terminated after ten idle minutes, not a second
// before. S-160: a pod in between restarts the ten minutes.
TEST(Retire, TenIdleMinutesCountFromTheLastPod) {
  expect(R"(
    pool p types=h8 after=600
    want w/1 1x8
    => launch p-00001 h8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    unwant w
    tick 300
    => withdrawn w/1
    node n1 i-1
    tick 300
    node n1 i-1 pods=1
    node n1 i-1
    tick 599
    tick 1
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
}

TEST(Retire, AnothersCordonIsNoConfirmation) {
  expect(std::string(kOne) + R"(
    node n1 i-1 cordoned
    tick 60
    => drain n1 Empty
    tick 500
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
}

// It is published as not ready, yet it does not count as disrupted: the default budget of one pool node is one.
TEST(Retire, ACordonedNodeIsWithinTheBudget) {
  expect(R"(
    pool p types=a8 after=60 budget=10%
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    unwant w
    tick 300
    => withdrawn w/1
    node n1 i-1 cordoned
    tick 60
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
}

TEST(Retire, WorkThatLandsFirstKeepsTheNode) {
  expect(std::string(kOne) + R"(
    node n1 i-1
    tick 60
    => drain n1 Empty
    node n1 i-1 pods=1 cordoned
    => lifted n1
    node n1 i-1 pods=1
    tick 900
  )");
}

TEST(Retire, ANodeThatIsNotReadyCannotConfirm) {
  expect(std::string(kOne) + R"(
    node n1 i-1 notready
    tick 60
    => drain n1 Empty
    tick 119
    tick 1
    => terminate p-00001 i-1
  )");
}

TEST(Retire, ABrokenNodeGoesWhenItsWorkHasLeft) {
  expect(std::string(kOne) + R"(
    health n1 broken
    => drain n1 Unhealthy
    node n1 i-1 pods=1 cordoned
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
  expect(std::string(kOne) + R"(
    health n1 broken
    => drain n1 Unhealthy
    health n1 ok
    => lifted n1
  )");
}

TEST(Retire, APoolThatNeverConsolidatesKeepsItsInstancesUntilItIsDeleted) {
  expect(R"(
    pool p types=a8 never
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    unwant w
    tick 90000
    => withdrawn w/1
    pool-gone p
    => drain n1 Empty
  )");
}

TEST(Retire, ANodeThatLeavesMayComeBackForAWhile) {
  expect(std::string(kOne) + R"(
    show claims
    node-gone n1
    => claim p-00001 Launched i-1
    tick 899
    node n1 i-1 pods=1
    => claim p-00001 Ready i-1
    node-gone n1
    => claim p-00001 Launched i-1
    tick 900
    => claim p-00001 Terminating i-1
    => terminate p-00001 i-1
  )");
}

TEST(Retire, AFirstInstanceWaitsForTheRestOfItsGang) {
  expect(R"(
    pool p types=a8
    want w/1 2x8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise w/1 by=240 p-00001 p-00002
    up p-00001 i-1 n1 | launched p-00002 i-2
    -- the other node registers late
    tick 200
    up p-00002 i-2 n2
    tick 100
    => promise w/1 by=360 p-00001 p-00002
    unwant w
    -- placement used the one, and not the other
    => drain n1 Empty
    => drain n2 Empty
  )");
}

}  // namespace retire_cases_test
}  // namespace qm::autoscaler::testing
