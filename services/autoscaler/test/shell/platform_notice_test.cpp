// Notices that other programs of a platform write on a Node, such as GKE's termination handler.
#include "qm/autoscaler/nodes/node_watch.hpp"
#include "qm/autoscaler/shell.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace platform_notice_test {

using namespace std::chrono_literals;

/// A spot node of GKE with two taints: its own, and another one.
Json gke_node(const char* taint, const char* ready, const char* message) {
  Json node = *Json::parse(R"({"metadata":{"name":"gke-gpu-pool-1","labels":{"cloud.google.com/gke-spot":"true",
      "cloud.google.com/gke-accelerator":"nvidia-tesla-a100"}},
    "spec":{"providerID":"gce://project/us-central1-a/gke-gpu-pool-1",
      "taints":[{"key":"nvidia.com/gpu","value":"present","effect":"NoSchedule"}]},
    "status":{"conditions":[{"type":"Ready"}]}})");
  if (*taint != 0) {
    Json taints = node["spec"]["taints"];
    taints.push_back(Json::object({{"key", taint}, {"effect", "NoSchedule"}}));
    node.set("spec").set("taints", std::move(taints));
  }
  node.set("status").set(
      "conditions", Json::array({Json::object(
                        {{"type", "Ready"}, {"status", ready}, {"reason", "KubeletNotReady"}, {"message", message}})}));
  return node;
}

// S-155: any sign of the platform that it takes the node.
TEST(PlatformNotice, IsReadFromTaintsAndFromTheConditionOfAKubeletThatShutsDown) {
  EXPECT_EQ(platform_notice_of(gke_node("", "True", "kubelet is posting ready status")), std::nullopt);
  EXPECT_EQ(platform_notice_of(gke_node("", "False", "container runtime is down")), std::nullopt) << "a failure";
  const PlatformNotice spot{NoticeKind::kSpot, 30s};
  EXPECT_EQ(platform_notice_of(gke_node("cloud.google.com/impending-node-termination", "True", "")), spot);
  EXPECT_EQ(platform_notice_of(gke_node("", "False", "node is shutting down")), spot);
  EXPECT_EQ(platform_notice_of(gke_node("aws-node-termination-handler/spot-itn", "True", "")),
            (PlatformNotice{NoticeKind::kSpot, 2min}));
  EXPECT_EQ(platform_notice_of(gke_node("aws-node-termination-handler/asg-lifecycle-termination", "True", "")),
            (PlatformNotice{NoticeKind::kLifecycle, 2min}));
  EXPECT_EQ(platform_notice_of(gke_node("aws-node-termination-handler/rebalance-recommendation", "True", "")),
            (PlatformNotice{NoticeKind::kRebalance, 0s}));
}

// S-155: the sign leads to a checkpoint order and a drain in one step, and to the eviction after the checkpoint.
TEST(PlatformNotice, LeadsToACheckpointThenToTheEviction) {
  const Instant now = from_micros(1'800'000'000'000'000);
  Engine engine(catalog_types());
  const WorkloadUid gang("gang");
  const NodeName node("gke-gpu-pool-1");
  (void)engine.step(std::vector<Command>{NodeUpdated{node, true, false, false, 1, {}, {}},
                                         WorkloadUpdated{gang, 1, true, false, "ml", "Job", "train"},
                                         AssignmentUpdated{{gang, 1}, true, {node}}},
                    now);
  engine.commit();
  const auto seen = [&](Instant at, bool over) {
    service::Input in;
    in.source = service::Source::kWatch;
    in.name = "cloud_notices";
    in.bytes = fmt::format(R"([{{"node":"gke-gpu-pool-1","kind":0,"at_us":{},"over":{}}}])", micros(at), over);
    const auto commands = Codec{}.decode(in);
    EXPECT_TRUE(commands) << (commands ? "" : commands.error().to_string());
    const Output out = engine.step(*commands, now);
    engine.commit();
    return out;
  };
  const Output noticed = seen(now + 30s, false);
  ASSERT_EQ(noticed.orders.size(), 1U);
  EXPECT_EQ(noticed.orders[0].row.save.deadline, now + 20s);
  ASSERT_EQ(noticed.drains.size(), 1U);
  EXPECT_EQ(noticed.drains[0].reason, "SpotInterruption");
  EXPECT_TRUE(noticed.evictions.empty()) << "the gang saves first";
  const auto& order = noticed.orders[0];
  const StepSave save{50, 0, 1, "gs://ckpt/50", 0, 1s};
  const Output saved =
      engine.step(std::vector<Command>{AckUpdated{order.id, {node, order.row.save.fence, 1, {save}, {}}}}, now + 1s);
  engine.commit();
  ASSERT_EQ(saved.evictions.size(), 1U);
  EXPECT_EQ(saved.evictions[0].resume_uri, "gs://ckpt/50");
}

TEST(PlatformNotice, ASignThatIsGoneEndsTheDrain) {
  const Instant now = from_micros(1'800'000'000'000'000);
  Engine engine(catalog_types());
  const NodeName node("n1");
  (void)engine.step(std::vector<Command>{NodeUpdated{node, true, false, false, 0, now, {}}}, now);
  engine.commit();
  EXPECT_EQ(engine.step(std::vector<Command>{SpotNoticeUpdated{node, now + 30s}}, now).drains.size(), 1U);
  engine.commit();
  const Output over = engine.step(std::vector<Command>{SpotNoticeUpdated{node, {}, true}}, now);
  engine.commit();
  ASSERT_EQ(over.drains.size(), 1U);
  EXPECT_TRUE(over.drains[0].lifted);
}

}  // namespace platform_notice_test
}  // namespace qm::autoscaler
