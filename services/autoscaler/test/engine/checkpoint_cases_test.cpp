// Checkpoint orders, schedules and notices of all kinds, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace checkpoint_cases_test {

using ::testing::HasSubstr;

constexpr const char* kGang = R"(
    cloud i-1 type=h8 node=n1 zone=z1 spot
    cloud i-2 type=h8 node=n2 zone=z1 spot
    node n1 i-1 pods=2 | node n2 i-2 pods=1
    workload w saves interval=600
    runs w/1 n1 n2
)";

TEST(GangCheckpoint, RanksWithDifferentStepsHaveNoCheckpoint) {
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    ack w/1/n1 n1 step=70 uri=s3://70
    ack w/1/n1 n2 step=60 uri=s3://60
    => order w/1/n1 Failed step=0 uri=
    => evict w/1 from n1 by=110 step=0 uri=
  )");
}

TEST(GangCheckpoint, AQuorumOfRanksIsEnough) {
  expect(R"(
    node n1 i-1 pods=2 | node n2 i-2 pods=1
    workload w saves quorum=1
    runs w/1 n1 n2
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    ack w/1/n1 n1 failed
    ack w/1/n1 n2 step=60 uri=s3://60
    => order w/1/n1 Acked step=60 uri=s3://60
    => evict w/1 from n1 by=110 step=60 uri=s3://60
  )");
}

TEST(GangCheckpoint, AnswersOfAnotherIncarnationAreStale) {
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    ack w/1/n1 n1 step=70 uri=s3://70 attempt=2
    => stale w/1/n1 n1
    ack w/1/n1 n1 step=70 uri=s3://70 number=99
    => stale w/1/n1 n1
    ack w/1/n1 n1 step=60 uri=s3://60 number=1
    ack w/1/n1 n2 step=60 uri=s3://60 number=1
    => order w/1/n1 Acked step=60 uri=s3://60
    => evict w/1 from n1 by=110 step=60 uri=s3://60
  )");
}

// S-244: address, epoch and step are kept, and the newest is used to resume.
TEST(CheckpointRegistry, TheNewestCheckpointOfTheWorkloadIsUsedToResume) {
  Script script;
  EXPECT_EQ(script.run(std::string(kGang) + R"(
    tick 600
    => order w/1/save-1 to n1 n2 by=900
    ack w/1/save-1 n1 step=600 uri=s3://600 took=20
    ack w/1/save-1 n2 step=600 uri=s3://600 took=30
    => order w/1/save-1 Acked step=600 uri=s3://600
    -- the notice comes, and this time one rank cannot save
    tick 100
    notice n1 120
    => order w/1/n1 to n1 n2 by=810
    => drain n1 SpotInterruption
    ack w/1/n1 n2 failed
    => order w/1/n1 Failed step=0 uri=
    => evict w/1 from n1 by=810 step=600 uri=s3://600
  )"),
            "");
  const auto& rows = script.engine().tables().checkpoints.rows();
  ASSERT_EQ(rows.size(), 1U);
  const CheckpointRow& row = rows.begin()->second;
  EXPECT_EQ(row.fence, (checkpoint::Fence{1, 1}));
  EXPECT_EQ(row.saved.step, 600);
  EXPECT_EQ(row.saved.uri, "s3://600");
  EXPECT_EQ(row.saved.took, Duration(std::chrono::seconds(30)));
  // It ends with the workload.
  EXPECT_EQ(script.run(R"(
    released w/1
    => evict-over w/1
    ended w
  )"),
            "");
  EXPECT_EQ(script.engine().tables().checkpoints.size(), 0U);
}

// S-242: one schedule, however often it is reconciled; none on demand.
TEST(CheckpointSchedule, IsOneForEachGangOnSpotCapacity) {
  Script script;
  EXPECT_EQ(script.run(R"(
    cloud i-1 type=h8 node=n1 spot
    cloud i-2 type=h8 node=n2
    node n1 i-1 pods=1 | node n2 i-2 pods=1
    workload w saves
    workload v saves
    workload u
    runs w/1 n1
    runs v/1 n2
    runs u/1 n1
    runs w/1 n1
    workload w saves
    tick 300
    runs w/1 n1
    -- the default interval
    tick 299
    tick 1
    => order w/1/save-1 to n1 by=900
    ack w/1/save-1 n1 step=600 uri=s3://600
    => order w/1/save-1 Acked step=600 uri=s3://600
    tick 599
    tick 1
    => order w/1/save-2 to n1 by=1500
    tick 300
    => order w/1/save-2 Late step=0 uri=
    tick 300
    => order w/1/save-3 to n1 by=2100
    released w/1
    => order w/1/save-3 Released step=0 uri=
    tick 3600
  )"),
            "");
  EXPECT_EQ(script.engine().tables().schedules.size(), 0U);
  EXPECT_EQ(script.engine().tables().orders.size(), 0U);
}

TEST(CheckpointSchedule, FollowsTheIntervalOfTheWorkload) {
  expect(R"(
    cloud i-1 type=h8 node=n1 spot
    node n1 i-1 pods=1
    workload w saves interval=60
    runs w/1 n1
    tick 60
    => order w/1/save-1 to n1 by=120
    ack w/1/save-1 n1 step=60 uri=s3://60
    => order w/1/save-1 Acked step=60 uri=s3://60
    workload w saves interval=1200
    tick 1199
    tick 1
    => order w/1/save-2 to n1 by=1560
  )");
}

