// The outputs of the engine for facts, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::telemetry::testing {
namespace cases_test {

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

TEST(Verdict, ComesFromTheCatalogue) {
  expect(R"(
    -- fallen off the bus; an uncorrectable error; the GPU's firmware hangs; by the recovery action
    xid a 79 gpu=3
    => cordon a XID 79 gpu=3
    xid b 48
    => reset b XID 48 gpu=0
    xid c 119 gpu=1
    => reset c XID 119 gpu=1
    xid d 154
    => cordon d XID 154 gpu=0
  )");
}

TEST(Verdict, FollowsTheDriversRecoveryAction) {
  expect(R"(
    xid a 154 recovery=0
    xid a 154 recovery=1
    => reset a XID 154 gpu=0
    xid a 154 recovery=2
    => cordon a XID 154 gpu=0
    -- details of the kernel's line
    xid b 154 line=GPU_recovery_action_changed_from_0x1_(GPU_Reset_Required)_to_0x0_(None)
    xid b 154 line=GPU_recovery_action_changed_from_0x0_(None)_to_0x1_(GPU_Reset_Required)
    => reset b XID 154 gpu=0
    -- a value that is not known counts as the heaviest
    xid c 154 recovery=99
    => cordon c XID 154 gpu=0
  )");
}

TEST(Verdict, NvlinkErrorsCordonUnlessTheyAreNonfatal) {
  for (int code = 144; code <= 150; ++code) {
    expect(fmt::format(R"(
      xid a {0} line={0},_RLW_CTRL_Nonfatal_XC0_i0_Link_00_(0x00000003)
      => watch a XID {0} gpu=0
      xid a {0} line={0},_RLW_CTRL_Fatal_XC0_i0_Link_00_(0x00000003)
      => reset a XID {0} gpu=0
      xid b {0} recovery=0
      => watch b XID {0} gpu=0
      -- nothing is known
      xid c {0}
      => reset c XID {0} gpu=0
    )",
                       code));
  }
}

TEST(Verdict, WhatEndsOneApplicationIsOnlyWatched) {
  expect(R"(
    xid a 13
    => watch a XID 13 gpu=0
    xid b 31
    => watch b XID 31 gpu=0
    xid c 94
    => watch c XID 94 gpu=0
    -- and what needs no action is not published: a clean-up after a kill, a row that was remapped
    xid d 45
    xid d 63
  )");
}

TEST(Verdict, AnUnknownCodeIsWatched) {
  expect(R"(
    xid a 9999
    => watch a XID 9999 gpu=0
    xid b -1
    => watch b XID -1 gpu=0
  )");
}

TEST(Verdict, TheHeavierVerdictApplies) {
  expect(R"(
    xid a 13
    => watch a XID 13 gpu=0
    xid a 31
    xid a 48 gpu=2
    => reset a XID 48 gpu=2
    xid a 13
    -- another GPU is out of service, too
    xid a 95 gpu=5
    => reset a XID 48 gpu=2 2:reset 5:reset
    xid a 79 gpu=1
    => cordon a XID 79 gpu=1 1:cordon 2:reset 5:reset
    xid a 48 gpu=1 | xid a 79 gpu=1
    -- in one batch as in several
    xid b 13 | xid b 79 | xid b 48
    => watch b XID 13 gpu=0
    => cordon b XID 79 gpu=0
  )");
}

// Each GPU has its own verdict: a change is published although the node has a more severe verdict.
TEST(Verdict, OfEachGpuIsPublished) {
  expect(R"(
    xid a 79 gpu=1
    => cordon a XID 79 gpu=1
    xid a 48 gpu=3
    => cordon a XID 79 gpu=1 1:cordon 3:reset
    tick 60 | xid a 79 gpu=3
    => cordon a XID 79 gpu=1 1:cordon 3:cordon
    -- later again, and it may be that the first was overridden meanwhile
    tick 60 | xid a 79 gpu=1
    => cordon a XID 79 gpu=1 1:cordon 3:cordon
    -- which GPU it is of is not known: a matter of the node
    xid b 48 gpu=-1
    => reset b XID 48 gpu=-1
  )");
}

TEST(StickyXid, IsReportedOnceInABoot) {
  expect(R"(
    -- seen to appear; the node object is deleted and created again, and so is its agent, which reads the old code
    xid a 79 gpu=3 boot=b1
    => cordon a XID 79 gpu=3
    gone a
    => healthy a
    => gone a
    xid a 79 gpu=3 boot=b1 standing
    tick 60 | xid a 79 gpu=3 boot=b1 standing
    -- another code is new, and so is the same one that an agent saw appear again
    tick 60 | xid a 48 gpu=3 boot=b1 standing
    => reset a XID 48 gpu=3
    gone a
    => healthy a
    => gone a
    xid a 48 gpu=3 boot=b1 standing
    xid a 48 gpu=3 boot=b1
    => reset a XID 48 gpu=3
    -- the same code of another GPU, and after a reboot
    gone a
    => healthy a
    => gone a
    xid a 48 gpu=4 boot=b1 uuid=GPU-y standing
    => reset a XID 48 gpu=4
    gone a
    => healthy a
    => gone a
    tick 60 | xid a 48 gpu=3 boot=b2 standing
    => reset a XID 48 gpu=3
  )");
}

