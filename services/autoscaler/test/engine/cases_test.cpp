// What the engine does, case by case, as text tables: see script.hpp for the words.
#include <gtest/gtest.h>

#include "test/engine/script.hpp"

namespace qm::autoscaler::testing {
namespace {

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

std::string why(const std::string& table) {
  Script script;
  EXPECT_EQ(script.run(table), "");
  const auto lines = script.engine().explain(script.now());
  return lines.empty() ? "" : lines.front();
}

// ---- what is launched ----

TEST(Launch, TakesTheCheapestTypeForTheWholeGang) {
  expect(R"(
    pool p types=a8,g1,g4,h8
    -- four of g1 cost 4, one g4 costs 5
    want w/1 4x1
    => launch p-00001 g1 on-demand
    => launch p-00002 g1 on-demand
    => launch p-00003 g1 on-demand
    => launch p-00004 g1 on-demand
    => promise w/1 by=240 p-00001 p-00002 p-00003 p-00004
    want v/1 1x4
    => launch p-00005 g4 on-demand
    => promise v/1 by=240 p-00005
    want u/1 2x8
    => launch p-00006 a8 on-demand
    => launch p-00007 a8 on-demand
    => promise u/1 by=240 p-00006 p-00007
  )");
}

TEST(Launch, PrefersTheHeavierPoolEvenIfDearer) {
  expect(R"(
    pool cheap types=a8
    pool dear types=h8 weight=10
    want w/1 1x8
    => launch dear-00001 h8 on-demand
    => promise w/1 by=240 dear-00001
  )");
}

TEST(Launch, WeighsSpotZonesAgainstOnDemand) {
  expect(R"(
    pool p types=h8 markets=spot,od zones=z1,z2
    -- spot without a price is no reason to prefer it
    want w/1 1x8
    => launch p-00001 h8 on-demand z1
    => promise w/1 by=240 p-00001
    price h8 z1 60
    => price h8 z1 60.00
    price h8 z2 50
    => price h8 z2 50.00
    want v/1 1x8
    => launch p-00002 h8 spot z2
    => promise v/1 by=240 p-00002
    tick 1
    price h8 z2 91
    => price h8 z2 91.00
    price h8 z1 90
    => price h8 z1 90.00
    -- at the same price a machine that stays is the better one
    want u/1 1x8
    => launch p-00003 h8 on-demand z1
    => promise u/1 by=241 p-00003
    pool s types=h8 markets=spot zones=z3 weight=5
    -- only spot, no price known: taken all the same
    want t/1 1x8
    => launch s-00004 h8 spot z3
    => promise t/1 by=241 s-00004
  )");
}

TEST(Launch, AnOlderPriceAndTheSamePriceSayNothing) {
  Script script;
  const SpotPricesSeen seen{{{"h8", "z1", HourlyRate{Money::nano(5)}, script.now()},
                             {"h8", "z1", HourlyRate{Money::nano(4)}, script.now() - std::chrono::seconds(9)},
                             {"h8", "z1", HourlyRate{Money::nano(5)}, script.now() + std::chrono::seconds(9)}}};
  EXPECT_EQ(script.step({seen}).prices.size(), 1U);
  EXPECT_EQ(script.step({seen}).prices.size(), 0U);
}

TEST(Launch, HonoursSelectorsTaintsModelsAndZones) {
  expect(R"(
    pool a types=a8 label=team=x taint=gpu zones=z1,z2
    pool h types=h8
    want w/1 1x8 select=team=x tolerate=gpu
    => launch a-00001 a8 on-demand z1
    => promise w/1 by=240 a-00001
    -- the taint keeps it away from the cheaper pool
    want v/1 1x8
    => launch h-00002 h8 on-demand
    => promise v/1 by=240 h-00002
    want u/1 1x8 model=H100 select=topology.kubernetes.io/zone=z9
    => launch h-00003 h8 on-demand z9
    => promise u/1 by=240 h-00003
    want t/1 1x8 tolerate=gpu select=topology.kubernetes.io/zone=z2
    => launch a-00004 a8 on-demand z2
    => promise t/1 by=240 a-00004
    want s/1 1x8 select=karpenter.sh/nodepool=h
    => launch h-00005 h8 on-demand
    => promise s/1 by=240 h-00005
    want r/1 1x8 select=node.kubernetes.io/instance-type=a8
    want q/1 1x8 select=karpenter.sh/capacity-type=spot
    want p/1 1x8 select=disk=fast
    want o/1 1xmig
  )");
}

TEST(Launch, PodSetsShareTheGangsMachines) {
  expect(R"(
    pool p types=g4
    -- two ranks of 4 and a launcher of none: it goes beside them
    want w/1 2x4+1x0
    => launch p-00001 g4 on-demand
    => launch p-00002 g4 on-demand
    => promise w/1 by=240 p-00001 p-00002
    -- 3 + 1 GPUs fit one machine
    want v/1 1x3+1x1
    => launch p-00003 g4 on-demand
    => promise v/1 by=240 p-00003
  )");
  expect(R"(
    pool p types=g4
    -- the ranks take all 64 CPUs, so the launcher needs a machine of its own
    want w/1 1x4+1x0 cpu=64
    => launch p-00001 g4 on-demand
    => launch p-00002 g4 on-demand
    => promise w/1 by=240 p-00001 p-00002
  )");
  expect(R"(
    pool p types=g4
    -- two halves on a device: nine need five devices
    want w/1 9x500m
    => launch p-00001 g4 on-demand
    => launch p-00002 g4 on-demand
    => promise w/1 by=240 p-00001 p-00002
    -- 256 GiB on a machine
    want v/1 3x1 mem=100
    => launch p-00003 g4 on-demand
    => launch p-00004 g4 on-demand
    => promise v/1 by=240 p-00003 p-00004
  )");
}

TEST(Launch, KeepsToEachLimit) {
  for (const char* limit : {"gpus=16", "cpu=256", "mem=1024"}) {
    EXPECT_EQ(Script().run(fmt::format(R"(
      pool p types=a8 {}
      want w/1 1x8
      => launch p-00001 a8 on-demand
      => promise w/1 by=240 p-00001
      -- two would be three
      want v/1 2x8
      want u/1 1x8
      => launch p-00002 a8 on-demand
      => promise u/1 by=240 p-00002
      want t/1 1x1
    )", limit)), "");
  }
}

TEST(Launch, ALighterPoolTakesWhatTheHeavierMayNot) {
  expect(R"(
    pool a types=a8 gpus=8 weight=9
    pool h types=h8
    want w/1 2x8
    => launch h-00001 h8 on-demand
    => launch h-00002 h8 on-demand
    => promise w/1 by=240 h-00001 h-00002
  )");
}

TEST(Launch, SharesTheRoomOfMachinesThatCome) {
  expect(R"(
    pool p types=a8 gpus=8
    want w/1 1x4
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    tick 60
    want v/1 1x4
    => promise v/1 by=300 p-00001
    -- it is full
    want u/1 1x1
  )");
  expect(R"(
    pool p types=a8 gpus=8
    want w/1 1x1 cpu=100
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    -- seven GPUs are left, and 28 CPUs
    want v/1 1x1 cpu=29
    want u/1 1x1 cpu=28
    => promise u/1 by=240 p-00001
  )");
}

TEST(Launch, ServesPriorityThenWaitingTime) {
  expect(R"(
    want a/1 1x8
    tick 1
    want b/1 1x8
    want c/1 1x8 prio=9
    pool p types=a8 gpus=16
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise c/1 by=241 p-00001
    => promise a/1 by=241 p-00002
  )");
}

TEST(Launch, StaysWithinTheMachinesOfOneStep) {
  Options options;
  options.max_launches = 2;
  Script script(options);
  EXPECT_EQ(script.run(R"(
    want a/1 2x8
    want b/1 3x8
    pool p types=a8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise a/1 by=240 p-00001 p-00002
  )"), "");
  EXPECT_EQ(script.engine().explain(script.now()).at(1), "b/1 waits 0 s: it needs more than the 2 machines that are launched at once");
}

TEST(Launch, ExplainsWhatIsInTheWay) {
  EXPECT_EQ(why("want w/1 1x8"), "w/1 waits 0 s: no NodePool is configured");
  EXPECT_EQ(why("pool p types=g1\nwant w/1 1x8"), "w/1 waits 0 s: no NodePool allows an instance type that holds one of its pods");
  EXPECT_EQ(why("pool p types=a8 gpus=4\nwant w/1 1x8"), "w/1 waits 0 s: the limits of the NodePools are reached");
  EXPECT_EQ(why(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
  )"), "w/1 waits 0 s: 1 machine(s) of a8 on-demand expected by 1970-01-12T13:50:40Z");
}

// ---- what becomes of a launch ----

TEST(Cloud, WithoutCapacityTheNextOfferIsTakenAndTheFirstLaterAgain) {
  expect(R"(
    pool p types=a8,h8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    ice p-00001
    => claim p-00001 Failed
    => launch p-00002 h8 on-demand
    => promise w/1 by=240 p-00002
    ice p-00002
    => claim p-00002 Failed
    => withdrawn w/1
    tick 179
    -- three minutes later both are tried again
    tick 1
    => launch p-00003 a8 on-demand
    => promise w/1 by=420 p-00003
    -- failed claims stay readable for ten minutes
    tick 420
    => claim p-00001 Failed over
    => claim p-00002 Failed over
    => promise w/1 by=660 p-00003
  )");
  EXPECT_EQ(why(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    ice p-00001
    => claim p-00001 Failed
    => withdrawn w/1
  )"), "w/1 waits 0 s: the cloud has no capacity of the allowed types now, or refuses them");
}

TEST(Cloud, CapacityEndsForOneZoneAlone) {
  expect(R"(
    pool p types=a8 zones=z1,z2
    want w/1 1x8
    => launch p-00001 a8 on-demand z1
    => promise w/1 by=240 p-00001
    ice p-00001
    => claim p-00001 Failed
    => launch p-00002 a8 on-demand z2
    => promise w/1 by=240 p-00002
  )");
}

TEST(Cloud, OnlyTheMissingPartOfAGangIsLaunchedAgain) {
  expect(R"(
    pool p types=a8,h8
    want w/1 3x8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => launch p-00003 a8 on-demand
    => promise w/1 by=240 p-00001 p-00002 p-00003
    up p-00001 i-1 n1
    ice p-00003
    => claim p-00003 Failed
    => launch p-00004 h8 on-demand
    => promise w/1 by=240 p-00001 p-00002 p-00004
  )");
}

TEST(Cloud, ALaunchWhoseAnswerWasLostIsFoundByItsTag) {
  expect(R"(
    show claims
    pool p types=a8
    want w/1 1x8
    => claim p-00001 Requested
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    cloud i-1 claim=p-00001 pool=p type=a8 node=n1
    => claim p-00001 Launched i-1
    -- the answer comes after all, and a second time
    launched p-00001 i-1
    launched p-00001 i-1
    node n1 i-1
    => claim p-00001 Ready i-1
  )");
}

TEST(Cloud, TheNodeMayBeHeardOfBeforeItsInstance) {
  expect(R"(
    show claims
    pool p types=a8
    want w/1 1x8
    => claim p-00001 Requested
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    node n1 i-1
    launched p-00001 i-1
    => claim p-00001 Launched i-1
    cloud i-1 claim=p-00001 pool=p type=a8 node=n1
    => claim p-00001 Ready i-1
  )");
}

TEST(Cloud, ANodeNameThatComesAgainIsAnotherMachine) {
  expect(R"(
    show claims
    pool p types=a8
    node n1 i-0
    want w/1 1x8
    => claim p-00001 Requested
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    cloud i-1 claim=p-00001 pool=p type=a8 node=n1
    => claim p-00001 Launched i-1
  )");
}

TEST(Cloud, WhatNoClaimStandsForIsTakenInAndGoesWhenEmpty) {
  expect(R"(
    pool p types=a8 after=60
    -- two machines under one claim, and one whose claim nobody knows
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    unwant w
    cloud i-2 claim=p-00001 pool=p type=a8 node=n2 | node n2 i-2
    cloud i-3 claim=p-00077 pool=p type=a8 node=n3
    tick 60
    => drain n2 Empty
    node n2 i-2 cordoned
    => terminate i-2 i-2
    -- the other one never registers
    tick 840
    => withdrawn w/1
    => terminate p-00077 i-3
  )");
}

TEST(Cloud, AnInitialInstanceIsOnlyReported) {
  expect(R"(
    show claims
    pool p types=a8
    cloud i-1 type=a8 node=n1
    => claim i-1 Launched i-1
    cloud i-1 type=a8 node=n1
    node n1 i-1
    => claim i-1 Ready i-1
    tick 90000
    health n1 broken
    node n1 i-1 cordoned
    node-gone n1
    cloud i-1 stopped=90000
    => claim i-1 Gone i-1 stopped=90000
    tick 3600
    => claim i-1 Gone i-1 stopped=90000 over
    -- the cloud still tells of it: that is no news
    cloud i-1 stopped=90000
  )");
}

TEST(Cloud, AStoppedInstanceIsPublishedWithItsInstant) {
  expect(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    tick 100
    cloud i-1 stopped=97
    => claim p-00001 Gone i-1 stopped=97
    => launch p-00002 a8 on-demand
    => promise w/1 by=340 p-00002
  )");
}

TEST(Cloud, WhatTheCloudDoesNotShowForLongIsGone) {
  expect(R"(
    show claims
    cloud i-1 type=a8 node=n1
    => claim i-1 Launched i-1
    cloud-lost i-1
    tick 599
    -- it was only late
    cloud i-1 type=a8 node=n1
    => claim i-1 Launched i-1
    cloud-lost i-1
    tick 600
    => claim i-1 Gone i-1 stopped=599
    cloud i-1 type=a8 node=n1
    => claim i-1 Launched i-1
  )");
}

TEST(Cloud, AMachineThatNeverRegistersIsGivenUp) {
  expect(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    launched p-00001 i-1
    -- it is late, and the promise with it
    tick 240
    => promise w/1 by=300 p-00001
    unwant w
    tick 660
    => withdrawn w/1
    => terminate p-00001 i-1
    terminate-refused p-00001 protected
    -- nothing came of it: asked again
    tick 900
    => terminate p-00001 i-1
  )");
}

TEST(Cloud, ALaunchThatIsNeverAnsweredFailsAndMayStillCome) {
  expect(R"(
    show claims
    pool p types=a8 gpus=8
    want w/1 1x8
    => claim p-00001 Requested
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    unwant w
    tick 900
    => claim p-00001 Failed
    => withdrawn w/1
    launched p-00001 i-1
    => claim p-00001 Launched i-1
    tick 900
    => claim p-00001 Terminating i-1
    => terminate p-00001 i-1
  )");
}

TEST(Cloud, ARefusedLaunchIsNotRepeatedAtOnce) {
  expect(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    refused p-00001 UnauthorizedOperation
    => claim p-00001 Failed
    => withdrawn w/1
    tick 179
    tick 1
    => launch p-00002 a8 on-demand
    => promise w/1 by=420 p-00002
  )");
}

// ---- promises ----

TEST(Promise, IsRenewedForTheNextAttemptAndWhileMachinesAreLate) {
  expect(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    want w/2 1x8
    => promise w/2 by=240 p-00001
    tick 250
    => promise w/2 by=310 p-00001
    want w/3 1x8
    => promise w/3 by=310 p-00001
  )");
}

TEST(Promise, LapsesWhereTheDemandHasGone) {
  expect(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    unwant w
    -- it is back before that: its machine is still for it
    want w/2 1x8
    => promise w/2 by=240 p-00001
    unwant w
    tick 240
    => withdrawn w/2
  )");
}

TEST(Promise, MachinesThatCameInVainAreNotLaunchedAgainAtOnce) {
  Script script;
  EXPECT_EQ(script.run(R"(
    pool p types=a8 after=60
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    -- empty for longer than its pool likes, but it is for w
    tick 119
    tick 1
    => withdrawn w/1
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate p-00001 i-1
    cloud i-1 stopped=120
    => claim p-00001 Gone i-1 stopped=120
    tick 599
  )"), "");
  EXPECT_EQ(script.engine().explain(script.now()).at(0),
            "w/1 waits 719 s: its machines came and placement did not use them (1 time(s)); no others before 1970-01-12T13:58:40Z");
  EXPECT_EQ(script.run(R"(
    tick 1
    => launch p-00002 a8 on-demand
    => promise w/1 by=960 p-00002
    up p-00002 i-2 n2
    tick 120
    => withdrawn w/1
    => drain n2 Empty
    -- twenty minutes now; a gang that ends takes what was learned with it
    tick 600
    unwant w
    want w/2 1x8
    => launch p-00003 a8 on-demand
    => promise w/2 by=1680 p-00003
  )"), "");
}

TEST(Promise, MachinesThatOthersTookAreLaunchedAgain) {
  expect(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    tick 120
    => launch p-00002 a8 on-demand
    => promise w/1 by=360 p-00002
  )");
}

// ---- spot notices ----

constexpr const char* kGang = R"(
    cloud i-1 type=h8 node=n1 spot
    cloud i-2 type=h8 node=n2 spot
    node n1 i-1 pods=2 | node n2 i-2 pods=1
    workload w saves
    runs w/1 n1 n2
)";

TEST(Notice, OrdersEveryNodeOfTheGangAndEvictsWithTheLeastStep) {
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    -- again is no news, and neither is an ack of a stranger
    notice n1 60
    ack w/1/n1 n9 step=1
    ack w/1/n1 n1 step=70 uri=s3://70
    ack w/1/n1 n1 step=10 uri=s3://10
    ack w/1/n1 n2 step=60 uri=s3://60
    => order w/1/n1 Acked step=60 uri=s3://60
    => evict w/1 from n1 by=110 step=60 uri=s3://60
    ack w/1/n1 n2 step=99 uri=s3://99
    released w/1
    => evict-over w/1
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
    => order w/1/n1 Late step=0 uri=
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
    -- whether it can save is for its own topic to say
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

TEST(Notice, AnAttemptThatEndsFirstNeedsNoEviction) {
  expect(std::string(kGang) + R"(
    notice n1 120
    => order w/1/n1 to n1 n2 by=110
    => drain n1 SpotInterruption
    released w/1
    => order w/1/n1 Late step=0 uri=
  )");
}

TEST(Notice, AMarkOnANodeThatNobodyKnowsIsForgotten) {
  Script script;
  EXPECT_EQ(script.run(R"(
    notice n1 1200
    health n2 broken
    tick 900
  )"), "");
  EXPECT_EQ(script.engine().tables().nodes.size(), 1U);
  EXPECT_EQ(script.run("tick 300"), "");
  EXPECT_EQ(script.engine().tables().nodes.size(), 0U);
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

// ---- machines that go ----

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

TEST(Retire, APoolThatNeverConsolidatesKeepsItsMachinesUntilItIsGone) {
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

TEST(Retire, AFirstMachineWaitsForTheRestOfItsGang) {
  expect(R"(
    pool p types=a8
    want w/1 2x8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise w/1 by=240 p-00001 p-00002
    up p-00001 i-1 n1
    tick 200
    up p-00002 i-2 n2
    tick 100
    => promise w/1 by=360 p-00001 p-00002
    unwant w
    -- placement took the one, and left the other
    => drain n1 Empty
    => drain n2 Empty
  )");
}

}  // namespace
}  // namespace qm::autoscaler::testing
