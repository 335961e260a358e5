// The results of launches and promises, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace cloud_cases_test {

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
  Script script;
  EXPECT_EQ(script.run(R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    ice p-00001
    => claim p-00001 Failed
    => withdrawn w/1
  )"),
            "");
  EXPECT_EQ(
      script.engine().explain(script.now()).at(0),
      "w/1 is pending for 0 s: the provider has no capacity of the allowed instance types now, or refuses to launch them");
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

TEST(Cloud, AGangWithARefusedMemberIsLaunchedAgainAsAWhole) {
  expect(R"(
    pool p types=a8,h8
    want w/1 3x8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => launch p-00003 a8 on-demand
    => promise w/1 by=240 p-00001 p-00002 p-00003
    up p-00001 i-1 n1
    ice p-00003
    => claim p-00002 Failed
    => claim p-00003 Failed
    => launch p-00004 h8 on-demand
    => launch p-00005 h8 on-demand
    => launch p-00006 h8 on-demand
    => promise w/1 by=240 p-00004 p-00005 p-00006
    => drain n1 GangRolledBack
    => terminate p-00002
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

TEST(Cloud, TheNodeMayBeObservedBeforeItsInstance) {
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

TEST(Cloud, AReusedNodeNameIsAnotherInstance) {
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

TEST(Cloud, AnInstanceWithoutAClaimIsAdoptedAndTerminatedWhenEmpty) {
  expect(R"(
    pool p types=a8 after=60
    -- two instances of one claim, and one with an unknown claim
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
    -- the cloud still lists it: no event
    cloud i-1 stopped=90000
  )");
}

TEST(Cloud, AStoppedInstanceIsPublishedWithItsInstant) {
  expect(kLaunched + std::string(R"(
    up p-00001 i-1 n1
    tick 100
    cloud i-1 stopped=97
    => claim p-00001 Gone i-1 stopped=97
    => launch p-00002 a8 on-demand
    => promise w/1 by=340 p-00002
  )"));
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

TEST(Cloud, AnInstanceThatNeverRegistersIsTerminated) {
  expect(kLaunched + std::string(R"(
    launched p-00001 i-1
    -- it is late, and the promise with it
    tick 240
    => promise w/1 by=300 p-00001
    unwant w
    tick 660
    => withdrawn w/1
    => terminate p-00001 i-1
    terminate-refused p-00001 protected
    -- it had no effect: requested again
    tick 900
    => terminate p-00001 i-1
  )"));
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
  expect(kLaunched + std::string(R"(
    refused p-00001 UnauthorizedOperation
    => claim p-00001 Failed
    => withdrawn w/1
    tick 179
    tick 1
    => launch p-00002 a8 on-demand
    => promise w/1 by=420 p-00002
  )"));
}

// ---- promises ----

TEST(Promise, IsRenewedForTheNextAttemptAndWhileInstancesAreLate) {
  expect(kLaunched + std::string(R"(
    want w/2 1x8
    => promise w/2 by=240 p-00001
    tick 250
    => promise w/2 by=310 p-00001
    want w/3 1x8
    => promise w/3 by=310 p-00001
  )"));
}

TEST(Promise, LapsesWhereTheDemandHasGone) {
  expect(kLaunched + std::string(R"(
    unwant w
    -- it is pending again before that: its instance is still for it
    want w/2 1x8
    => promise w/2 by=240 p-00001
    unwant w
    tick 240
    => withdrawn w/2
  )"));
}

TEST(Promise, UnusedInstancesAreNotLaunchedAgainAtOnce) {
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
  )"),
            "");
  EXPECT_EQ(
      script.engine().explain(script.now()).at(0),
      "w/1 is pending for 719 s: instances were launched for it 1 time(s), and placement did not use them; no others are launched before 1970-01-12T13:58:40Z");
  EXPECT_EQ(script.run(R"(
    tick 1
    => launch p-00002 a8 on-demand
    => promise w/1 by=960 p-00002
    up p-00002 i-2 n2
    tick 120
    => withdrawn w/1
    => drain n2 Empty
    -- twenty minutes now; the end of a gang deletes what was learned
    tick 600
    unwant w
    want w/2 1x8
    => launch p-00003 a8 on-demand
    => promise w/2 by=1680 p-00003
  )"),
            "");
}

TEST(Promise, InstancesThatOtherGangsUsedAreLaunchedAgain) {
  expect(kRunning + std::string(R"(
    tick 120
    => launch p-00002 a8 on-demand
    => promise w/1 by=360 p-00002
  )"));
}

}  // namespace cloud_cases_test
}  // namespace qm::autoscaler::testing
