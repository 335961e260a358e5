// Proposals as rows and as messages.
#include "messages.hpp"

namespace qm::placement::testing {
namespace proposals_codec_test {

/// Two nodes of eight GPUs with one workload running on each; a pending workload of eight GPUs may preempt them.
Stepped with_a_proposal(std::shared_ptr<Meters> meters = nullptr, int gpus = 5) {
  Options options;
  options.preemption.on = true;
  options.preemption.after = Duration{0};
  Stepped stepped;
  stepped.shell = Shell(std::make_unique<Engine>(options), Codec(std::move(meters)));
  stepped.open();
  for (const char* uid : {"x", "y"}) {
    auto runs = workload_event(uid, 1, pb::ADMITTED, 1, gpus);
    runs.mutable_spec()->set_priority(1);
    runs.set_cluster_queue("q");
    runs.set_admitted_us(900'000);
    stepped.step({latest(runs)});
  }
  return stepped;
}
pb::WorkloadEvent pending_workload() {
  auto waits = workload_event("big", 1, pb::QUOTA_RESERVED, 1, 8);
  waits.mutable_spec()->set_priority(10);
  waits.set_cluster_queue("q");
  waits.mutable_may_preempt()->set_own_queue(true);
  return waits;
}

TEST(Rows, ProposalRoundTrips) {
  auto stepped = with_a_proposal();
  stepped.step({latest(pending_workload())});
  Shell fresh(std::make_unique<Engine>(), Codec());
  const auto same = [&] {
    ASSERT_TRUE(fresh.load(stepped.stored()));
    EXPECT_EQ(fresh.digest(), stepped.shell.digest());
    EXPECT_EQ(fresh.engine().tables().proposals.rows(), stepped.shell.engine().tables().proposals.rows());
    fresh.engine().audit();
  };
  same();
  EXPECT_EQ(fresh.engine().tables().proposals.begin()->second.state, ProposalState::kProposed);
  auto no = pending_workload();
  no.mutable_proposal()->set_number(1);
  no.mutable_proposal()->set_reason("MinimumRunTime");
  no.mutable_proposal()->add_refused("x");
  stepped.step({latest(no)});
  same();
  EXPECT_EQ(fresh.engine().tables().proposals.begin()->second.refused.size(), 1U);
}

TEST(Rows, MigrationTargetRoundTripsAndIsPublished) {
  auto stepped = with_a_proposal(nullptr, 4);
  stepped.step({latest(workload_event("z", 1, pb::ADMITTED, 1, 4))});
  stepped.step({latest(workload_event("x", 1, pb::CANCELLED, 1, 4))});  // half of each node is left
  pb::PlacementEvent event;
  for (const auto& one : stepped.step({latest(pending_workload())}).events) {
    if (one.key == "propose/1") event.ParseFromString(one.payload);
  }
  ASSERT_EQ(event.proposal().victims_size(), 1);
  EXPECT_TRUE(event.proposal().victims(0).moves());
  Shell fresh(std::make_unique<Engine>(), Codec());
  ASSERT_TRUE(fresh.load(stepped.stored()));
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
  const auto& rows = fresh.engine().tables().proposals.rows();
  EXPECT_EQ(rows, stepped.shell.engine().tables().proposals.rows());
  ASSERT_EQ(rows.begin()->second.victims.size(), 1U);
  EXPECT_EQ(rows.begin()->second.victims[0].to.size(), 1U);
}

TEST(Encode, ProposalAndItsEnd) {
  metrics::Registry registry;
  auto stepped = with_a_proposal(std::make_shared<Meters>(registry));
  const auto proposal_in = [](const service::Effects& effects, bool tombstone) {
    pb::PlacementEvent event;
    for (const auto& one : effects.events) {
      if (one.key == "propose/1" && one.tombstone == tombstone) event.ParseFromString(one.payload);
    }
    return event.proposal();
  };
  const auto made = proposal_in(stepped.step({latest(pending_workload())}), false);
  EXPECT_EQ(made.uid(), "big");
  EXPECT_EQ(made.attempt(), 1);
  EXPECT_EQ(made.reason(), "Preemption");
  ASSERT_EQ(made.victims_size(), 1);
  EXPECT_EQ(made.victims(0).uid(), "x");
  // Five GPUs, 100 ms of work and two minutes of restart.
  EXPECT_EQ(made.victims(0).gpu_milliseconds(), 5 * 120'100);
  EXPECT_EQ(made.micro_usd(), 5 * 120'100 * 34 / 10);
  EXPECT_EQ(made.made_us(), micros(stepped.now));
  auto yes = pending_workload();
  yes.mutable_proposal()->set_number(1);
  yes.mutable_proposal()->set_accepted(true);
  stepped.step({latest(yes)});
  auto over = pending_workload();
  over.set_phase(pb::CANCELLED);
  EXPECT_TRUE(proposal_in(stepped.step({latest(over)}), true).withdrawn());
  const auto page = registry.text();
  for (const char* line :
       {"qm_placement_proposals_total{outcome=\"Made\"} 1", "qm_placement_proposals_total{outcome=\"Accepted\"} 1",
        "qm_placement_proposals_total{outcome=\"Over\"} 1", "qm_placement_preempted_gpu_seconds_total 600.5"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
}

}  // namespace proposals_codec_test
}  // namespace qm::placement::testing