TEST(StickyXid, ThatWasNeverReportedIsNew) {
  expect(R"(
    xid a 79 standing boot=b1
    => cordon a XID 79 gpu=0
    -- watched ones, and those of one that nothing is known of
    xid b 13 standing
    => watch b XID 13 gpu=0
    xid c 13 standing uuid=none
    => watch c XID 13 gpu=0
    gone c
    => healthy c
    => gone c
    -- without a GPU uuid or boot id it may be another host
    xid c 13 standing uuid=none
    => watch c XID 13 gpu=0
  )");
}

TEST(StickyXid, ThatIsRepeatedAfterANewerOneChangesNothing) {
  expect(R"(
    xid a 79 boot=b1
    => cordon a XID 79 gpu=0
    gone a
    => healthy a
    => gone a
    tick 60 | xid a 79 boot=b1 standing
    tick 60 | xid a 31 boot=b1
    => watch a XID 31 gpu=0
    -- both again, in the order that they were read in and in the other
    tick 2 | xid a 79 boot=b1 standing ago=62
    tick 2 | xid a 31 boot=b1 ago=4 | xid a 79 boot=b1 standing ago=64
    -- the one that is shown is the newer one still
    tick 60 | xid a 31 boot=b1 standing
    -- and the other is new again where it is shown again
    tick 60 | xid a 79 boot=b1 standing
    => cordon a XID 79 gpu=0
  )");
}

TEST(StickyXid, OfThePreviousBootThatIsRepeatedChangesNothing) {
  expect(R"(
    xid a 79 boot=b1 standing
    => cordon a XID 79 gpu=0
    gone a
    => healthy a
    => gone a
    tick 600 | xid a 13 boot=b2 standing
    => watch a XID 13 gpu=0
    tick 2 | xid a 79 boot=b1 standing ago=602
    -- by a clock that was ahead, or of another GPU
    xid a 79 boot=b1 standing ago=-600 | xid a 79 gpu=1 uuid=GPU-y boot=b1 standing
    xid a 79 boot=b1 cleared
    tick 60 | xid a 13 boot=b2 standing
    -- the boot that it is now has no part in that
    tick 60 | xid a 79 boot=b2 standing
    => cordon a XID 79 gpu=0
  )");
}

TEST(StickyXid, IsNewAfterARebootHoweverTheClockWasSet) {
  expect(R"(
    xid a 79 boot=b1
    => cordon a XID 79 gpu=0
    gone a
    => healthy a
    => gone a
    -- the clock of the first boot was fast
    tick 600 | xid a 79 boot=b2 standing ago=3000
    => cordon a XID 79 gpu=0
    gone a
    => healthy a
    => gone a
    -- it is set back while no agent looks
    tick 60 | xid a 48 boot=b2 standing ago=9000
    => reset a XID 48 gpu=0
    gone a
    => healthy a
    => gone a
    tick 60 | xid a 48 boot=b2 standing ago=9000
    -- and once more before a reset
    tick 60 | xid a 48 boot=b2 cleared ago=20000
    tick 60 | xid a 48 boot=b2 standing ago=20000
    => reset a XID 48 gpu=0
  )");
}

TEST(StickyXid, OfANodeWhoseBootIsNotAlwaysKnownIsNotLost) {
  expect(R"(
    xid a 79 boot=b1
    => cordon a XID 79 gpu=0
    gone a
    => healthy a
    => gone a
    tick 60 | xid a 79 standing
    => cordon a XID 79 gpu=0
    gone a
    => healthy a
    => gone a
    tick 60 | xid a 79 boot=b1 standing
    => cordon a XID 79 gpu=0
  )");
}

TEST(StickyXid, ARecoveryActionThatChangedIsNew) {
  expect(R"(
    xid a 154 boot=b1 recovery=0
    tick 60 | xid a 154 boot=b1 recovery=0 standing
    -- it changed while no agent looked
    tick 60 | xid a 154 boot=b1 recovery=1 standing
    => reset a XID 154 gpu=0
    gone a
    => healthy a
    => gone a
    tick 60 | xid a 154 boot=b1 recovery=1 standing
    tick 60 | xid a 154 boot=b1 recovery=2 standing
    => cordon a XID 154 gpu=0
    -- not used for a code that decides alone
    xid b 48 boot=b1 recovery=0
    => reset b XID 48 gpu=0
    gone b
    => healthy b
    => gone b
    tick 60 | xid b 48 boot=b1 recovery=1 standing
  )");
}

