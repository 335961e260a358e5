// Decoding and encoding, and rows in both directions.
#include "qm/autoscaler/shell.hpp"
#include "qm/testing/state.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/events.pb.h"
#include "src/shell/instances/consolidation_rows.hpp"
#include "src/shell/instances/headroom_rows.hpp"
#include "src/shell/rows.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace codec_test {

namespace pb = quartermaster::v1;
using std::chrono::seconds;

constexpr Instant kNow = from_micros(1'000'000'000);

service::Input reported(const char* topic, const google::protobuf::Message& message, bool tombstone = false) {
  service::Input in;
  in.source = service::Source::kBus;
  in.name = topic;
  in.bytes = message.SerializeAsString();
  in.tombstone = tombstone;
  return in;
}

template <class Command>
Command only(const service::Input& in) {
  const auto commands = Codec{}.decode(in);
  EXPECT_TRUE(commands) << (commands ? "" : commands.error().to_string());
  EXPECT_TRUE(commands && commands->size() == 1 && std::holds_alternative<Command>(commands->front()));
  return commands && commands->size() == 1 ? std::get<Command>(commands->front()) : Command{};
}

pb::PlacementEvent demand() {
  pb::PlacementEvent event;
  auto* item = event.mutable_demand()->add_items();
  item->set_uid("w");
  item->set_attempt(2);
  item->set_priority(3);
  item->set_since_us(micros(kNow));
  item->set_runs(true);
  PodSet set;
  set.count = 2;
  set.shape.gpu.whole = 8;
  set.shape.node_selector = {{"a", "b"}};
  *item->add_pod_sets() = wire::to_pb(set);
  item->add_room(1);
  item->set_room_zone("z1");
  item->add_rules("rules");
  return event;
}

TEST(Decode, EveryTopic) {
  const auto update = only<DemandUpdated>(reported("qm.placement", demand()));
  ASSERT_EQ(update.items.size(), 1U);
  EXPECT_EQ(update.items[0].id.to_string(), "w/2");
  EXPECT_TRUE(update.items[0].runs);
  EXPECT_EQ(update.items[0].pod_sets[0].shape.node_selector.at("a"), "b");
  EXPECT_EQ(update.items[0].pod_sets[0].rules, "rules");
  EXPECT_EQ(update.items[0].room, std::vector<std::int32_t>{1});
  EXPECT_EQ(update.items[0].room_zone, "z1");

  pb::PlacementEvent placement;
  auto* a = placement.mutable_assignment();
  a->set_uid("w");
  a->set_attempt(1);
  for (const char* node : {"n2", "n1", "n1", "n3"}) a->add_members()->set_node(node);
  a->mutable_members(3)->set_released_us(5);
  for (const auto& [state, live] : {std::pair(pb::RESERVED, true),
                                    {pb::BOUND, true},
                                    {pb::SHORT, false},
                                    {pb::RELEASED, false},
                                    {pb::EXPIRED, false}}) {
    a->set_state(state);
    const auto assignment = only<AssignmentUpdated>(reported("qm.placement", placement));
    EXPECT_EQ(assignment.live, live);
    EXPECT_EQ(assignment.nodes, (std::vector{NodeName("n1"), NodeName("n2")}));
  }
  auto* wanted = placement.mutable_eviction();
  wanted->set_uid("w");
  wanted->set_attempt(2);
  wanted->set_node("n1");
  wanted->set_reason("MigLayout");
  EXPECT_TRUE(only<SaveRequested>(reported("qm.placement", placement)).over) << "it is to go at once";
  wanted->set_save_until_us(7);
  const auto save = only<SaveRequested>(reported("qm.placement", placement));
  EXPECT_EQ(save.id, (AttemptId{WorkloadUid("w"), 2}));
  EXPECT_EQ(save.node, NodeName("n1"));
  EXPECT_EQ(save.reason, "MigLayout");
  EXPECT_EQ(save.until, from_micros(7));
  EXPECT_FALSE(save.over);
  EXPECT_TRUE(only<SaveRequested>(reported("qm.placement", placement, true)).over);

  pb::NodeEvent node;
  node.set_node("n1");
  node.set_state(pb::NODE_CORDONED);
  node.set_provider_id("aws:///us-east-1a/i-9");
  node.set_pods(2);
  auto n = only<NodeUpdated>(reported("qm.node", node));
  EXPECT_TRUE(n.ready && n.cordoned && !n.gone);
  EXPECT_EQ(n.instance, InstanceId("i-9"));
  EXPECT_FALSE(n.empty_since);
  node.set_state(pb::NODE_NOT_READY);
  EXPECT_FALSE(only<NodeUpdated>(reported("qm.node", node)).ready);
  EXPECT_TRUE(only<NodeUpdated>(reported("qm.node", node, true)).gone);
  node.set_state(pb::NODE_GONE);
  EXPECT_TRUE(only<NodeUpdated>(reported("qm.node", node)).gone);

  pb::WorkloadEvent workload;
  workload.mutable_spec()->set_uid("w");
  workload.mutable_spec()->set_checkpoints(true);
  workload.set_phase(pb::ADMITTED);
  workload.mutable_spec()->set_namespace_("team");
  workload.mutable_spec()->set_kind("JobSet");
  EXPECT_TRUE(only<WorkloadUpdated>(reported("qm.workload", workload)).checkpoints);
  EXPECT_EQ(only<WorkloadUpdated>(reported("qm.workload", workload)).ns, "team");
  EXPECT_EQ(only<WorkloadUpdated>(reported("qm.workload", workload)).kind, "JobSet");
  EXPECT_TRUE(only<WorkloadUpdated>(reported("qm.workload", workload, true)).ended);
  workload.set_phase(pb::CANCELLED);
  EXPECT_TRUE(only<WorkloadUpdated>(reported("qm.workload", workload)).ended);

  pb::SpotEvent spot;
  spot.mutable_notice()->set_node("n1");
  spot.mutable_notice()->set_at_us(7);
  EXPECT_EQ(only<SpotNoticeUpdated>(reported("qm.spot", spot)).at, from_micros(7));
  EXPECT_FALSE(only<SpotNoticeUpdated>(reported("qm.spot", spot)).over);
  EXPECT_TRUE(only<SpotNoticeUpdated>(reported("qm.spot", spot, true)).over);
  auto& ack = *spot.mutable_ack();
  ack.set_order_id("w/1/n1");
  ack.set_attempt(1);
  ack.set_ranks(2);
  ack.set_step(5);
  ack.set_uri("s3://5");
  ack.set_ok(true);
  // An agent of an earlier release reports the lowest step of its ranks, and no number.
  const auto old = only<AckUpdated>(reported("qm.spot", spot)).answer;
  EXPECT_EQ(old.fence, (checkpoint::Fence{1, 0}));
  EXPECT_EQ(old.saves, (std::vector<StepSave>{{5, 0, 2, "s3://5", 0, Duration{0}}}));
  ack.set_number(9);
  auto& of_step = *ack.add_saves();
  of_step.set_step(6);
  of_step.set_epoch(1);
  of_step.set_ranks(2);
  of_step.set_uri("s3://6");
  of_step.set_bytes(10);
  of_step.set_took_us(7);
  const auto answer = only<AckUpdated>(reported("qm.spot", spot)).answer;
  EXPECT_EQ(answer.fence, (checkpoint::Fence{1, 9}));
  EXPECT_EQ(answer.saves, (std::vector<StepSave>{{6, 1, 2, "s3://6", 10, Duration(7)}}));
  pb::SpotEvent notice;
  notice.mutable_notice()->set_node("n1");
  notice.mutable_notice()->set_kind("maintenance");
  EXPECT_EQ(only<SpotNoticeUpdated>(reported("qm.spot", notice)).kind, NoticeKind::kMaintenance);
  notice.mutable_notice()->set_kind("rebalance");
  EXPECT_EQ(only<SpotNoticeUpdated>(reported("qm.spot", notice)).kind, NoticeKind::kRebalance);
  ack.set_ok(false);
  ack.set_message("team/train-1 answers with status 503");
  EXPECT_EQ(only<AckUpdated>(reported("qm.spot", spot)).answer.refusal, "team/train-1 answers with status 503");
  spot.Clear();
  EXPECT_TRUE(Codec{}.decode(reported("qm.spot", spot))->empty());

  pb::GpuEvent gpu;
  gpu.mutable_health()->set_node("n1");
  gpu.mutable_health()->set_action(pb::HEALTH_CORDON);
  EXPECT_TRUE(only<HealthUpdated>(reported("qm.gpu", gpu)).broken);
  EXPECT_FALSE(only<HealthUpdated>(reported("qm.gpu", gpu, true)).broken);
  gpu.mutable_health()->set_action(pb::HEALTH_WATCH);
  EXPECT_FALSE(only<HealthUpdated>(reported("qm.gpu", gpu)).broken);
  gpu.mutable_usage()->set_node("n1");
  EXPECT_TRUE(Codec{}.decode(reported("qm.gpu", gpu))->empty());
}

TEST(Decode, OutcomesLooksAndTimers) {
  service::Input in;
  in.source = service::Source::kOutcome;
  in.name = "instance.launch";
  in.bytes = R"({"claim":"p-1","instance":"i-1","error":""})";
  EXPECT_EQ(only<LaunchEnded>(in).instance, InstanceId("i-1"));
  in.bytes = R"({"claim":"p-1","pending":true})";
  EXPECT_TRUE(Codec{}.decode(in)->empty());
  in.name = "instance.terminate";
  in.bytes = R"({"claim":"p-1","error":"no"})";
  EXPECT_EQ(only<TerminateEnded>(in).error, "no");
  in.source = service::Source::kWatch;
  in.name = "instances";
  in.bytes =
      R"([{"id":"i-1","claim":"p-1","pool":"p","type":"t","zone":"z","spot":true,"node":"n","launched_us":5,"stopped_us":0}])";
  const auto seen = only<InstancesListed>(in);
  ASSERT_EQ(seen.instances.size(), 1U);
  EXPECT_EQ(seen.instances[0].pool, "p");
  EXPECT_EQ(seen.instances[0].market, Market::kSpot);
  EXPECT_FALSE(seen.instances[0].stopped);
  in.name = "spot_prices";
  in.bytes = R"([{"type":"t","zone":"z","nano":5,"at_us":6}])";
  EXPECT_EQ(only<SpotPricesUpdated>(in).quotes[0].rate.per_hour.nano(), 5);
  in.source = service::Source::kTimer;
  EXPECT_TRUE(std::holds_alternative<Tick>(Codec{}.decode(in)->front()));
}

TEST(Decode, RefusesWhatItDoesNotKnow) {
  service::Input in;
  in.source = service::Source::kBus;
  in.name = "qm.placement";
  in.bytes = "\x0a\xff";
  EXPECT_EQ(Codec{}.decode(in).error().code, Code::kInvalid);
  in.name = "qm.other";
  EXPECT_EQ(Codec{}.decode(in).error().code, Code::kInvalid);
  in.source = service::Source::kWatch;
  in.bytes = "[";
  EXPECT_FALSE(Codec{}.decode(in));
  in.bytes = "[]";
  EXPECT_EQ(Codec{}.decode(in).error().code, Code::kInvalid);
  in.source = service::Source::kRequest;
  EXPECT_EQ(Codec{}.decode(in).error().code, Code::kUnimplemented);
}

/// Steps an engine as the host does, and stores its rows as the store does.
AckUpdated saved_on_n1() {
  return {"w/1/n1", {NodeName("n1"), {1, 0}, 1, {{5, 2, 1, "s3://5", 100, Duration(7)}}, {}}};
}

struct Stored {
  Engine engine{catalog_types()};
  std::map<std::pair<std::string, std::string>, store::StateRow> rows;
  service::Effects last;

  void step(const std::vector<Command>& batch, Instant now) {
    const auto out = engine.step(batch, now);
    last = {};
    Codec{}.encode(engine, out, {}, last);
    for (const auto& row : last.state) {
      if (row.value) {
        rows.insert_or_assign({row.kind, row.key}, row);
      } else {
        rows.erase({row.kind, row.key});
      }
    }
    engine.commit();
  }
  [[nodiscard]] std::uint64_t digest_after_restart() const {
    std::vector<store::StateRow> all;
    for (const auto& [key, row] : rows) all.push_back(row);
    Engine fresh(catalog_types());
    const auto loaded = Codec{}.load(fresh, all);
    EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().to_string());
    return fresh.digest();
  }
  [[nodiscard]] std::vector<pb::CapacityEvent> events() const {
    std::vector<pb::CapacityEvent> out;
    for (const auto& e : last.events) out.emplace_back().ParseFromString(e.payload);
    return out;
  }
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> out;
    for (const auto& e : last.events) out.push_back(e.key + (e.tombstone ? " ends" : ""));
    return out;
  }
};

