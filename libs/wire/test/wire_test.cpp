#include "qm/wire/model.hpp"

#include <gtest/gtest.h>

namespace qm::wire {
namespace wire_test {

TEST(Wire, AWorkloadComesBackAsItWent) {
  WorkloadSpec spec;
  spec.uid = WorkloadUid("u-1");
  spec.ns = Namespace("team-a");
  spec.name = "train";
  spec.queue = "jobs";
  spec.priority = 7;
  spec.priority_class = "high";
  spec.team = Team("a");
  spec.submitted = from_micros(123);
  spec.expected_runtime = std::chrono::seconds(60);
  spec.labels = {{"x", "1"}};
  spec.checkpoints = true;
  spec.checkpoint = {std::chrono::minutes(10), 1000, 2, std::chrono::seconds(40), "s3://bucket/run"};
  PodShape shape;
  shape.cpu_milli = 500;
  shape.memory_bytes = 1 << 30;
  shape.gpu = {2, 0, "", 0, {"A", "B"}};
  shape.node_selector = {{"zone", "a"}};
  shape.tolerations = {{"k", "Exists", "", "NoSchedule"}};
  shape.extended = {{"efa", 4}};
  spec.pod_sets = {{"main", 4, 2, shape, {"zone", "", "rack", 2, "all", true}, "{}"}};
  EXPECT_EQ(from_pb(to_pb(spec)), spec);
  const StepSave save{500, 2, 8, "s3://bucket/run/500", 100, std::chrono::seconds(3)};
  EXPECT_EQ(from_pb(to_pb(save)), save);
  const DeviceRef device{NodeName("n"), 3, DeviceUuid("GPU-1"), 500, "1g.10gb"};
  EXPECT_EQ(from_pb(to_pb(device)), device);
  const Taint taint{"k", "v", "NoExecute"};
  EXPECT_EQ(from_pb(to_pb(taint)), taint);
  const NodeReport report{{{"l", "1"}}, {{"a", "2"}}, {"own/"}};
  const auto message = to_pb(NodeName("n"), report, from_micros(5));
  EXPECT_EQ(from_pb(message), report);
  EXPECT_EQ(message.node(), "n");
  EXPECT_EQ(message.at_us(), 5);
}

}  // namespace wire_test
}  // namespace qm::wire
