// Headroom of CapacityBuffers, and NodeOverlays, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace headroom_cases_test {

// The buffer is launched without demand, stays although it is empty, and is refilled after it was used.
TEST(Headroom, ABufferIsKeptFreeAndRefilled) {
  expect(R"(
    pool p types=a8 after=60
    buffer ml/warm 8x1
    => launch p-00001 a8 on-demand
    up p-00001 i-1 n1
    tick 9000
    -- a burst uses it
    node n1 i-1 pods=8
    => launch p-00002 a8 on-demand
    up p-00002 i-2 n2
    tick 600
    -- after the burst one of both is enough
    node n1 i-1
    => drain n2 Empty
    tick 30
    buffer-gone ml/warm
    tick 30
    => drain n1 Empty
  )");
}

TEST(Headroom, PendingGangsComeFirst) {
  expect(R"(
    pool p types=a8 gpus=16
    want w/1 2x8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise w/1 by=240 p-00001 p-00002
    buffer ml/warm 1x8
    tick 60
  )");
  Script script;
  ASSERT_EQ(script.run(R"(
    pool p types=g1 gpus=1
    buffer ml/warm 2x1
    => launch p-00001 g1 on-demand
  )"),
            "");
  const auto lines = script.engine().explain(script.now());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(
      lines[0],
      "CapacityBuffer ml/warm has capacity for 1 of 2 pods (1 node(s) at 1.00 USD/h): NodePool p has the limit nvidia.com/gpu 1: 1 in use, 1 "
      "more needed; raise spec.limits of the NodePool");
}

TEST(Headroom, EachNodeServesOneBuffer) {
  expect(R"(
    pool p types=g1
    buffer ml/a 1x1
    => launch p-00001 g1 on-demand
    buffer ml/b 1x1
    => launch p-00002 g1 on-demand
    buffer ml/a 2x1
    => launch p-00003 g1 on-demand
  )");
}

TEST(Overlay, APriceChangesTheCheapestOffering) {
  expect(R"(
    pool p types=g1,g4
    want w/1 1x1
    => launch p-00001 g1 on-demand
    => promise w/1 by=240 p-00001
    overlay cheap adjust=-90% node.kubernetes.io/instance-type=g4
    want v/1 1x1
    => launch p-00002 g4 on-demand
    => promise v/1 by=240 p-00002
    overlay-gone cheap
    want u/1 3x1 prio=1
    => promise u/1 by=240 p-00002
  )");
}

TEST(Overlay, ExtendedResourcesAreFoundOnNodesThatHaveThemByAnOverlay) {
  expect(R"(
    pool p types=c2
    want w/1 1x0 ext=example.com/fpga=1
    overlay fpga cap=example.com/fpga/2 node.kubernetes.io/instance-type=c2
    => launch p-00001 c2 on-demand
    => promise w/1 by=240 p-00001
  )");
}

}  // namespace headroom_cases_test
}  // namespace qm::autoscaler::testing
