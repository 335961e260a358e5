// Messages to commands, outputs to events and intents, rows and back.
#include "qm/telemetry/shell.hpp"
#include "qm/testing/state.hpp"
#include "quartermaster/v1/events.pb.h"
#include "test/shell/little_service.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::telemetry::testing {
namespace codec_test {

service::Input bus_input(const std::string& topic, const std::string& key, const std::string& bytes,
                         bool tombstone = false) {
  service::Input in;
  in.source = service::Source::kBus;
  in.name = topic;
  in.key = key;
  in.bytes = bytes;
  in.tombstone = tombstone;
  return in;
}

template <class C>
C only(const Result<std::vector<Command>>& commands) {
  EXPECT_TRUE(commands) << commands.error().to_string();
  EXPECT_EQ(commands->size(), 1U);
  return std::get<C>(commands->at(0));
}

/// A shell that stores its rows as a store would.
struct Kept {
  std::unique_ptr<Engine> owned = std::make_unique<Engine>();
  Engine& engine = *owned;
  Shell shell{std::move(owned), Codec{}};
  std::map<std::pair<std::string, std::string>, std::string> rows;
  Instant now = from_micros(1'000'000'000'000);

  service::Effects step(const std::vector<service::Input>& inputs) {
    service::Effects out;
    std::vector<std::pair<std::size_t, Error>> poison;
    shell.step(inputs, now, out, poison);
    EXPECT_TRUE(poison.empty());
    for (const auto& row : out.state) {
      if (row.value) {
        rows[{row.kind, row.key}] = *row.value;
      } else {
        rows.erase({row.kind, row.key});
      }
    }
    shell.commit();
    return out;
  }
  [[nodiscard]] std::vector<store::StateRow> state() const {
    std::vector<store::StateRow> out;
    for (const auto& [at, value] : rows) out.push_back({at.first, at.second, value});
    return out;
  }
};

pb::AgentFact fact(const std::string& id) {
  pb::AgentFact f;
  f.set_id(id);
  return f;
}
pb::AgentFact devices_fact(const std::string& node) {
  auto f = fact(node + "/devices");
  auto* seen = f.mutable_devices();
  seen->set_node(node);
  seen->set_at_us(5);
  for (const std::string pod : {"q", "p"}) {
    auto* p = seen->add_pods();
    p->set_namespace_("team");
    p->set_pod(pod);
    for (const int index : {3, 1}) {
      auto* d = p->add_devices();
      d->set_node(node);
      d->set_index(index);
      d->set_uuid(fmt::format("GPU-{}", index));
      d->set_milli(428);
      d->set_mig_profile("3g.40gb");
    }
  }
  return f;
}
pb::AgentFact signs_fact(const std::string& node) {
  auto f = fact(node + "/report");
  auto& report = *f.mutable_node_report();
  report.set_node(node);
  report.set_at_us(6);
  (*report.mutable_labels())["gpu.nvidia.com/nvlink-enabled"] = "true";
  (*report.mutable_annotations())["quartermaster.dev/findings"] = "none";
  report.add_owned_prefixes("cache.quartermaster.dev/");
  return f;
}
pb::AgentFact notice_fact(const std::string& node) {
  auto f = fact(node + "/notice");
  f.mutable_notice()->set_node(node);
  f.mutable_notice()->set_instance_id("i-1");
  f.mutable_notice()->set_action("stop");
  f.mutable_notice()->set_at_us(120'000'000);
  return f;
}
pb::AgentFact ack_fact(const std::string& order, const std::string& node) {
  auto f = fact(order + node);
  auto* a = f.mutable_ack();
  a->set_order_id(order);
  a->set_uid("w");
  a->set_attempt(2);
  a->set_node(node);
  a->set_ranks(4);
  a->set_step(70);
  a->set_uri("s3://b/70");
  a->set_at_us(9);
  a->set_ok(true);
  a->set_message("saved");
  a->set_namespace_("team");
  return f;
}
service::Input order_input(const std::string& id, std::int64_t deadline_us, const std::string& outcome = {}) {
  pb::CapacityEvent e;
  auto* o = e.mutable_checkpoint();
  o->set_id(id);
  o->set_uid("w");
  o->set_attempt(2);
  o->set_namespace_("team");
  o->set_kind("Job");
  o->add_nodes("a");
  o->add_nodes("b");
  o->set_reason("SpotInterruption");
  o->set_deadline_us(deadline_us);
  o->set_outcome(outcome);
  return bus_input("qm.capacity", "checkpoint/" + id, e.SerializeAsString());
}

TEST(Codec, ReadsEveryFact) {
  const Codec codec;
  const auto xid = only<XidUpdated>(codec.decode(fact_input(xid_fact("a/1", "a", 79, 3))));
  EXPECT_EQ(xid.node, NodeName("a"));
  EXPECT_EQ(xid.xid, 79);
  EXPECT_EQ(xid.gpu_index, 3);
  EXPECT_FALSE(xid.standing || xid.cleared || xid.recovery_action.has_value());
  auto full = xid_fact("a/2", "a", 154, 3);
  full.mutable_xid()->set_recovery_action(0);
  full.mutable_xid()->set_at_first_poll(true);
  full.mutable_xid()->set_cleared(true);
  full.mutable_xid()->set_boot_id("boot");
  const auto more = only<XidUpdated>(codec.decode(fact_input(full)));
  EXPECT_TRUE(more.standing && more.cleared);
  EXPECT_EQ(more.recovery_action, 0);
  EXPECT_EQ(more.boot, "boot");
  const auto devices = only<DevicesUpdated>(codec.decode(fact_input(devices_fact("a"))));
  ASSERT_EQ(devices.pods.size(), 2U);
  EXPECT_EQ(devices.pods[0].pod, "p") << "sorted, so that lists compare";
  EXPECT_EQ(devices.pods[0].devices[0], (DeviceRef{NodeName("a"), 1, DeviceUuid("GPU-1"), 428, "3g.40gb"}));
  const auto report = only<NodeReportUpdated>(codec.decode(fact_input(signs_fact("a"))));
  EXPECT_EQ(report.node, NodeName("a"));
  EXPECT_EQ(report.report.labels, (Labels{{"gpu.nvidia.com/nvlink-enabled", "true"}}));
  EXPECT_EQ(report.report.annotations, (Labels{{"quartermaster.dev/findings", "none"}}));
  EXPECT_EQ(report.report.owned_prefixes, std::vector<std::string>{"cache.quartermaster.dev/"});
  const auto notice = only<NoticeUpdated>(codec.decode(fact_input(notice_fact("a"))));
  EXPECT_EQ(notice.instance, InstanceId("i-1"));
  EXPECT_EQ(notice.action, "stop");
  EXPECT_EQ(micros(notice.at), 120'000'000);
  const auto ack = only<AckUpdated>(codec.decode(fact_input(ack_fact("o", "a"))));
  EXPECT_EQ(ack.id, (AttemptId{WorkloadUid("w"), 2}));
  EXPECT_EQ(ack.step, 70);
  EXPECT_TRUE(ack.ok);
}

TEST(Codec, AFactOfAKindThatItDoesNotKnowIsTakenAndLeftAside) {
  const auto commands = Codec().decode(fact_input(fact("a/1/7")));
  ASSERT_TRUE(commands);
  EXPECT_TRUE(commands->empty());
}

TEST(Codec, ReadsOrdersAndNodesThatGo) {
  const Codec codec;
  auto order = only<OrderUpdated>(codec.decode(order_input("o", 110)));
  EXPECT_EQ(order.nodes, (std::vector{NodeName("a"), NodeName("b")}));
  EXPECT_FALSE(order.settled);
  EXPECT_TRUE(only<OrderUpdated>(codec.decode(order_input("o", 110, "Acked"))).settled);
  EXPECT_EQ(order.ns, "team");
  EXPECT_EQ(order.kind, "Job");
  // An acknowledgement with a URI from which no workload may resume counts as failed.
  auto odd = ack_fact("o", "a");
  odd.mutable_ack()->set_uri("s3://a b");
  const auto failed = only<AckUpdated>(codec.decode(fact_input(odd)));
  EXPECT_FALSE(failed.ok);
  EXPECT_EQ(failed.uri, "");
  EXPECT_EQ(failed.message, "the URI has the byte 0x20 at position 6, which no URI has");
  pb::CapacityEvent other;
  other.mutable_price()->set_zone("z");
  EXPECT_TRUE(codec.decode(bus_input("qm.capacity", "price/x/z", other.SerializeAsString()))->empty());

  pb::NodeEvent node;
  node.set_node("a");
  node.set_state(pb::NODE_READY);
  EXPECT_TRUE(codec.decode(bus_input("qm.node", "a", node.SerializeAsString()))->empty());
  EXPECT_EQ(only<NodeDeleted>(codec.decode(bus_input("qm.node", "a", node.SerializeAsString(), true))).node,
            NodeName("a"));
  EXPECT_EQ(only<NodeDeleted>(codec.decode(bus_input("qm.node", "a", "", true))).node, NodeName("a"))
      << "the key has it too";
  node.set_state(pb::NODE_GONE);
  EXPECT_EQ(only<NodeDeleted>(codec.decode(bus_input("qm.node", "a", node.SerializeAsString()))).node, NodeName("a"));
}

TEST(Codec, RefusesWhatIsNone) {
  const Codec codec;
  EXPECT_EQ(codec.decode(bus_input("qm.capacity", "k", "\x01\xff")).error().code, Code::kInvalid);
  EXPECT_EQ(codec.decode(bus_input("qm.node", "k", "\x01\xff")).error().code, Code::kInvalid);
  EXPECT_EQ(codec.decode(bus_input("qm.cost", "k", "")).error().code, Code::kInvalid);
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "pod";
  EXPECT_EQ(codec.decode(in).error().code, Code::kInvalid);
  in.name = "fact";
  in.bytes = "\x01\xff";
  EXPECT_EQ(codec.decode(in).error().code, Code::kInvalid);
  in.source = service::Source::kRequest;
  EXPECT_EQ(codec.decode(in).error().code, Code::kUnimplemented);
  in.source = service::Source::kOutcome;
  EXPECT_TRUE(codec.decode(in)->empty());
}

TEST(Codec, WritesEventsWithTheWholeStateOfTheirKeys) {
  Kept kept;
  pb::UsageInterval usage;
  usage.set_node("a");
  usage.set_gpu_index(2);
  usage.set_from_us(1);
  usage.set_to_us(2);
  usage.set_pod("p");
  usage.set_utilization(0.25);
  usage.set_samples(3);
  usage.set_energy_mj(4);
  (void)kept.step({order_input("o", micros(kept.now) + 1)});
  const auto out =
      kept.step({fact_input(xid_fact("a/1", "a", 48, 3)), fact_input(devices_fact("a")), fact_input(signs_fact("a")),
                 fact_input(notice_fact("a")), fact_input(ack_fact("o", "b")), usage_input(usage)});
  std::map<std::string, std::string> events;
  for (const auto& e : out.events) {
    EXPECT_FALSE(e.tombstone);
    EXPECT_EQ(e.topic, e.key.starts_with("notice/") || e.key.starts_with("ack/") ? "qm.spot" : "qm.gpu");
    events[e.key] = e.payload;
  }
  ASSERT_EQ(events.size(), 6U);
  pb::GpuEvent gpu;
  ASSERT_TRUE(gpu.ParseFromString(events.at("node-report/a")));
  EXPECT_EQ(gpu.node_report().labels().at("gpu.nvidia.com/nvlink-enabled"), "true");
  ASSERT_TRUE(gpu.ParseFromString(events.at("health/a")));
  EXPECT_EQ(gpu.health().action(), pb::HEALTH_RESET_GPU) << "the other GPUs of the node work on";
  ASSERT_EQ(gpu.health().gpus_size(), 1);
  EXPECT_EQ(gpu.health().gpus(0).gpu_index(), 3);
  EXPECT_EQ(gpu.health().gpus(0).action(), pb::HEALTH_RESET_GPU);
  EXPECT_EQ(gpu.health().gpus(0).xid(), 48);
  EXPECT_EQ(gpu.health().xid(), 48);
  EXPECT_EQ(gpu.health().gpu_index(), 3);
  ASSERT_TRUE(gpu.ParseFromString(events.at("devices/a")));
  EXPECT_EQ(gpu.devices().pods_size(), 2);
  ASSERT_TRUE(gpu.ParseFromString(events.at("usage/a/2")));
  EXPECT_EQ(gpu.usage().SerializeAsString(), usage.SerializeAsString());
  pb::SpotEvent spot;
  ASSERT_TRUE(spot.ParseFromString(events.at("notice/a")));
  EXPECT_EQ(spot.notice().seen_us(), micros(kept.now));
  ASSERT_TRUE(spot.ParseFromString(events.at("ack/o/b")));
  EXPECT_EQ(spot.ack().SerializeAsString(), ack_fact("o", "b").ack().SerializeAsString());
}

TEST(Codec, AnOrderIsAnIntentForEachOfItsNodes) {
  Kept kept;
  const auto out = kept.step({order_input("o", micros(kept.now) + 1)});
  ASSERT_EQ(out.intents.size(), 2U);
  EXPECT_EQ(out.intents[0].id, "order/o/a");
  EXPECT_EQ(out.intents[0].kind, "agent.order");
  EXPECT_EQ(out.intents[1].key, "b");
  pb::AgentOrder order;
  ASSERT_TRUE(order.ParseFromString(out.intents[1].payload));
  EXPECT_EQ(order.checkpoint().id(), "o");
  EXPECT_EQ(order.checkpoint().nodes_size(), 2);
  EXPECT_EQ(order.checkpoint().attempt(), 2);
  EXPECT_TRUE(kept.step({order_input("o", micros(kept.now) + 1)}).intents.empty()) << "the same again";
}

TEST(Codec, ADeletedNodeEndsItsKeysAndAnswersOpenOrders) {
  std::vector<NodeName> observed;
  Shell shell(std::make_unique<Engine>(), Codec([&](const NodeName& n) { observed.push_back(n); }));
  std::vector<std::pair<std::size_t, Error>> poison;
  service::Effects out;
  const auto now = from_micros(1'000'000);
  shell.step(std::vector{fact_input(xid_fact("1", "a", 79)), fact_input(devices_fact("a"))}, now, out, poison);
  shell.commit();
  EXPECT_TRUE(observed.empty());
  out = {};
  shell.step(std::vector{bus_input("qm.node", "a", "", true)}, now, out, poison);
  shell.commit();
  EXPECT_EQ(observed, std::vector{NodeName("a")});
  ASSERT_EQ(out.events.size(), 2U);
  for (const auto& e : out.events) EXPECT_TRUE(e.tombstone) << e.key;
  pb::GpuEvent gpu;
  ASSERT_TRUE(gpu.ParseFromString(out.events[0].payload));
  EXPECT_EQ(gpu.health().action(), pb::HEALTH_NONE);
  EXPECT_EQ(gpu.health().node(), "a");
  ASSERT_TRUE(gpu.ParseFromString(out.events[1].payload));
  EXPECT_EQ(gpu.devices().pods_size(), 0);
  EXPECT_EQ(gpu.devices().at_us(), micros(now)) << "later than any list before it";
}

TEST(Codec, StateIsReadBackAsItWas) {
  Kept kept;
  (void)kept.step({order_input("w/2|x", micros(kept.now) + 1), fact_input(ack_fact("w/2|x", "b")),
                   fact_input(ack_fact("w/2|x", "a"))});
  (void)kept.step({fact_input(xid_fact("1", "a", 48, 3)), fact_input(xid_fact("2", "b", 13)),
                   fact_input(xid_fact("3", "c", 79)), fact_input(devices_fact("a")), fact_input(notice_fact("a")),
                   fact_input(signs_fact("a"))});
  auto named = xid_fact("4", "d", 31);
  named.mutable_xid()->set_gpu_uuid("GPU-d");
  named.mutable_xid()->set_boot_id("boot before");
  (void)kept.step({fact_input(named)});
  named.mutable_xid()->set_boot_id("boot");
  (void)kept.step({fact_input(named)});
  for (const std::int32_t action : {0, 2}) {
    named.mutable_xid()->set_xid(154);
    named.mutable_xid()->set_at_us(named.xid().at_us() + 1);
    named.mutable_xid()->set_recovery_action(action);
    (void)kept.step({fact_input(named)});
  }
  const LastXids& last = *kept.engine.tables().xids.find(NodeName("d"));
  EXPECT_EQ(last.boot_before, "boot before");
  ASSERT_EQ(last.gpus.at("GPU-d").size(), 3U);
  EXPECT_EQ(last.gpus.at("GPU-d")[0].recovery_action, 2);
  EXPECT_EQ(last.gpus.at("GPU-d")[1].recovery_action, 0);
  EXPECT_EQ(kept.rows.size(), 11U);
  const auto digest = kept.engine.digest();
  Kept other;
  ASSERT_TRUE(other.shell.load(kept.state()));
  EXPECT_EQ(other.engine.digest(), digest);
  EXPECT_EQ(other.engine.tables().health.rows(), kept.engine.tables().health.rows())
      << "a reset is not read back as a cordon";
  EXPECT_EQ(other.engine.tables().orders.rows(), kept.engine.tables().orders.rows());
  EXPECT_EQ(other.engine.tables().acked.rows(), kept.engine.tables().acked.rows());
  EXPECT_EQ(other.engine.tables().devices.rows(), kept.engine.tables().devices.rows());
  EXPECT_EQ(other.engine.tables().report.rows(), kept.engine.tables().report.rows());
  EXPECT_EQ(other.engine.tables().notices.rows(), kept.engine.tables().notices.rows());
  EXPECT_EQ(other.engine.tables().xids.rows(), kept.engine.tables().xids.rows());
  EXPECT_EQ(other.engine.tables().health.find(NodeName("a"))->action, Action::kResetGpu);
  // Loading replaces the previous state, and rows are deleted with their subject.
  (void)kept.step({bus_input("qm.node", "a", "", true), bus_input("qm.node", "d", "", true)});
  kept.now += std::chrono::minutes(11);
  (void)kept.step({service::Input{}});
  EXPECT_EQ(kept.rows.size(), 4U) << "the verdicts of b and c, the last XIDs of d and until when they are remembered";
  ASSERT_TRUE(other.shell.load(kept.state()));
  EXPECT_EQ(other.engine.digest(), kept.engine.digest());
  EXPECT_EQ(other.engine.tables().xids_until.rows(), kept.engine.tables().xids_until.rows());
}

TEST(Codec, ARowThatItDoesNotKnowStopsTheStart) {
  Kept kept;
  const auto unknown = kept.shell.load(std::vector<store::StateRow>{{"riddle", "k", "v"}});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("riddle"), std::string::npos);
  for (const std::string kind :
       {"order", "health", "notice", "acked", "devices", "node_report", "xids", "xids_until"}) {
    EXPECT_FALSE(kept.shell.load(std::vector<store::StateRow>{{kind, "k|n", "\x01\xff"}})) << kind;
  }
}

