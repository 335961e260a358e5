// Victims that migrate for a pending workload: where they are placed, and the outcomes.
#include "test/engine/preemption_fixture.hpp"

namespace qm::placement::testing {
namespace migrations_test {

class Migrations : public Proposals {
 protected:
  Migrations() = default;
  explicit Migrations(const Options& options) : Proposals(options) {}

  /// Runs a job where it is placed: on the only node so far with free capacity.
  void runs(const std::string& job, const std::string& what, const std::string& rest = "") {
    play(fmt::format("want {}/1 {} {}", job, what, rest));
    ASSERT_EQ(state_of(job), AssignmentState::kReserved) << job;
    play(fmt::format("phase {}/1 admitted", job));
    const auto members = script.engine().tables().assignments.find({WorkloadUid(job), 1})->members;
    for (const Member& member : members) play(fmt::format("pod {}/1#{}", job, member.index));
    for (const Member& member : members) play(fmt::format("pod {}/1#{} on={} running", job, member.index, member.node));
  }
  /// Half of each of two nodes is in use, by work that may be moved anywhere. All of it has equal priority.
  void two_halves(const std::string& rest = "") {
    play("node a gpus=8");
    play("synced");
    runs("a1", "1x4", rest);
    runs("filler", "1x4");
    play("node b gpus=8");
    play("tick 60");
    runs("b1", "1x4", rest);
    play("tick 60");
    play("phase filler/1 finished");
    play("pod-gone filler/1#0");
    play("tick 1");
  }
  /// The victims and their targets: "a1>b" migrates to b, "a1" is evicted.
  [[nodiscard]] std::string victim_targets(const std::string& uid) {
    std::string out;
    const Proposal* proposal = row(uid);
    if (proposal == nullptr) return out;
    for (const auto& victim : proposal->victims) {
      out += (out.empty() ? "" : " ") + victim.id.uid.value();
      for (const HeldCapacity& place : victim.to) out += ">" + place.node.value();
    }
    return out;
  }
  [[nodiscard]] std::string nodes_of(const std::string& uid, int attempt) {
    std::string out;
    const Assignment* there = script.engine().tables().assignments.find({WorkloadUid(uid), attempt});
    for (const Member& member : there == nullptr ? std::vector<Member>() : there->members) out += member.node.value();
    return out;
  }
};

TEST_F(Migrations, EqualPriorityVictimIsPlacedOnItsTarget) {
  two_halves();
  play("want big/1 1x8");
  EXPECT_EQ(victim_targets("big"), "b1>a") << "the workload with the shorter run time";
  play("answer big/1 accepted");
  EXPECT_EQ(victim_targets("big"), "b1") << "its place belongs to its own row now";
  ASSERT_NE(row("b1"), nullptr);
  EXPECT_EQ(row("b1")->state, ProposalState::kAccepted);
  terminate("b1");
  EXPECT_EQ(nodes_of("big", 1), "b");
  play("want b1/2 1x4");
  EXPECT_EQ(nodes_of("b1", 2), "a");
  EXPECT_EQ(row("b1"), nullptr);
  EXPECT_EQ(row("big"), nullptr);
}

TEST_F(Migrations, TargetIsNotGivenToOthers) {
  two_halves();
  play("want big/1 1x8");
  play("want other/1 1x3");
  EXPECT_EQ(state_of("other"), AssignmentState::kShort) << "half of a is reserved for b1, and b for big";
  play("answer big/1 accepted");
  play("tick 1");
  terminate("b1");
  play("want more/1 1x1");
  EXPECT_EQ(state_of("more"), AssignmentState::kShort);
  play("want b1/2 1x4");
  EXPECT_EQ(nodes_of("b1", 2), "a");
}

TEST_F(Migrations, VictimGoneBeforeTheAnswerKeepsItsTarget) {
  two_halves();
  play("want big/1 1x8");
  terminate("b1");
  EXPECT_EQ(nodes_of("big", 1), "b") << "there is free capacity by now";
  play("want b1/2 1x4");
  EXPECT_EQ(nodes_of("b1", 2), "a");
}

TEST_F(Migrations, OneOfTwoVictimsGoneBeforeTheAnswerKeepsItsTarget) {
  play("node a gpus=8");
  play("synced");
  runs("a1", "1x4");
  runs("filler", "1x4");
  play("node b gpus=8");
  runs("b1", "1x2");
  runs("b2", "1x2");
  play("tick 60");
  play("phase filler/1 finished");
  play("pod-gone filler/1#0");
  play("phase a1/1 admitted min-runtime=600");
  play("want big/1 1x8");
  ASSERT_EQ(victim_targets("big"), "b1>a b2>a");
  terminate("b1");
  play("want b1/2 1x2");
  EXPECT_EQ(nodes_of("b1", 2), "a");
  EXPECT_EQ(row("big")->state, ProposalState::kProposed) << "b2 is still there";
  play("want thief/1 1x2");
  EXPECT_EQ(state_of("thief"), AssignmentState::kShort)
      << "b2 is not deleted yet, and the rest of a is reserved for it";
  terminate("b2");
  play("want b2/2 1x2");
  EXPECT_EQ(nodes_of("big", 1) + nodes_of("b2", 2), "ba");
}

TEST_F(Migrations, HigherPriorityIsNotMigrated) {
  two_halves("prio=1");
  play("want big/1 1x8");
  EXPECT_EQ(victim_targets("big"), "");
  EXPECT_EQ(row("big")->last, "NoPreemptionCandidates");
}

TEST_F(Migrations, WorkloadWithoutTargetIsNotMigrated) {
  two_halves();
  runs("a2", "1x2");
  play("want big/1 1x8");
  EXPECT_EQ(victim_targets("big"), "");
  EXPECT_EQ(row("big")->last, "NoSufficientVictims");
}

TEST_F(Migrations, ImmovableWorkloadIsNotMigrated) {
  two_halves("movable=false");
  play("want big/1 1x8");
  EXPECT_EQ(victim_targets("big"), "");
}

TEST_F(Migrations, LowerPriorityIsMigratedIfPossibleElseEvicted) {
  two_halves();
  play("want big/1 1x8 prio=10 preempt=own");
  EXPECT_EQ(victim_targets("big"), "b1>a");
  play("phase big/1 cancelled");
  runs("a2", "1x2");
  play("phase a1/1 admitted min-runtime=600");
  play("want more/1 1x8 prio=10 preempt=own");
  play("tick 1");
  EXPECT_EQ(victim_targets("more"), "b1");
}

TEST_F(Migrations, TargetUsedByHigherPriorityIsWithdrawn) {
  two_halves();
  play("want big/1 1x8");
  play("want boss/1 1x3 prio=5");
  EXPECT_EQ(nodes_of("boss", 1), "a");
  EXPECT_EQ(row("big")->last, "Stale");
}

TEST_F(Migrations, RefusedProposalReservesNothing) {
  two_halves();
  play("want big/1 1x8");
  play("answer big/1 OtherWorkloadsPending refused=b1");
  EXPECT_EQ(row("big")->last, "OtherWorkloadsPending");
  play("tick 1");
  EXPECT_EQ(victim_targets("big"), "a1>b");
}

TEST_F(Migrations, TargetReservationExpires) {
  two_halves();
  play("want big/1 1x8");
  play("answer big/1 accepted");
  terminate("b1");
  play("phase b1/2 pending");
  play("tick 599");
  ASSERT_NE(row("b1"), nullptr);
  play("tick 1");
  EXPECT_TRUE(row("b1") == nullptr || !row("b1")->is_active());
}

class OnlyOneWay : public Migrations {
 protected:
  explicit OnlyOneWay(bool evicting) : Migrations(only(evicting)) {}
  static Options only(bool evicting) {
    Options options = preemption();
    options.preemption.evicting = evicting;
    options.preemption.moving = !evicting;
    return options;
  }
};

class MigrationsOnly : public OnlyOneWay {
 protected:
  MigrationsOnly() : OnlyOneWay(false) {}
};

TEST_F(MigrationsOnly, NothingIsEvicted) {
  two_halves();
  runs("a2", "1x2");
  play("want big/1 1x8 prio=10 preempt=own");
  EXPECT_EQ(victim_targets("big"), "");
  play("phase a2/1 finished");
  play("pod-gone a2/1#0");
  play("tick 60");
  EXPECT_EQ(victim_targets("big"), "b1>a");
}

class EvictionsOnly : public OnlyOneWay {
 protected:
  EvictionsOnly() : OnlyOneWay(true) {}
};

TEST_F(EvictionsOnly, NothingIsMigrated) {
  two_halves();
  play("want equal/1 1x8");
  EXPECT_EQ(victim_targets("equal"), "");
  play("phase equal/1 cancelled");
  play("want big/1 1x8 prio=10 preempt=own");
  EXPECT_EQ(victim_targets("big"), "b1");
}

class MigrationCostLimit : public Migrations {
 protected:
  static Options cost_limit() {
    Options options = preemption();
    options.preemption.max_lost_gpu_seconds =
        91;  // GPU-seconds for each GPU: half as much again as four of eight GPUs lose in a minute and two
    return options;
  }
  MigrationCostLimit() : Migrations(cost_limit()) {}
};

TEST_F(MigrationCostLimit, ExpensiveWorkloadIsNotMigratedForEqualPriority) {
  two_halves();
  play("want big/1 1x8");
  EXPECT_EQ(victim_targets("big"), "b1>a") << "4 GPUs lose 181 s each, for 8";
  play("phase big/1 cancelled");
  play("tick 2");
  play("want late/1 1x8");
  EXPECT_EQ(victim_targets("late"), "");
  play("want boss/1 1x8 prio=10 preempt=own");
  play("tick 1");
  EXPECT_EQ(victim_targets("boss"), "b1>a") << "a workload that may be evicted may lose so much";
}

class MigrationsInRacks : public Migrations {
 protected:
  static Options racks() {
    Options options = preemption();
    options.topology = {"rack"};
    return options;
  }
  MigrationsInRacks() : Migrations(racks()) {}
  /// A pair fills most of one rack, and some GPUs of the next rack are in use for the whole test.
  void pair_and_others(int on_c, int on_d) {
    for (const char* node : {"a", "b"}) play(fmt::format("node {} gpus=8 label=rack=r1", node));
    play("synced");
    runs("pair", "2x5", "required=rack");
    for (const char* node : {"c", "d", "e"})
      play(fmt::format("node {0} gpus=8 label=host={0} label=rack=r{1}", node, *node == 'e' ? 3 : 2));
    run_on("c1", "c", fmt::format("1x{}", on_c));
    run_on("d1", "d", fmt::format("1x{}", on_d));
    for (const char* job : {"c1", "d1"}) play(fmt::format("phase {}/1 admitted min-runtime=900", job));
    play("tick 10");
    play("want ring/1 2x8 required=rack");
  }
};

TEST_F(MigrationsInRacks, GangMovesWholeToAnotherRack) {
  pair_and_others(3, 3);
  EXPECT_EQ(victim_targets("ring"), "pair>c>d");
}

TEST_F(MigrationsInRacks, GangIsNotSplit) {
  pair_and_others(3, 4);
  EXPECT_EQ(victim_targets("ring"), "") << "a pod fits c, and one e, which is in another rack";
}

}  // namespace migrations_test
}  // namespace qm::placement::testing