Pool pool() {
  Pool p;
  p.name = "gpu";
  p.weight = 3;
  p.instance_types = {"p5.48xlarge"};
  p.markets = {Market::kOnDemand, Market::kSpot};
  p.zones = {"z1", "z2"};
  p.labels = {{"team", "x"}};
  p.taints = {{"gpu", "", "PreferNoSchedule"}};
  p.limit_gpus = 64;
  p.limit_cpu_milli = 1 << 30;
  p.limit_memory_bytes = 1LL << 50;
  p.consolidate_after = seconds(90);
  p.not_zones = {"z9"};
  p.limit_nodes = 40;
  p.rules = {Requirement{"disk", true, {"5"}, 3, 9, {}}, exactly("team2", "blue"), absent("zap")};
  p.other_limits = {{"aws.amazon.com/neuron", 16}};
  p.min_values = {{"karpenter.k8s.aws/instance-family", 1}};
  p.budgets = {{"1", "@daily", seconds(60), {"Drifted"}}};
  return p;
}

TEST(Rows, APoolThatIsNotReadyLaunchesNothingAndComesBack) {
  Stored s;
  DemandUpdated::Item item{{WorkloadUid("w"), 1}, {PodSet{}}, 5, kNow};
  item.pod_sets[0].shape.gpu.whole = 8;
  Pool unready = pool();
  unready.not_ready = "EC2NodeClass gpu does not exist";
  s.step({PoolsApplied{{unready}}, DemandUpdated{{item}}}, kNow);
  EXPECT_TRUE(s.last.intents.empty());
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  const auto ready_digest = s.engine.digest();
  unready.not_ready = "another reason";
  s.step({PoolsApplied{{unready}}}, kNow + seconds(1));
  EXPECT_NE(s.engine.digest(), ready_digest);
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
}