TEST(StickyXid, AfterAResetTheSameCodeIsNew) {
  expect(R"(
    xid a 48 boot=b1
    => reset a XID 48 gpu=0
    tick 60 | xid a 48 boot=b1 cleared
    gone a
    => healthy a
    => gone a
    tick 60 | xid a 48 boot=b1 standing
    => reset a XID 48 gpu=0
    -- a cleared gauge alone publishes nothing
    xid b 48 cleared
  )");
}

TEST(StickyXid, IsForgottenADayAfterItsNode) {
  Script script;
  EXPECT_EQ(script.run(R"(
    xid a 48 boot=b1
    => reset a XID 48 gpu=0
    gone a
    => healthy a
    => gone a
    tick 86399
    xid b 13
    => watch b XID 13 gpu=0
  )"),
            "");
  EXPECT_EQ(script.step({Tick{}}).wake_at, script.now() + std::chrono::seconds(1));
  EXPECT_EQ(script.engine().tables().xids.size(), 2U);
  EXPECT_EQ(script.run("tick 1"), "");
  EXPECT_EQ(script.engine().tables().xids.size(), 1U);
  EXPECT_EQ(script.engine().tables().xids_until.size(), 0U);
  EXPECT_EQ(script.step({Tick{}}).wake_at, std::nullopt);
  // The state of a node that reappears is kept.
  EXPECT_EQ(script.run(R"(
    gone b
    => healthy b
    => gone b
    tick 60 | xid b 13 standing
    tick 90000
    xid b 13 standing
  )"),
            "");
}

TEST(StickyXid, RemembersSoManyGpusOfANode) {
  Script script;
  std::vector<Command> batch;
  for (std::size_t i = 0; i < Engine::kMostXids + 10; ++i)
    batch.push_back(XidUpdated{NodeName("a"), 13, 0, DeviceUuid(fmt::format("GPU-{}", i)), "", script.now()});
  script.step(batch);
  EXPECT_EQ(script.engine().tables().xids.find(NodeName("a"))->gpus.size(), Engine::kMostXids);
}

TEST(Verdict, NamesTheCodeAndTheGpu) {
  Script script;
  const auto out = script.step({XidUpdated{NodeName("a"), 79, 3, DeviceUuid("GPU-3"), "NVRM: Xid", script.now()},
                                XidUpdated{NodeName("b"), 9999, 1, DeviceUuid(), "", script.now()}});
  ASSERT_EQ(out.health.size(), 2U);
  EXPECT_EQ(out.health[0].row.reason, "XID 79 ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS on GPU 3");
  EXPECT_EQ(out.health[0].row.gpu, DeviceUuid("GPU-3"));
  EXPECT_EQ(out.health[0].row.at, script.now());
  EXPECT_EQ(out.health[1].row.reason, "XID 9999 unknown on GPU 1");
}

TEST(Notice, IsPublishedOnceForAnInstance) {
  expect(R"(
    notice a i-1
    => notice a i-1 terminate
    notice a i-1
    notice a i-1 in=60 | notice a i-1 stop
    -- another instance has the name
    notice a i-2 stop
    => notice a i-2 stop
    notice b i-1 hibernate | notice b i-1 hibernate
    => notice b i-1 hibernate
  )");
}

TEST(Notice, OfSeveralKindsTheEarliestDeadlineCounts) {
  expect(R"(
    notice a i-1 rebalance kind=rebalance in=0
    => notice a i-1 rebalance
    notice a i-1 reboot kind=maintenance in=86400
    => notice a i-1 reboot
    notice a i-1 rebalance kind=rebalance in=0
    notice a i-1 in=120
    => notice a i-1 terminate
    notice a i-1 reboot kind=maintenance in=86400
  )");
}

TEST(Devices, ArePublishedWhenTheyChange) {
  expect(R"(
    -- nothing is what was known of a new node
    devices a
    devices a x/p=0,1
    => devices a x/p=0,1
    tick 60 | devices a x/p=0,1
    devices a x/p=0,1 x/q=2
    => devices a x/p=0,1 x/q=2
    devices a x/p=1,0 x/q=2
    => devices a x/p=1,0 x/q=2
    devices a
    => devices a
    devices a
  )");
}

TEST(Usage, IsPassedOn) {
  expect(R"(
    usage a gpu=1 0.5 | usage a gpu=1 0.5
    => usage a gpu=1 0.5
    => usage a gpu=1 0.5
  )");
}

TEST(Ack, IsPublishedOnceForAnOrderAndNode) {
  expect(R"(
    order o w/1 a b
    ack o a step=70
    => ack o a step=70
    ack o a step=70
    ack o a step=80 | ack o b bad
    => ack o b step=0 bad
    -- the first answer of a node counts, whatever follows
    ack o b step=90
  )");
}

