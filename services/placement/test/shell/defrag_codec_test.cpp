// The defragmentation plan that is being executed, as rows, as messages, and with names.
#include "messages.hpp"
#include "qm/placement/api.hpp"

namespace qm::placement::testing {
namespace defrag_codec_test {

/// Half of each of two nodes is in use by work that may be moved anywhere, and a search is due.
Stepped half_empty(std::shared_ptr<Meters> meters = nullptr) {
  Options options;
  options.defrag.on = true;
  options.defrag.every = std::chrono::seconds(60);
  Stepped stepped;
  stepped.shell = Shell(std::make_unique<Engine>(options), Codec(std::move(meters)));
  stepped.open();
  for (const char* uid : {"x", "y", "z"}) {
    auto runs = workload_event(uid, 1, pb::ADMITTED, 1, 4);
    runs.set_admitted_us(1'000'000);
    stepped.step({latest(runs)});
  }
  stepped.step({latest(workload_event("x", 1, pb::FINISHED, 1, 4))});
  stepped.now += std::chrono::seconds(60);
  return stepped;
}
pb::WorkloadEvent answered(bool accepted) {
  auto out = workload_event("y", 1, accepted ? pb::EVICTING : pb::ADMITTED, 1, 4);
  out.set_admitted_us(1'000'000);
  out.mutable_proposal()->set_number(1);
  out.mutable_proposal()->set_accepted(accepted);
  if (!accepted) out.mutable_proposal()->set_reason("OtherWorkloadsPending");
  return out;
}

TEST(Rows, DefragPlanRoundTrips) {
  for (const bool accepted : {true, false}) {
    auto stepped = half_empty();
    stepped.step({input_of(Source::kTimer, {}, {})});
    Shell fresh(std::make_unique<Engine>(), Codec());
    const auto same = [&] {
      ASSERT_TRUE(fresh.load(stepped.stored()));
      EXPECT_EQ(fresh.digest(), stepped.shell.digest());
      EXPECT_EQ(fresh.engine().tables().defrag_run.rows(), stepped.shell.engine().tables().defrag_run.rows());
      EXPECT_EQ(fresh.engine().tables().proposals.rows(), stepped.shell.engine().tables().proposals.rows());
      fresh.engine().audit();
    };
    same();
    EXPECT_TRUE(fresh.engine().tables().defrag_run.find(0)->is_active());
    EXPECT_TRUE(fresh.engine().tables().proposals.find(WorkloadUid("y"))->move);
    stepped.step({latest(answered(accepted))});
    same();
    EXPECT_EQ(fresh.engine().tables().defrag_run.find(0)->refused.size(), accepted ? 0U : 1U);
  }
}

TEST(Encode, MigrationAndReclaimedNodes) {
  metrics::Registry registry;
  auto stepped = half_empty(std::make_shared<Meters>(registry));
  pb::PlacementEvent event;
  for (const auto& one : stepped.step({input_of(Source::kTimer, {}, {})}).events) {
    if (one.key == "propose/1") event.ParseFromString(one.payload);
  }
  const auto& asked = event.proposal();
  EXPECT_EQ(asked.reason(), "Consolidation");
  EXPECT_EQ(asked.uid(), "y");
  ASSERT_EQ(asked.victims_size(), 1);
  EXPECT_EQ(asked.victims(0).uid(), "y");
  EXPECT_EQ(asked.victims(0).gpu_milliseconds(), 4 * 180'000) << "a minute of work, and two minutes of restart";
  EXPECT_EQ(asked.micro_usd(), 4 * 180 * 3'400);

  pb::DefragmentationPlan plan;
  add_under_way(stepped.shell.engine(), plan);
  EXPECT_EQ(plan.run().nodes(), 1);
  EXPECT_EQ(plan.run().migrating_uid(), "y");
  ASSERT_EQ(plan.run().steps_size(), 1);
  const auto& step = plan.run().steps(0);
  EXPECT_EQ(step.gpu_seconds(), 4 * 180);
  ASSERT_EQ(step.moves_size(), 1);
  EXPECT_EQ(step.moves(0).workload(), "job-y");
  ASSERT_EQ(step.moves(0).from_size(), 1);
  EXPECT_EQ(step.moves(0).from(0), step.nodes(0));
  ASSERT_EQ(step.moves(0).to_size(), 1);
  EXPECT_NE(step.moves(0).to(0), step.nodes(0));

  stepped.step({latest(answered(true))});
  stepped.step({latest(workload_event("y", 2, pb::QUOTA_RESERVED, 1, 4))});
  plan.Clear();
  add_under_way(stepped.shell.engine(), plan);
  EXPECT_FALSE(plan.has_run());
  EXPECT_EQ(plan.last(), "Done");
  const auto page = registry.text();
  for (const char* line :
       {"qm_placement_migrations_total{outcome=\"Made\"} 1", "qm_placement_migrations_total{outcome=\"Accepted\"} 1",
        "qm_placement_migrations_total{outcome=\"Placed\"} 1", "qm_placement_nodes_reclaimed_total 1",
        "qm_placement_migrated_gpu_seconds_total 720"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << "\n" << page;
  }
}

}  // namespace defrag_codec_test
}  // namespace qm::placement::testing
