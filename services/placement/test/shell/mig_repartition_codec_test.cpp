// GPUs that are repartitioned for pending workloads, and work that saves a checkpoint before it is
// evicted: as rows, messages and words.
#include "messages.hpp"
#include "qm/placement/api.hpp"
#include "qm/testing/state.hpp"

#include <gmock/gmock.h>

namespace qm::placement::testing {
namespace mig_repartition_codec_test {

using ::testing::HasSubstr;

Json gpu_node(const Labels& labels = {}) {
  Json node = make_node("a", 1);
  Json& out = node.set("metadata").set("labels");
  out.set("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3").set("nvidia.com/gpu.count", "1");
  for (const auto& [key, value] : labels) out.set(key, value);
  return node;
}
pb::WorkloadEvent wants_an_instance(pb::WorkloadPhase phase) {
  auto event = workload_event("w", 1, phase, 1, 0);
  auto* gpu = event.mutable_spec()->mutable_pod_sets(0)->mutable_shape()->mutable_gpu();
  gpu->set_mig_profile("1g.10gb");
  gpu->set_mig_count(1);
  return event;
}
std::string words(const Engine& engine) {
  pb::GetAssignmentRequest request;
  request.set_uid("w");
  rpc::Caller all;
  all.everything = true;
  const auto answer = get_assignment(engine, request, all);
  return answer ? answer->layout() : answer.error().to_string();
}

TEST(Rows, MigRepartitionRoundTripsAndIsPublished) {
  metrics::Registry registry;
  Options options;
  options.mig_repartition.on = true;
  options.mig_repartition.after = Duration{0};
  Stepped stepped;
  stepped.shell = Shell(std::make_unique<Engine>(options), Codec(std::make_shared<Meters>(registry)));
  stepped.now += std::chrono::minutes(1);
  stepped.step({watch_of("node", gpu_node()), watch_of("node.synced", Json::array({"a"})),
                watch_of("pod.synced", Json::array())});
  const auto effects = stepped.step({latest(wants_an_instance(pb::QUOTA_RESERVED))});
  const Engine& engine = stepped.shell.engine();
  ASSERT_EQ(effects.intents.size(), 1U);
  EXPECT_EQ(effects.intents[0].kind, "node.cordon");
  EXPECT_EQ(list_layouts(engine, {})->nodes(0).order().request_uid(), "w");
  EXPECT_EQ(words(engine), "node a is being repartitioned to all-balanced for it: the node is being cordoned");
  EXPECT_THAT(registry.text(), HasSubstr("qm_placement_mig_repartitions_total 1"));
  EXPECT_EQ(qm::testing::whole_state<service::StateDump>(Codec(), engine).path("cuts.a.kept_for").string(), "w");

  Shell fresh(std::make_unique<Engine>(), Codec());
  const auto same = [&] {
    ASSERT_TRUE(fresh.load(stepped.stored()));
    EXPECT_EQ(fresh.digest(), stepped.shell.digest());
    EXPECT_EQ(fresh.engine().tables().repartitions.rows(), engine.tables().repartitions.rows());
    EXPECT_EQ(fresh.engine().tables().meta.find(0)->repartition.size(), 1U);
    fresh.engine().audit();
  };
  same();
  stepped.step({latest(wants_an_instance(pb::CANCELLED))});
  same();
  EXPECT_FALSE(fresh.engine().tables().repartitions.find(NodeName("a"))->reserved_for->waits);
}

// A victim has to leave before the GPUs are repartitioned.
TEST(Rows, DrainForRepartitionRoundTripsAndIsPublished) {
  Options options;
  options.mig_repartition.on = options.preemption.on = true;
  options.mig_repartition.after = options.preemption.after = Duration{0};
  Stepped stepped;
  stepped.shell = Shell(std::make_unique<Engine>(options), Codec());
  stepped.step({watch_of("node", gpu_node()), watch_of("node.synced", Json::array({"a"})),
                watch_of("pod.synced", Json::array())});
  auto runs = workload_event("x", 1, pb::ADMITTED, 1, 1);
  runs.set_cluster_queue("q");
  stepped.step({latest(runs)});
  auto waits = wants_an_instance(pb::QUOTA_RESERVED);
  waits.mutable_spec()->set_priority(10);
  waits.set_cluster_queue("q");
  waits.mutable_may_preempt()->set_own_queue(true);
  stepped.step({latest(waits)});
  const Engine& engine = stepped.shell.engine();
  EXPECT_EQ(words(engine), "preemption requested: team/job-x; then node a is repartitioned to all-balanced for it");
  EXPECT_EQ(qm::testing::whole_state<service::StateDump>(Codec(), engine).path("proposals.w.cuts.a").string(),
            "all-balanced");
  Shell fresh(std::make_unique<Engine>(options), Codec());
  ASSERT_TRUE(fresh.load(stepped.stored()));
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
  EXPECT_EQ(fresh.engine().tables().proposals.rows(), engine.tables().proposals.rows());
  EXPECT_EQ(fresh.engine().tables().proposals.begin()->second.repartitions,
            (NodeLayouts{{NodeName("a"), "all-balanced"}}));
  fresh.engine().audit();
}

// A layout requires the GPUs of work that keeps checkpoints: the work is ordered to save first, with a time limit.
TEST(Encode, EvictionsWithCheckpoint) {
  Options options;
  options.layout_windows = {*relayout::weekly_of("00:00-00:00")};
  Stepped stepped;
  stepped.shell = Shell(std::make_unique<Engine>(options), Codec());
  stepped.step({watch_of("node", gpu_node()), watch_of("node.synced", Json::array({"a"})),
                watch_of("pod.synced", Json::array())});
  auto runs = workload_event("w", 1, pb::ADMITTED, 1, 1);
  runs.mutable_spec()->set_checkpoints(true);
  stepped.step({latest(runs)});
  pb::OrderLayoutsRequest order;
  order.set_manifest("apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {nvidia.com/mig.config: all-1g.10gb}}\n");
  stepped.step({input_of(Source::kRequest, "OrderLayouts", order.SerializeAsString())});
  Json cordoned = gpu_node();
  cordoned.set("metadata").set("annotations", Json::object({{"quartermaster.dev/cordoned-by", "layout"}}));
  cordoned.set("spec").set("unschedulable", true);
  const auto effects = stepped.step({watch_of("node", cordoned)});
  pb::PlacementEvent event;
  for (const auto& one : effects.events) {
    if (one.key == "evict/w/1") event.ParseFromString(one.payload);
  }
  EXPECT_EQ(event.eviction().reason(), "MigLayout");
  EXPECT_EQ(event.eviction().save_until_us(), micros(stepped.now + std::chrono::minutes(5)));
  EXPECT_EQ(event.eviction().deadline_us(), event.eviction().save_until_us());
  Shell fresh(std::make_unique<Engine>(options), Codec());
  ASSERT_TRUE(fresh.load(stepped.stored()));
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
}

}  // namespace mig_repartition_codec_test
}  // namespace qm::placement::testing