TEST(Ack, OfAnUnknownOrderOrNodeIsIgnored) {
  expect(R"(
    ack o a
    order o w/1 a
    ack o b
    ack other a
    ack o a step=1
    => ack o a step=1
  )");
}

// Otherwise the order's workload would resume from its URI.
TEST(Ack, OfAnotherWorkloadThanItsOrderIsDropped) {
  expect(R"(
    order o w/1 a ns=red
    ack o a of=v/1 step=1
    ack o a of=w/2 step=2
    ack o a ns=blue step=3
    -- the order of an earlier number
    order p w/2 a ns=red number=7
    ack p a number=6 step=3
    ack p a number=7 step=8
    => ack p a step=8
    -- none of them counts as the answer
    ack o a step=4
    => ack o a step=4
  )");
}

TEST(Order, IsSentToConnectingNodesUntilTheyAnswer) {
  expect(R"(
    open a
    order o w/1 a b
    order p w/2 b in=200
    open a
    => open o
    open b
    => open o
    => open p
    ack o b step=3
    => ack o b step=3
    open b
    => open p
    open c
    -- no node can meet a deadline that has passed
    tick 110
    open a
    open b
    => open p
  )");
}

TEST(Order, UsesItsNewestReport) {
  expect(R"(
    order o w/1 a
    order o w/1 a b in=300
    tick 110
    open b
    => open o
    order o w/1 a b settled
    open b
    => open o
    -- one that is over when it is first received is none
    order p w/2 a settled
    open a
    => open o
  )");
}

TEST(Order, IsDroppedTenMinutesPastItsDeadline) {
  Script script;
  EXPECT_EQ(script.run(R"(
    order o w/1 a b in=100
    ack o a step=7
    => ack o a step=7
    tick 699
    -- late, but the autoscaler may still use it
    ack o b step=8
    => ack o b step=8
  )"),
            "");
  EXPECT_EQ(script.engine().tables().acked.size(), 2U);
  EXPECT_EQ(script.step({Tick{}}).wake_at, script.now() + std::chrono::seconds(1));
  EXPECT_EQ(script.run("tick 1\n=> ack-over o a\n=> ack-over o b"), "");
  EXPECT_EQ(script.engine().tables().orders.size(), 0U);
  EXPECT_EQ(script.engine().tables().acked.size(), 0U);
  EXPECT_EQ(script.step({Tick{}}).wake_at, std::nullopt);
  EXPECT_EQ(script.run("ack o a\n order o w/1 a in=-600\n open a"), "") << "received too late";
  EXPECT_EQ(script.engine().tables().orders.size(), 0U);
}

TEST(Order, ThatNamesFewerNodesLaterLeavesNoAnswerBehind) {
  Script script;
  EXPECT_EQ(script.run(R"(
    order o w/1 a b
    ack o b step=1
    => ack o b step=1
    order o w/1 a
    tick 710
    => ack-over o b
  )"),
            "");
  EXPECT_EQ(script.engine().tables().acked.size(), 0U);
}

TEST(NodeReport, ArePublishedWhenTheyChange) {
  expect(R"(
    -- nothing is what was known
    report a
    report a island=4 own/
    => report a island=4
    tick 600 | report a island=4 own/
    report a island=8 own/
    => report a island=8
    report a
    => report a
  )");
}

TEST(NodeDeleted, EndsWhatWasKnown) {
  expect(R"(
    xid a 79 | devices a x/p=0 | report a island=4 | notice a i-1
    => cordon a XID 79 gpu=0
    => devices a x/p=0
    => report a island=4
    => notice a i-1 terminate
    gone a
    => healthy a
    => no-devices a
    => no-report a
    => no-notice a
    => gone a
    -- nothing is left to end
    gone a
    => gone a
    -- a node of the same name starts empty
    xid a 13 | devices a x/p=0 | notice a i-1
    => watch a XID 13 gpu=0
    => devices a x/p=0
    => notice a i-1 terminate
    -- events of one node keep the order of its facts
    gone a | xid a 48
    => healthy a
    => reset a XID 48 gpu=0
    => no-devices a
    => no-notice a
    => gone a
  )");
}

TEST(NodeDeleted, LeavesOrdersToTheirDeadline) {
  expect(R"(
    order o w/1 a b
    gone a
    => gone a
    open a
    => open o
  )");
}

TEST(EngineDeathTest, TimeDoesNotGoBack) {
  Engine engine;
  (void)engine.step({}, from_micros(2));
  EXPECT_DEATH((void)engine.step({}, from_micros(1)), "time went back");
}

}  // namespace cases_test
}  // namespace qm::telemetry::testing