// Lifecycles of pools and claims, details of nodes, launch faults, back-offs of drift, buffers and overlays.
TEST(Rows, OfHowNodesStartAndEndComeBack) {
  Stored s;
  Pool p = pool();
  p.lifecycle = {
      {{"cilium", "", "NoExecute"}}, {{"a", "b"}}, seconds(86400), seconds(600), "hash", {"ami-1"}, {"s-1"}, {"sg-1"}};
  InstanceFact fact{InstanceId("i-1"),
                    ClaimName("gpu-00001"),
                    "gpu",
                    "p5.48xlarge",
                    "z1",
                    Market::kOnDemand,
                    NodeName("n1"),
                    kNow,
                    {}};
  fact.image = "ami-0";
  fact.subnet = "s-1";
  fact.security_groups = {"sg-1"};
  NodeDetailsUpdated details{NodeName("n1"), false, {}};
  details.details = {InstanceId("i-1"),
                     {{"t", "v", "NoSchedule"}},
                     {{"cpu", 8000}},
                     {{"nvidia.com/gpu", 8}},
                     true,
                     true,
                     "Ready is False",
                     kNow + seconds(1800),
                     {{"ml/a", Duration::max(), kNow, ""}, {"ml/b", {}, kNow, "ml/guard"}}};
  Buffer buffer{"ml/warm", {}, "replicas 1"};
  buffer.pods.shape.gpu.whole = 8;
  Overlay overlay;
  overlay.name = "o";
  overlay.weight = 2;
  overlay.adjustment = PriceAdjustment{true, -5};
  overlay.capacity = {{"example.com/fpga", 1}};
  overlay.requirements.add(exactly("team2", "blue"));
  const auto commands = [](const service::Input& in) { return Codec{}.decode(in); };
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "node.details";
  in.bytes = node_details_bytes(details);
  EXPECT_EQ(std::get<NodeDetailsUpdated>(commands(in)->front()).details, details.details);
  EXPECT_EQ(std::get<BuffersApplied>(commands(buffers_input({buffer}))->front()).buffers, std::vector<Buffer>{buffer});
  in.name = "overlays";
  in.bytes = overlays_bytes({overlay});
  EXPECT_EQ(std::get<OverlaysApplied>(commands(in)->front()).overlays, std::vector<Overlay>{overlay});

  s.step({PoolsApplied{{p}}, InstancesListed{{fact}}, NodeUpdated{NodeName("n1"), true, false, false, 1, {}, fact.id},
          details, OverlaysApplied{{overlay}}},
         kNow);
  EXPECT_EQ(s.engine.tables().claims.find(ClaimName("gpu-00001"))->life.drift, "AMIDrift");
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  s.step({BuffersApplied{{buffer}}}, kNow + seconds(1));
  ASSERT_EQ(s.last.intents.size(), 1U);
  const auto want = Json::parse(s.last.intents[0].payload);
  EXPECT_EQ((*want)["lifecycle"].dump(),
            R"({"startup_taints":[{"key":"cilium","value":"","effect":"NoExecute"}],"annotations":{"a":"b"},)"
            R"("resources":["nvidia.com/gpu"],"hash":"hash","expire_after_s":86400,"termination_grace_s":600})");
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  // An instance that does not register in time leaves a fault.
  fact.id = InstanceId("i-2");
  fact.claim = ClaimName(s.engine.tables().claims.rows().rbegin()->first);
  s.step({InstancesListed{{fact}}}, kNow + seconds(2));
  s.step({Tick{}}, kNow + seconds(2000));
  EXPECT_EQ(s.engine.tables().launch_faults.size(), 1U);
  s.engine.mutable_tables().drift_back_offs.insert("gpu", {2, kNow + seconds(9000), "why"});
  // Headroom of a pool with an SLO, with a plan and a history.
  p.headroom = HeadroomSlo{seconds(60), 950'000};
  s.step({PoolsApplied{{p}}}, kNow + seconds(2000));
  HeadroomRow& headroom = s.engine.mutable_tables().headroom.pools.edit("gpu");
  headroom.levels["p5.48xlarge"][3] = 4;
  headroom.boots = {seconds(200)};
  headroom.recent = {3, 2};
  s.engine.mutable_tables().headroom.days.insert({"gpu", "020000"}, {{{kNow, "p5.48xlarge", -2}}});
  s.engine.mutable_tables().consolidation_checks.insert("last", {kNow, 0xfedcba9876543210ULL});
  for (auto [name, claim] : s.engine.tables().claims.rows()) {
    claim.life.consolidated = kNow, claim.life.not_consolidated_before = kNow + seconds(600);
    s.engine.mutable_tables().claims.insert(name, claim);
  }
  s.step({Tick{}}, kNow + seconds(2001));
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
}

TEST(Rows, OfAConsolidationComeBack) {
  const ConsolidationRow row{
      ConsolidationRow::Phase::kSaving, kNow, {ClaimName("a"), ClaimName("b")}, {ClaimName("c")}, "why"};
  Tables tables;
  EXPECT_TRUE(*restore_consolidation(tables, {"consolidation", "00000001", bytes(row)}));
  ASSERT_NE(tables.consolidations.find("00000001"), nullptr);
  EXPECT_EQ(*tables.consolidations.find("00000001"), row);
  EXPECT_FALSE(*restore_consolidation(tables, {"claim", "a", ""}));
  EXPECT_FALSE(restore_consolidation(tables, {"consolidation", "1", "no protobuf"}).has_value());
}

TEST(Rows, OfEveryTableComeBack) {
  Stored s;
  DemandUpdated::Item item{{WorkloadUid("w"), 1}, {PodSet{}}, 5, kNow};
  item.runs = true;
  item.room = {0};
  item.room_zone = "z2";
  item.pod_sets[0].shape.gpu.whole = 8;
  item.pod_sets[0].shape.tolerations = {{"gpu", "Exists", "", ""}};
  PodSet daemons;
  daemons.name = "kube-system/exporter";
  daemons.shape.cpu_milli = 100;
  daemons.rules = "rules";
  s.step({PoolsApplied{{pool()}}, SpotPricesUpdated{{{"p5.48xlarge", "z2", HourlyRate{Money::nano(7)}, kNow}}},
          DaemonSetsUpdated{{daemons}}, DemandUpdated{{item}}},
         kNow);
  EXPECT_EQ(s.keys(), (std::vector<std::string>{"instance/gpu-00001", "price/p5.48xlarge/z2", "promise/w"}));
  ASSERT_EQ(s.last.intents.size(), 1U);
  EXPECT_EQ(s.last.intents[0].id, "launch/gpu-00001");
  const auto want = Json::parse(s.last.intents[0].payload);
  EXPECT_EQ((*want)["type"].string(), "p5.48xlarge");
  EXPECT_EQ((*want)["zone"].string(), "z2");
  EXPECT_TRUE((*want)["spot"].boolean());
  EXPECT_EQ((*want)["labels"]["team"].string(), "x");
  EXPECT_EQ((*want)["labels"]["disk"].string(), "3") << "that the pool's rules leave open";
  EXPECT_EQ((*want)["labels"]["team2"].string(), "blue");
  EXPECT_EQ((*want)["taints"].items().size(), 1U);
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());

  s.step({LaunchEnded{ClaimName("gpu-00001"), InstanceId(), "no capacity"}}, kNow + seconds(1));
  EXPECT_EQ(s.engine.tables().blocked.size(), 1U);
  const InstanceFact fact{InstanceId("i-1"),
                          ClaimName("gpu-00002"),
                          "gpu",
                          "p5.48xlarge",
                          "z1",
                          Market::kOnDemand,
                          NodeName("n1"),
                          kNow,
                          {}};
  const InstanceFact other{InstanceId("i-2"), ClaimName(),    "",   "p5.48xlarge",    "z1",
                           Market::kSpot,     NodeName("n2"), kNow, kNow + seconds(1)};
  s.step({InstancesListed{{fact, other}}, NodeUpdated{NodeName("n1"), true, true, false, 1, {}, InstanceId("i-1")},
          NodeUpdated{NodeName("n3"), true, false, false, 0, kNow, InstanceId("i-3")},
          HealthUpdated{NodeName("n4"), true}, WorkloadUpdated{WorkloadUid("w"), 1, true, false},
          AssignmentUpdated{{WorkloadUid("w"), 1}, true, {NodeName("n1"), NodeName("n3")}},
          SpotNoticeUpdated{NodeName("n1"), kNow + seconds(120)}},
         kNow + seconds(2));
  s.step({saved_on_n1(), InstancesListed{}}, kNow + seconds(3));
  const Tables& t = s.engine.tables();
  for (const std::size_t size :
       {t.pools.size(), t.claims.size(), t.nodes.size(), t.attempts.size(), t.workloads.size(), t.demand.size(),
        t.plans.size(), t.orders.size(), t.spot_prices.size(), t.blocked.size(), t.counters.size()}) {
    EXPECT_GT(size, 0U);
  }
  EXPECT_EQ(t.orders.begin()->second.save.answers.size(), 1U);
  EXPECT_TRUE(t.claims.find(ClaimName("gpu-00002"))->missing_since);
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());

  // Rows end with their subject.
  s.step({AssignmentUpdated{{WorkloadUid("w"), 1}, false, {}}, WorkloadUpdated{WorkloadUid("w"), 1, true, true},
          DemandUpdated{}, PoolsApplied{}, NodeUpdated{NodeName("n1"), false, false, true, 0, {}, InstanceId()}},
         kNow + seconds(4));
  s.step({Tick{}}, kNow + std::chrono::hours(3));
  s.step({Tick{}}, kNow + std::chrono::hours(6));
  EXPECT_TRUE(t.claims.rows().empty() && t.attempts.rows().empty() && t.orders.rows().empty() &&
              t.plans.rows().empty());
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
}

