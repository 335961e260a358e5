// Launches of gangs with several nodes, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace gang_cases_test {

// The report of the field: "gang of 4, fourth launch refused, another zone has 4".
TEST(GangLaunch, OfFourWhoseFourthIsRefusedIsRolledBackAndLaunchedInAnotherZone) {
  expect(R"(
    pool p types=a8 zones=z1,z2
    want w/1 4x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => launch p-00003 a8 on-demand z1
    => launch p-00004 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002 p-00003 p-00004
    launched p-00001 i-1 | launched p-00002 i-2 | launched p-00003 i-3
    tick 5
    ice p-00004
    => claim p-00004 Failed
    => launch p-00005 a8 on-demand z2
    => launch p-00006 a8 on-demand z2
    => launch p-00007 a8 on-demand z2
    => launch p-00008 a8 on-demand z2
    => promise w/1 by=245 p-00005 p-00006 p-00007 p-00008
    => terminate p-00001 i-1
    => terminate p-00002 i-2
    => terminate p-00003 i-3
  )");
}

TEST(GangLaunch, WithoutAnotherOfferingNothingRemains) {
  expect(R"(
    pool p types=a8 zones=z1
    want w/1 3x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => launch p-00003 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002 p-00003
    launched p-00001 i-1
    ice p-00003
    => claim p-00002 Failed
    => claim p-00003 Failed
    => withdrawn w/1
    => terminate p-00001 i-1
    => terminate p-00002
    -- an instance of a claim that was not awaited any more
    launched p-00002 i-2
    => terminate p-00002 i-2
    -- a termination that had no effect is requested again
    terminate-refused p-00001 protected
    tick 20
    => terminate p-00001 i-1
    => terminate p-00002 i-2
    cloud i-1 claim=p-00001 pool=p type=a8 stopped=20 | cloud i-2 claim=p-00002 pool=p type=a8 stopped=20
    => claim p-00001 Gone i-1 stopped=20
    => claim p-00002 Gone i-2 stopped=20
  )");
}

TEST(GangLaunch, MembersWithoutAnInstanceAreNotAwaitedForLong) {
  expect(R"(
    pool p types=a8 zones=z1,z2
    want w/1 2x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    -- without any instance the launch is only late
    tick 200
    launched p-00001 i-1
    tick 39
    tick 1
    => claim p-00002 Failed
    => launch p-00003 a8 on-demand z2
    => launch p-00004 a8 on-demand z2
    => promise w/1 by=480 p-00003 p-00004
    => terminate p-00001 i-1
  )");
}

