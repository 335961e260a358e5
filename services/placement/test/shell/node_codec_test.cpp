// Tolerations of nodes that are not ready, the requeue list, overridden verdicts and the list of
// nodes: as messages and rows.
#include "little_kube.hpp"
#include "messages.hpp"
#include "qm/placement/shell.hpp"
#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::placement {
namespace node_codec_test {

namespace pb = quartermaster::v1;
using namespace testing;
using service::Source;

TEST(Decode, NotReadyTolerationOfAPod) {
  const auto stays = [](const std::string& tolerations) {
    auto pod = make_pod("p", "w", 1, 0, 1);
    pod.set("spec").set("tolerations", Json::parse(tolerations).value());
    const auto facts = only<PodUpdated>(watch_of("pod", pod)).pod;
    return std::pair(facts.not_ready_s, facts.unreachable_s);
  };
  constexpr const char* kNotReady = R"({"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute")";
  EXPECT_EQ(stays("[]"), std::pair(std::int64_t{0}, std::int64_t{0})) << "the taint manager deletes it at once";
  EXPECT_EQ(stays(fmt::format(R"([{},"tolerationSeconds":30}}])", kNotReady)).first, 30);
  EXPECT_EQ(stays(fmt::format(R"([{},"tolerationSeconds":30}}])", kNotReady)).second, 0);
  EXPECT_EQ(stays(fmt::format("[{}}}]", kNotReady)).first, -1) << "without seconds: for ever";
  EXPECT_EQ(stays(R"([{"operator":"Exists"}])"), std::pair(std::int64_t{-1}, std::int64_t{-1})) << "of every taint";
  EXPECT_EQ(stays(R"([{"operator":"Exists","effect":"NoSchedule"}])").first, 0) << "another effect";
  EXPECT_EQ(stays(fmt::format(R"([{0},"tolerationSeconds":30}},{0},"tolerationSeconds":20}},{0}}}])", kNotReady)).first,
            20)
      << "the least counts";
  EXPECT_EQ(stays(fmt::format(R"([{},"tolerationSeconds":-5}}])", kNotReady)).first, 0);
  EXPECT_EQ(stays(fmt::format(R"([{},"tolerationSeconds":9000000000000000000}}])", kNotReady)).first, -1);
}

TEST(Rows, RequeueListIsPublishedAndRoundTrips) {
  Stepped stepped;
  auto cordoned = make_node("a", 8);
  cordoned.set("spec").set("unschedulable", true);
  stepped.step({watch_of("node", cordoned), watch_of("node.synced", Json::array({"a"})),
                watch_of("pod.synced", Json::array()), latest(workload_event("w", 1, pb::QUOTA_RESERVED, 1, 8))});
  auto pending = workload_event("w", 2, pb::PENDING, 1, 8);
  pending.set_reason("InsufficientCapacity");
  stepped.step({latest(pending)});
  const auto effects = stepped.step({watch_of("node", make_node("a", 8))});
  const auto requeue = std::ranges::find_if(effects.events, [](const auto& one) { return one.key == "requeue"; });
  ASSERT_NE(requeue, effects.events.end());
  pb::PlacementEvent event;
  ASSERT_TRUE(event.ParseFromString(requeue->payload));
  ASSERT_EQ(event.requeue().items_size(), 1);
  EXPECT_EQ(event.requeue().items(0).uid(), "w");
  EXPECT_EQ(event.requeue().items(0).attempt(), 2);
  EXPECT_EQ(event.requeue().items(0).since_us(), micros(stepped.now));

  Shell fresh(std::make_unique<Engine>(), Codec());
  ASSERT_TRUE(fresh.load(stepped.stored()));
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
  fresh.engine().audit();
  EXPECT_EQ(fresh.engine().requeue().size(), 1U);
}

TEST(Rows, OverriddenVerdictRoundTrips) {
  Stepped stepped;
  stepped.open();
  pb::GpuEvent verdict;
  verdict.mutable_health()->set_node("a");
  verdict.mutable_health()->set_action(pb::HEALTH_CORDON);
  verdict.mutable_health()->set_gpu_uuid("GPU-0");
  auto* fault = verdict.mutable_health()->add_gpus();
  fault->set_action(pb::HEALTH_CORDON);
  fault->set_reason("XID 79");
  fault->set_at_us(7);
  stepped.step({input_of(Source::kBus, "qm.gpu", verdict.SerializeAsString())});
  auto cordoned = make_node("a", 8);
  cordoned.set("spec").set("unschedulable", true);
  cordoned.set("metadata").set("annotations").set("quartermaster.dev/cordoned-by", "health");
  stepped.step({watch_of("node", cordoned)});
  cordoned.set("spec").set("unschedulable", false);
  stepped.step({watch_of("node", cordoned)});

  Shell fresh(std::make_unique<Engine>(), Codec());
  ASSERT_TRUE(fresh.load(stepped.stored()));
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
  fresh.engine().audit();
  const NodeCordonCauses& mark = *fresh.engine().tables().cordon_causes.find(NodeName("a"));
  ASSERT_TRUE(mark.overridden);
  EXPECT_EQ(mark.overridden, mark.health);
  EXPECT_EQ(mark.health->gpus.at(0).at, from_micros(7));
  EXPECT_FALSE(mark.verdict());
}

TEST(Api, ListNodesWithTheirDevices) {
  Stepped stepped;
  stepped.open();
  stepped.step({latest(workload_event("w", 1, pb::QUOTA_RESERVED, 1, 2))});
  const Engine& engine = engine_of(stepped.shell);
  pb::ListNodesRequest request;
  request.set_page_size(1);
  auto page = list_nodes(engine, request);
  ASSERT_EQ(page->nodes_size(), 1);
  EXPECT_EQ(page->total(), 2);
  EXPECT_EQ(page->nodes(0).node().node(), "a");
  ASSERT_EQ(page->nodes(0).devices_size(), 8);
  EXPECT_EQ(page->nodes(0).devices(1).used_milli(), 1000);
  EXPECT_EQ(page->nodes(0).devices(1).pods(0), "w/1");
  EXPECT_EQ(page->nodes(0).devices(2).used_milli(), 0);
  EXPECT_EQ(page->next_page_token(), "a");
  request.set_page_token("a");
  page = list_nodes(engine, request);
  EXPECT_EQ(page->nodes(0).node().node(), "b");
  EXPECT_EQ(page->next_page_token(), "");
  request.Clear();
  request.set_state("cordoned");
  EXPECT_EQ(list_nodes(engine, request)->total(), 0);
  for (const auto* ready : {"ready", "Ready", "NODE_READY"}) {
    request.set_state(ready);
    EXPECT_EQ(list_nodes(engine, request)->total(), 2) << ready;
  }
  request.set_state("purple");
  EXPECT_EQ(list_nodes(engine, request).error().field, "state");
}

}  // namespace node_codec_test
}  // namespace qm::placement
