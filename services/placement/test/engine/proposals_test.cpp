// The victims of a workload that has quota and no placement, and the outcomes of the proposal.
#include "test/engine/preemption_fixture.hpp"

namespace qm::placement::testing {
namespace proposals_test {

TEST_F(Proposals, CheaperPairOfVictimsIsProposedAndItsCapacityReserved) {
  two_nodes();
  EXPECT_EQ(script.run(R"(
    want big/1 1x8 prio=10 preempt=own
      => propose 1 big/1 $2.99: b1/1 b2/1
      => short big/1 0 of 1 pods fit: 2 eligible nodes have 8 free GPUs, needs 8; 2 have fewer than the 8 free GPUs that a pod requests
      => demand big/1
    answer big/1 accepted
      => short big/1 0 of 1 pods fit: 2 eligible nodes have 8 free GPUs, needs 8; 2 have fewer than the 8 free GPUs that a pod requests
      => demand
  )"),
            "");
  // A third workload that would fit where a victim ran does not get its capacity.
  play("phase b1/1 evicting deadline=30");
  EXPECT_EQ(script.run(R"(
    pod-gone b1/1#0
      => released b1/1 0:b[0,1]*-
    want third/1 1x6
      => short third/1 0 of 1 pods fit: 2 eligible nodes have 4 free GPUs, needs 6; 2 have fewer than the 6 free GPUs that a pod requests
      => demand third/1
  )"),
            "");
  play("phase b2/1 evicting deadline=30");
  EXPECT_EQ(script.run(R"(
    pod-gone b2/1#0
      => withdraw 1 big/1
      => released b2/1 0:b[2,3]*-
      => reserved big/1 0:b[0,1,2,3,4,5,6,7]
      => demand third/1
  )"),
            "");
  EXPECT_EQ(row("big"), nullptr);
}

TEST_F(Proposals, RefusedVictimIsNotProposedAgain) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  ASSERT_EQ(victims_of("big"), "b1/1 b2/1");
  play("answer big/1 MinimumRunTime refused=b1");
  EXPECT_EQ(victims_of("big"), "");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "a1/1 a2/1") << "without b1 nothing comes free on b";
  play("answer big/1 MinimumRunTime refused=a1");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "") << "no candidates are left";
  play("tick 610");
  EXPECT_EQ(victims_of("big"), "b1/1 b2/1") << "the refusal has expired";
}

TEST_F(Proposals, RefusalWithoutVictimsIsRetriedWithBackOff) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  play("answer big/1 EvictionBudget");
  EXPECT_EQ(row("big")->last, "EvictionBudget");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "b1/1 b2/1");
  play("answer big/1 EvictionBudget");
  play("tick 3");
  EXPECT_EQ(victims_of("big"), "") << "twice as long";
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "b1/1 b2/1");
}

TEST_F(Proposals, OnlyCandidatesAreVictims) {
  two_nodes();
  run_on("same", "a", "1x1", "prio=10");
  run_on("other", "b", "1x1", "queue=other");
  play("want big/1 1x8 prio=10 preempt=own");
  EXPECT_EQ(victims_of("big"), "") << "on a is one of the same priority, on b one of another queue";
  play("phase big/1 cancelled");
  play("tick 1");
  play("want huge/1 1x8 prio=11 preempt=both");
  EXPECT_EQ(victims_of("huge"), "b1/1 b2/1 other/1");
}

TEST_F(Proposals, NoVictimsWithoutPreemptionPolicy) {
  two_nodes();
  play("want big/1 1x8 prio=10");
  play("tick 60");
  EXPECT_EQ(victims_of("big"), "");
}

TEST_F(Proposals, WorkloadInMinimumRunTimeIsNotAVictim) {
  two_nodes();
  play("phase b2/1 admitted min-runtime=60");
  play("want big/1 1x8 prio=10 preempt=own");
  EXPECT_EQ(victims_of("big"), "a1/1 a2/1");
}

TEST_F(Proposals, NoVictimsForWorkloadThatFitsNowhere) {
  two_nodes();
  play("want big/1 1x9 prio=10 preempt=own");
  EXPECT_EQ(victims_of("big"), "");
  EXPECT_EQ(row("big")->last, "NoSufficientVictims");
}

class PreemptionDisabled : public Proposals {
 protected:
  PreemptionDisabled() : Proposals(Options()) {}
};

TEST_F(PreemptionDisabled, NoVictims) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  play("tick 60");
  EXPECT_EQ(row("big"), nullptr);
}