TEST(GangLaunch, ALostMemberIsReplacedInTheZoneOfTheOthers) {
  expect(R"(
    pool p types=a8 zones=z1,z2
    want w/1 2x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    up p-00001 i-1 n1
    up p-00002 i-2 n2
    cloud i-2 stopped=0
    => claim p-00002 Gone i-2 stopped=0
    => launch p-00003 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00003
    -- there is none: the whole gang elsewhere
    ice p-00003
    => claim p-00003 Failed
    => launch p-00004 a8 on-demand z2
    => launch p-00005 a8 on-demand z2
    => promise w/1 by=240 p-00004 p-00005
    => drain n1 GangRolledBack
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
  // A pod was bound to its node in between: it stays.
  expect(R"(
    pool p types=a8 zones=z1
    want w/1 2x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    up p-00001 i-1 n1
    ice p-00002
    => claim p-00002 Failed
    => withdrawn w/1
    => drain n1 GangRolledBack
    node n1 i-1 pods=1 cordoned
    => lifted n1
  )");
}

TEST(GangLaunch, AReplacementIsNotAwaitedForLongEither) {
  expect(R"(
    pool p types=a8 zones=z1
    want w/1 2x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    up p-00001 i-1 n1
    up p-00002 i-2 n2
    cloud i-2 stopped=0
    => claim p-00002 Gone i-2 stopped=0
    => launch p-00003 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00003
    tick 40
    => claim p-00003 Failed
    => withdrawn w/1
    => drain n1 GangRolledBack
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
}

TEST(GangLaunch, IsNotSplitOverZonesByCapacityThatStarts) {
  expect(R"(
    pool p types=h8 zones=z1,z2
    pool q types=h8 zones=z2 weight=5 nodes=1
    want a/1 1x4
    => launch q-00001 h8 on-demand z2
    => promise a/1 by=240 q-00001
    want b/1 1x4 select=topology.kubernetes.io/zone=z1
    => launch p-00002 h8 on-demand z1
    => promise b/1 by=240 p-00002
    -- four GPUs are free in each zone, and it needs eight in one
    want c/1 2x4
    => launch p-00003 h8 on-demand z1
    => promise c/1 by=240 p-00003
    -- one node for each zone: as many pods as there is place for
    want d/1 2x4 runs
    => promise d/1 by=240 p-00002 q-00001
  )");
}

TEST(GangLaunch, AnUnknownRefusalDelaysOnlyItsOwnGang) {
  Script script;
  EXPECT_EQ(script.run(R"(
    pool p types=a8 zones=z1
    want w/1 2x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    unknown p-00001 SomethingNew | unknown p-00002 SomethingNew
    => claim p-00001 Failed
    => claim p-00002 Failed
    => withdrawn w/1
    -- another gang gets the same offering at once
    want v/1 2x8
    => launch p-00003 a8 on-demand z1
    => launch p-00004 a8 on-demand z1
    => promise v/1 by=240 p-00003 p-00004
    tick 59
  )"),
            "");
  EXPECT_EQ(script.engine().explain(script.now()).at(1),
            "w/1 is pending for 59 s: its last launch was refused (SomethingNew); it is repeated after "
            "1970-01-12T13:47:40Z");
  EXPECT_EQ(script.run(R"(
    tick 1
    => launch p-00005 a8 on-demand z1
    => launch p-00006 a8 on-demand z1
    => promise w/1 by=300 p-00005 p-00006
    unknown p-00005 SomethingNew | unknown p-00006 SomethingNew
    => claim p-00005 Failed
    => claim p-00006 Failed
    => withdrawn w/1
    -- two minutes now
    tick 119
    tick 1
    => launch p-00007 a8 on-demand z1
    => launch p-00008 a8 on-demand z1
    => promise w/1 by=420 p-00007 p-00008
  )"),
            "");
}

TEST(GangLaunch, AReplicaWithAnUnknownRefusalIsNotReplacedAtOnce) {
  expect(R"(
    pool s types=a8 replicas=2
    => launch s-00001 a8 on-demand
    => launch s-00002 a8 on-demand
    unknown s-00001 SomethingNew
    => claim s-00001 Failed
    tick 60
    => launch s-00003 a8 on-demand
  )");
}

TEST(GangLaunch, InstancesGetTheirClaimsWhenTheLaunchHasEnded) {
  expect(R"(
    show claims
    pool p types=a8 zones=z1
    want w/1 2x8
    => claim p-00001 Requested
    => claim p-00002 Requested
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    cloud i-1 launch=p-00001x2 pool=p type=a8 zone=z1 | cloud i-2 launch=p-00001x2 pool=p type=a8 zone=z1
    launched p-00001 i-2 | launched p-00002 i-1
    => claim p-00001 Launched i-2
    => claim p-00002 Launched i-1
  )");
  // The list of the cloud does not change any more, so that its first appearance has the name of its node.
  expect(R"(
    show claims
    pool p types=a8 zones=z1
    want w/1 2x8
    => claim p-00001 Requested
    => claim p-00002 Requested
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    cloud i-1 launch=p-00001x2 claim=p-00001 pool=p type=a8 zone=z1 node=n1
    cloud i-2 launch=p-00001x2 claim=p-00002 pool=p type=a8 zone=z1 node=n2
    node n1 i-1 | node n2 i-2
    launched p-00001 i-1 | launched p-00002 i-2
    => claim p-00001 Ready i-1
    => claim p-00002 Ready i-2
  )");
  // The launch has failed, and an instance is still there.
  expect(R"(
    pool p types=a8 zones=z1
    want w/1 2x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    cloud i-1 launch=p-00001x2 pool=p type=a8 zone=z1
    ice p-00001 | ice p-00002
    => claim p-00001 Failed
    => claim p-00002 Failed
    => withdrawn w/1
    => terminate i-1 i-1
  )");
}

// Of the next requests: another zone, then another type, then another market.
TEST(GangLaunch, ARefusalHoldsWhatItConcerns) {
  const std::string pool = R"(
    pool p types=a8,h8 zones=z1,z2
    want w/1 1x8
    => launch p-00001 a8 on-demand z1
    => promise w/1 by=240 p-00001
  )";
  const auto next = [](const std::string& offering) {
    return fmt::format("=> claim p-00001 Failed\n=> launch p-00002 {}\n=> promise w/1 by=240 p-00002", offering);
  };
  expect(pool + "ice p-00001\n" + next("a8 on-demand z2"));
  expect(pool + "quota p-00001 type\n" + next("h8 on-demand z1"));
  expect(pool + "quota p-00001 zone\n" + next("a8 on-demand z2"));
  expect(pool + "quota p-00001 account\n=> claim p-00001 Failed\n=> withdrawn w/1");
  expect(R"(
    pool p types=a8 zones=z1,z2 markets=od,spot
    price a8 z1 5
    => price a8 z1 5.00
    price a8 z2 6
    => price a8 z2 6.00
    want w/1 1x8
    => launch p-00001 a8 spot z1
    => promise w/1 by=240 p-00001
    quota p-00001 market
    => claim p-00001 Failed
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00002
    -- a launch of the market ends it
    tick 180
    want v/1 1x8
    => launch p-00003 a8 spot z1
    => promise v/1 by=420 p-00003
    launched p-00003 i-3
    want u/1 1x8
    => launch p-00004 a8 spot z1
    => promise u/1 by=420 p-00004
  )");
}

TEST(GangLaunch, AtOnePriceAZoneThatRefusedIsTriedAfterTheOthers) {
  expect(R"(
    pool p types=a8 zones=z1,z2
    want w/1 2x8
    => launch p-00001 a8 on-demand z1
    => launch p-00002 a8 on-demand z1
    => promise w/1 by=240 p-00001 p-00002
    ice p-00001 | ice p-00002
    => claim p-00001 Failed
    => claim p-00002 Failed
    => launch p-00003 a8 on-demand z2
    => launch p-00004 a8 on-demand z2
    => promise w/1 by=240 p-00003 p-00004
    tick 180
    -- z1 is not held any more, but z2 has not refused
    want v/1 1x8
    => launch p-00005 a8 on-demand z2
    => promise v/1 by=420 p-00005
  )");
}

}  // namespace gang_cases_test
}  // namespace qm::autoscaler::testing