// Notices, schedules and hazards of spot instances.
TEST(Rows, OfSpotCapacityComeBack) {
  Stored s;
  InstanceFact fact;
  fact.id = InstanceId("i-1");
  fact.type = "p5.48xlarge", fact.zone = "z1", fact.market = Market::kSpot;
  fact.node = NodeName("n1");
  fact.launched = kNow;
  s.step({InstancesListed{{fact}}, NodeUpdated{NodeName("n1"), true, false, false, 1, {}, fact.id},
          WorkloadUpdated{
              WorkloadUid("w"), 1, true, false, "team", "Job", "w", {seconds(60), 500, 2, seconds(5), "s3://b"}},
          AssignmentUpdated{{WorkloadUid("w"), 1}, true, {NodeName("n1")}},
          InstanceNoticeUpdated{fact.id, NoticeKind::kRebalance, kNow},
          InstanceNoticeUpdated{InstanceId("i-9"), NoticeKind::kLifecycle, kNow + seconds(90)}},
         kNow + seconds(10));
  EXPECT_EQ(s.engine.tables().schedules.size(), 1U);
  EXPECT_EQ(s.engine.tables().instance_notices.size(), 2U);
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  s.step({SpotNoticeUpdated{NodeName("n1"), kNow + seconds(500), false, NoticeKind::kMaintenance}}, kNow + seconds(11));
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  s.step({SpotNoticeUpdated{NodeName("n1"), kNow + seconds(120)}}, kNow + seconds(12));
  fact.stopped = kNow + seconds(100);
  s.step({InstancesListed{{fact}}}, kNow + seconds(100));
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  s.step({Tick{}}, kNow + std::chrono::hours(2));
  EXPECT_EQ(s.engine.tables().hazards.size(), 1U);
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
}

