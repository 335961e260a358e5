// Ready instances that placement gave to other pods, or did not use.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace use_cases_test {

TEST(Use, RoomThatPlacementDidNotUseIsNotCountedAgain) {
  expect(R"(
    pool p types=h8 after=3600
    want w/1 2x8 room=1
    => launch p-00001 h8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=0
    -- placement did not use the room: after the pause the whole gang gets instances
    tick 120
    => withdrawn w/1
    want w/1 2x8 room=1
    tick 600
    => launch p-00002 h8 on-demand
    => launch p-00003 h8 on-demand
    => promise w/1 by=960 p-00002 p-00003
  )");
}

TEST(Use, AnInstanceThatOtherPodsTookIsLaunchedAgainSoon) {
  expect(R"(
    pool p types=h8
    want w/1 1x8
    => launch p-00001 h8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=4
    tick 9
    tick 1
    => launch p-00002 h8 on-demand
    => promise w/1 by=250 p-00002
  )");
  // Of a gang only the instance that was taken; one of them is still starting at first.
  expect(R"(
    pool p types=h8
    want w/1 2x8
    => launch p-00001 h8 on-demand
    => launch p-00002 h8 on-demand
    => promise w/1 by=240 p-00001 p-00002
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    tick 30
    up p-00002 i-2 n2
    tick 9
    tick 1
    => launch p-00003 h8 on-demand
    => promise w/1 by=280 p-00002 p-00003
  )");
  // The pods on the instance of a running gang may be its own.
  expect(R"(
    pool p types=h8
    want w/1 1x8 runs
    => launch p-00001 h8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
    tick 119
  )");
}

}  // namespace use_cases_test
}  // namespace qm::autoscaler::testing