TEST(Codec, DebugStateListsMissingAnswers) {
  Kept kept;
  (void)kept.step({order_input("o", micros(kept.now) + 1), fact_input(xid_fact("1", "a", 79, 3))});
  (void)kept.step({fact_input(ack_fact("o", "a"))});
  const Json state = qm::testing::whole_state<service::StateDump>(kept.shell);
  EXPECT_EQ(state["orders"]["o"]["waits_for"], Json::array({"b"}));
  auto standing = xid_fact("2", "a", 79, 3);
  standing.mutable_xid()->set_gpu_uuid("GPU-3");
  standing.mutable_xid()->set_boot_id("boot");
  (void)kept.step({fact_input(standing)});
  EXPECT_EQ(qm::testing::whole_state<service::StateDump>(kept.shell)["last_xids"]["a"]["GPU-3"],
            Json::object({{"xid", 79}}));
  auto changed = xid_fact("3", "a", 154, 3);
  changed.mutable_xid()->set_gpu_uuid("GPU-3");
  changed.mutable_xid()->set_boot_id("boot");
  changed.mutable_xid()->set_at_us(micros(kept.now) + 1);
  changed.mutable_xid()->set_recovery_action(1);
  (void)kept.step({fact_input(changed)});
  EXPECT_EQ(qm::testing::whole_state<service::StateDump>(kept.shell)["last_xids"]["a"]["GPU-3"],
            Json::object({{"xid", 154}, {"recovery_action", 1}}));
  EXPECT_EQ(state["health"]["a"].string(), "XID 79 ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS on GPU 3");
}

}  // namespace codec_test
}  // namespace qm::telemetry::testing