TEST(Rows, ARowThatCannotBeReadIsNamed) {
  Engine engine(catalog_types());
  const auto load = [&](const char* kind, const char* key, std::string value) {
    const std::vector<store::StateRow> rows{{kind, key, std::move(value)}};
    const auto done = Codec{}.load(engine, rows);
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(load("claim", "c", "\x0a\xff"), "a stored claim cannot be read");
  EXPECT_NE(load("attempt", "nonsense", "").find("\"nonsense\" names no attempt"), std::string::npos);
  EXPECT_NE(load("other", "x", "").find("\"other\""), std::string::npos);
  EXPECT_EQ(load("counter", "claim", ""), "");
}

TEST(Encode, NoticesOrdersEvictionsDrainsAndEnds) {
  Stored s;
  s.step({NodeUpdated{NodeName("n1"), true, false, false, 1, {}, InstanceId("i-1")},
          WorkloadUpdated{WorkloadUid("w"), 1, true, false, "team", "JobSet"},
          AssignmentUpdated{{WorkloadUid("w"), 1}, true, {NodeName("n1")}},
          SpotNoticeUpdated{NodeName("n1"), kNow + seconds(120)}},
         kNow);
  EXPECT_EQ(s.keys(), (std::vector<std::string>{"checkpoint/w/1/n1", "drain/n1"}));
  EXPECT_EQ(s.events()[0].checkpoint().deadline_us(), micros(kNow + seconds(110)));
  EXPECT_EQ(s.events()[0].checkpoint().namespace_(), "team");
  EXPECT_EQ(s.events()[0].checkpoint().kind(), "JobSet");
  EXPECT_EQ(s.events()[1].drain().deadline_us(), micros(kNow + seconds(120)));
  EXPECT_EQ(*s.last.wake_at, kNow + seconds(110));
  s.step({saved_on_n1()}, kNow + seconds(1));
  EXPECT_EQ(s.keys(), (std::vector<std::string>{"evict/w/1/n1", "checkpoint/w/1/n1 ends"}));
  EXPECT_EQ(s.events()[0].eviction().resume_uri(), "s3://5");
  EXPECT_EQ(s.events()[0].eviction().step(), 5);
  EXPECT_EQ(s.events()[1].checkpoint().outcome(), "Acked");
  // The deadline of the cloud overrides disruption budgets: the audit trail has the eviction.
  ASSERT_EQ(s.last.appends.size(), 1U);
  EXPECT_EQ(s.last.appends[0].table, "audit");
  EXPECT_EQ(s.last.appends[0].columns[4], "evict/w/1/n1");
  EXPECT_NE(s.last.appends[0].columns[5]->find("SpotInterruption of node n1: its pods end by"), std::string::npos);
  s.step({AssignmentUpdated{{WorkloadUid("w"), 1}, false, {}},
          NodeUpdated{NodeName("n1"), false, false, true, 0, {}, InstanceId()}},
         kNow + seconds(2));
  EXPECT_EQ(s.keys(), (std::vector<std::string>{"evict/w/1/n1 ends", "drain/n1 ends"}));
}

// Placement requires its eviction: the order has the reason, and is restored from its row.
TEST(Encode, CheckpointOrdersAndEvictions) {
  Stored s;
  const AttemptId id{WorkloadUid("w"), 1};
  s.step({WorkloadUpdated{WorkloadUid("w"), 1, true, false},
          SaveRequested{id, NodeName("n1"), "MigLayout", kNow + seconds(9)}},
         kNow);
  EXPECT_EQ(s.engine.tables().saves.size(), 1U);
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  s.step({AssignmentUpdated{id, true, {NodeName("n1")}}}, kNow + seconds(1));
  EXPECT_EQ(s.keys(), (std::vector<std::string>{"checkpoint/w/1/n1"}));
  EXPECT_EQ(s.events()[0].checkpoint().reason(), "MigLayout");
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  s.step({saved_on_n1()}, kNow + seconds(2));
  EXPECT_EQ(s.keys(), (std::vector<std::string>{"evict/w/1/n1", "checkpoint/w/1/n1 ends"}));
  // S-244: the checkpoint is registered with address, epoch and step, and its row is restored.
  const auto& saved = s.events()[1].checkpoint();
  EXPECT_EQ(saved.epoch(), 2);
  EXPECT_EQ(saved.bytes(), 100);
  EXPECT_EQ(saved.took_us(), 7);
  EXPECT_EQ(saved.number(), 1);
  EXPECT_EQ(s.engine.tables().checkpoints.find(id.uid)->saved.uri, "s3://5");
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  EXPECT_EQ(s.events()[0].eviction().reason(), "MigLayout");
  EXPECT_EQ(s.events()[0].eviction().resume_uri(), "s3://5");
}

TEST(Encode, TheDumpShowsTheState) {
  Stored s;
  DemandUpdated::Item item{{WorkloadUid("w"), 1}, {PodSet{}}, 5, kNow};
  item.pod_sets[0].shape.gpu.whole = 8;
  s.step({PoolsApplied{{pool()}}, DemandUpdated{{item}}}, kNow);
  const Json dump = qm::testing::whole_state<service::StateDump>(Codec{}, s.engine);
  EXPECT_EQ(dump["claims"]["gpu-00001"]["state"].string(), "Requested");
  EXPECT_EQ(dump["demand"].items().size(), 1U);
}

TEST(Encode, TheDumpShowsReplicas) {
  Stored s;
  Pool fixed = pool();
  fixed.replicas = 2;
  s.step({PoolsApplied{{fixed}}}, kNow);
  EXPECT_EQ(s.last.intents.size(), 2U);
  EXPECT_EQ(s.digest_after_restart(), s.engine.digest());
  EXPECT_EQ(s.engine.tables().pools.find("gpu")->replicas, 2);
  const Json dump = qm::testing::whole_state<service::StateDump>(Codec{}, s.engine);
  EXPECT_EQ(dump["replicas"]["gpu"]["have"].integer(), 2);
  EXPECT_EQ(dump["replicas"]["gpu"]["want"].integer(), 2);
}

}  // namespace codec_test
}  // namespace qm::autoscaler