class PreemptionDelay : public Proposals {
 protected:
  PreemptionDelay() : Proposals(preemption(std::chrono::seconds(30))) {}
};

TEST_F(PreemptionDelay, WaitsForCapacityPromise) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  EXPECT_EQ(victims_of("big"), "");
  play("tick 29");
  EXPECT_EQ(victims_of("big"), "");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "b1/1 b2/1");
}

TEST_F(Proposals, WithoutAnswerIsPublishedThreeTimesThenWithdrawn) {
  two_nodes();
  play("tick 3600");  // so that half a minute more hardly changes the cost of a victim
  play("want big/1 1x8 prio=10 preempt=own");
  EXPECT_EQ(published("tick 29"), "");
  EXPECT_EQ(published("tick 1"), "propose 1 big/1 $51.95: b1/1 b2/1");
  EXPECT_EQ(published("tick 30"), "propose 1 big/1 $51.95: b1/1 b2/1");
  EXPECT_EQ(published("tick 30"), "withdraw 1 big/1");
  EXPECT_EQ(published("tick 599"), "");
  EXPECT_EQ(published("tick 1"), "propose 2 big/1 $61.34: b1/1 b2/1");
}

TEST_F(Proposals, VictimsMayFinishBeforeTheAnswer) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  terminate("b1");
  EXPECT_EQ(victims_of("big"), "b1/1 b2/1");
  terminate("b2");
  EXPECT_EQ(state_of("big"), AssignmentState::kReserved);
  EXPECT_EQ(row("big"), nullptr);
  EXPECT_EQ(published("answer big/1 accepted number=1"), "") << "that proposal is gone";
}

TEST_F(Proposals, InvalidProposalIsReplaced) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  play("answer big/1 accepted");
  EXPECT_EQ(row("big")->state, ProposalState::kAccepted);
  EXPECT_EQ(published("node-gone b"), "withdraw 1 big/1");
  EXPECT_EQ(row("big")->last, "Stale");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "a1/1 a2/1");

  // An unanswered proposal is checked again before it is published again.
  play("phase a1/1 finished");
  play("pod-gone a1/1#0");
  EXPECT_EQ(published("tick 30"), "withdraw 2 big/1\npropose 3 big/1 $7.83: a2/1") << "a1 has finished";
}

TEST_F(Proposals, ProposalEndsIfVictimsFreedTooLittle) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  play("answer big/1 accepted");
  play("unmanaged thief on=b gpus=1 devices=7");
  EXPECT_EQ(row("big")->last, "Stale");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "a1/1 a2/1");
}

TEST_F(Proposals, HigherPriorityMayUseReservedCapacity) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  play("answer big/1 accepted");
  terminate("b1");
  play("want boss/1 1x6 prio=20");
  EXPECT_EQ(state_of("boss"), AssignmentState::kReserved) << "half of the reserved capacity, and the free capacity";
  EXPECT_EQ(row("big")->last, "Stale");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "a1/1 a2/1");
}

TEST_F(Proposals, WithdrawnRequestFreesReservedCapacity) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  play("want small/1 1x4 select=host=b");
  EXPECT_EQ(state_of("small"), AssignmentState::kShort);
  EXPECT_EQ(published("phase big/1 cancelled"), "withdraw 1 big/1");
  EXPECT_EQ(state_of("small"), AssignmentState::kReserved);
}

TEST_F(Proposals, TwoPendingWorkloadsShareNoVictim) {
  two_nodes();
  play("want big/1 1x8 prio=10 preempt=own");
  play("want more/1 1x8 prio=10 preempt=own");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "b1/1 b2/1");
  EXPECT_EQ(victims_of("more"), "a1/1 a2/1");
}

class ProposalsInRacks : public Proposals {
 protected:
  static Options racks() {
    Options options = preemption();
    options.topology = {"rack"};
    return options;
  }
  ProposalsInRacks() : Proposals(racks()) {}
};

TEST_F(ProposalsInRacks, GangGetsItsRack) {
  for (const char* node : {"a", "b", "c", "d"})
    play(fmt::format("node {0} gpus=8 label=host={0} label=rack={1}", node, node[0] < 'c' ? "r1" : "r2"));
  play("synced");
  run_on("a1", "a", "1x8");
  run_on("c1", "c", "1x1");
  run_on("d1", "d", "1x1");
  play("tick 100");
  play("want ring/1 2x8 prio=10 preempt=own required=rack");
  EXPECT_EQ(victims_of("ring"), "c1/1 d1/1") << "two GPUs lose their work instead of eight";
}

}  // namespace proposals_test
}  // namespace qm::placement::testing