TEST(CheckpointSchedule, TheAdviceFollowsTheHazardOfTheCapacity) {
  Script script;
  EXPECT_EQ(script.run(std::string(kGang) + R"(
    tick 600
    => order w/1/save-1 to n1 n2 by=900
    ack w/1/save-1 n1 step=600 uri=s3://600 took=60
    ack w/1/save-1 n2 step=600 uri=s3://600 took=60
    => order w/1/save-1 Acked step=600 uri=s3://600
  )"),
            "");
  const auto line = script.engine().explain(script.now()).at(0);
  // Two nodes, each with one assumed interruption in 100 hours and 1/3 of an hour observed together: 50.2 h.
  EXPECT_THAT(line, HasSubstr("w/1 on 2 spot node(s): a save takes 60 s and interruptions are 50.2 h apart"));
  EXPECT_THAT(line, HasSubstr("Daly's interval is 4615 s"));
  EXPECT_THAT(line, HasSubstr("it saves every 600 s"));
  EXPECT_THAT(line, HasSubstr("an interruption without a notice loses 300 s"));
}

TEST(InstanceNotice, IsJoinedWithItsNodeInAnyOrder) {
  expect(R"(
    -- the cloud's own event, before its instance is known
    instance-notice i-1 120
    instance-notice i-1 120
    node n1 i-1 pods=1 | workload w saves | runs w/1 n1
    cloud i-1 type=h8 node=n1 spot
    => order w/1/n1 to n1 by=110
    => drain n1 SpotInterruption
    -- the agent of the node has the same notice
    notice n1 120
  )");
}

TEST(InstanceNotice, OfAnUnknownInstanceIsForgotten) {
  Script script;
  EXPECT_EQ(script.run("instance-notice i-9 120\ntick 3599"), "");
  EXPECT_EQ(script.engine().tables().instance_notices.size(), 1U);
  EXPECT_EQ(script.run("tick 1"), "");
  EXPECT_EQ(script.engine().tables().instance_notices.size(), 0U);
}

TEST(InstanceNotice, ASpotNoticeCountsAsAnInterruptionOfItsCapacity) {
  Script script;
  EXPECT_EQ(script.run(R"(
    cloud i-1 type=h8 node=n1 zone=z1 spot
    node n1 i-1
    instance-notice i-1 120
    => drain n1 SpotInterruption
    tick 3600
    node-gone n1
    => lifted n1
    cloud i-1 type=h8 node=n1 zone=z1 spot stopped=3600
    => claim i-1 Gone i-1 stopped=3600
    tick 3600
    => claim i-1 Gone i-1 stopped=3600 over
  )"),
            "");
  const auto& hazards = script.engine().tables().hazards.rows();
  ASSERT_EQ(hazards.size(), 1U);
  EXPECT_EQ(hazards.begin()->first, std::pair(std::string("h8"), std::string("z1")));
  EXPECT_EQ(hazards.begin()->second, (checkpoint::Hazard{1, std::chrono::hours(1)}));
}

TEST(Maintenance, DrainsAtOnceAndSavesShortlyBefore) {
  expect(std::string(kGang) + R"(
    notice n1 1500 maintenance
    => drain n1 ScheduledMaintenance
    -- ten minutes before the deadline
    tick 600
    => order w/1/save-1 to n1 n2 by=900
    ack w/1/save-1 n1 step=1 uri=s3://1
    ack w/1/save-1 n2 step=1 uri=s3://1
    => order w/1/save-1 Acked step=1 uri=s3://1
    tick 290
    => order w/1/n1 to n1 n2 by=1490
  )");
}

TEST(Maintenance, AnEarlierNoticeOfAnotherKindCounts) {
  expect(std::string(kGang) + R"(
    notice n1 86400 maintenance
    => drain n1 ScheduledMaintenance
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    notice n2 300 lifecycle
    => drain n2 LifecycleTermination
  )");
}

TEST(Rebalance, SavesOnceTheWorkAtRiskIsWorthIt) {
  expect(R"(
    cloud i-1 type=h8 node=n1 spot
    node n1 i-1 pods=1
    workload w saves interval=600 expected=40
    runs w/1 n1
    tick 30
    -- 40 s of saving against half of 30 s of work
    notice n1 0 rebalance
    tick 49
    -- 40 s against half of 80 s
    tick 2
    => order w/1/save-1 to n1 by=381
    ack w/1/save-1 n1 step=80 uri=s3://80 took=40
    => order w/1/save-1 Acked step=80 uri=s3://80
    -- the recommendation has been answered; the schedule goes on
    notice n1 0 rebalance
    tick 599
    tick 1
    => order w/1/save-2 to n1 by=981
    -- the interruption that it announced
    notice n1 120
    => order w/1/n1 to n1 by=791
    => drain n1 SpotInterruption
  )");
}

}  // namespace checkpoint_cases_test
}  // namespace qm::autoscaler::testing
