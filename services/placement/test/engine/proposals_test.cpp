// The victims of a workload that has quota and no placement, and the outcomes of the proposal.
#include "test/engine/proposing.hpp"

namespace qm::placement::testing {
namespace proposals_test {

TEST_F(Proposals, TheCheaperPairOfTwoNodesIsNamedAndTheRoomIsItsOwn) {
  two_nodes();
  EXPECT_EQ(script.run(R"(
    want big/1 1x8 prio=10 may=own
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

TEST_F(Proposals, WhoStaysIsNotNamedAgain) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  ASSERT_EQ(named("big"), "b1/1 b2/1");
  play("answer big/1 MinimumRunTime kept=b1");
  EXPECT_EQ(named("big"), "");
  play("tick 1");
  EXPECT_EQ(named("big"), "a1/1 a2/1") << "without b1 nothing comes free on b";
  play("answer big/1 MinimumRunTime kept=a1");
  play("tick 1");
  EXPECT_EQ(named("big"), "") << "nobody is left who makes room";
  play("tick 610");
  EXPECT_EQ(named("big"), "b1/1 b2/1") << "what was so may be otherwise by now";
}

TEST_F(Proposals, RefusalsWithoutNamesAreWaitedOut) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  play("answer big/1 EvictionBudget");
  EXPECT_EQ(row("big")->last, "EvictionBudget");
  play("tick 1");
  EXPECT_EQ(named("big"), "");
  play("tick 1");
  EXPECT_EQ(named("big"), "b1/1 b2/1");
  play("answer big/1 EvictionBudget");
  play("tick 3");
  EXPECT_EQ(named("big"), "") << "twice as long";
  play("tick 1");
  EXPECT_EQ(named("big"), "b1/1 b2/1");
}

TEST_F(Proposals, OnlyWhoMayGoIsNamed) {
  two_nodes();
  run_on("same", "a", "1x1", "prio=10");
  run_on("other", "b", "1x1", "queue=other");
  play("want big/1 1x8 prio=10 may=own");
  EXPECT_EQ(named("big"), "") << "on a is one of the same priority, on b one of another queue";
  play("phase big/1 cancelled");
  play("tick 1");
  play("want huge/1 1x8 prio=11 may=both");
  EXPECT_EQ(named("huge"), "b1/1 b2/1 other/1");
}

TEST_F(Proposals, NobodyIsNamedWhereTheQueueMayDisplaceNobody) {
  two_nodes();
  play("want big/1 1x8 prio=10");
  play("tick 60");
  EXPECT_EQ(named("big"), "");
}

TEST_F(Proposals, WhoHasItsMinimumRunTimeIsNotNamed) {
  two_nodes();
  play("phase b2/1 admitted kept=60");
  play("want big/1 1x8 prio=10 may=own");
  EXPECT_EQ(named("big"), "a1/1 a2/1");
}

TEST_F(Proposals, NobodyIsNamedForWhatFitsNowhere) {
  two_nodes();
  play("want big/1 1x9 prio=10 may=own");
  EXPECT_EQ(named("big"), "");
  EXPECT_EQ(row("big")->last, "NoSetMakesRoom");
}

class NoProposals : public Proposals {
 protected:
  NoProposals() : Proposals(Options()) {}
};

TEST_F(NoProposals, NobodyIsNamed) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  play("tick 60");
  EXPECT_EQ(row("big"), nullptr);
}

class LateProposals : public Proposals {
 protected:
  LateProposals() : Proposals(proposing(std::chrono::seconds(30))) {}
};

TEST_F(LateProposals, WaitsForCapacityToBeAnnounced) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  EXPECT_EQ(named("big"), "");
  play("tick 29");
  EXPECT_EQ(named("big"), "");
  play("tick 1");
  EXPECT_EQ(named("big"), "b1/1 b2/1");
}

TEST_F(Proposals, WithoutAnAnswerItIsSaidThriceAndWithdrawn) {
  two_nodes();
  play("tick 3600");  // so that half a minute more hardly changes the cost of a victim
  play("want big/1 1x8 prio=10 may=own");
  EXPECT_EQ(said("tick 29"), "");
  EXPECT_EQ(said("tick 1"), "propose 1 big/1 $51.95: b1/1 b2/1");
  EXPECT_EQ(said("tick 30"), "propose 1 big/1 $51.95: b1/1 b2/1");
  EXPECT_EQ(said("tick 30"), "withdraw 1 big/1");
  EXPECT_EQ(said("tick 599"), "");
  EXPECT_EQ(said("tick 1"), "propose 2 big/1 $61.34: b1/1 b2/1");
}

TEST_F(Proposals, VictimsMayLeaveBeforeTheAnswerIsHeard) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  leaves("b1");
  EXPECT_EQ(named("big"), "b1/1 b2/1");
  leaves("b2");
  EXPECT_EQ(state_of("big"), AssignmentState::kReserved);
  EXPECT_EQ(row("big"), nullptr);
  EXPECT_EQ(said("answer big/1 accepted number=1"), "") << "by now that is nobody's";
}

TEST_F(Proposals, WhatDoesNotHoldAnyMoreIsMadeAnew) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  play("answer big/1 accepted");
  EXPECT_EQ(row("big")->state, ProposalState::kAccepted);
  EXPECT_EQ(said("node-gone b"), "withdraw 1 big/1");
  EXPECT_EQ(row("big")->last, "Stale");
  play("tick 1");
  EXPECT_EQ(named("big"), "a1/1 a2/1");

  // An unanswered proposal is checked again before it is published again.
  play("phase a1/1 finished");
  play("pod-gone a1/1#0");
  EXPECT_EQ(said("tick 30"), "withdraw 2 big/1\npropose 3 big/1 $7.83: a2/1") << "a1 has ended by itself";
}

TEST_F(Proposals, VictimsThatAreGoneWithoutMakingRoomAreInVain) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  play("answer big/1 accepted");
  play("stranger thief on=b gpus=1 devices=7");
  EXPECT_EQ(row("big")->last, "Stale");
  play("tick 1");
  EXPECT_EQ(named("big"), "a1/1 a2/1");
}

TEST_F(Proposals, AHigherPriorityMayTakeTheRoom) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  play("answer big/1 accepted");
  leaves("b1");
  play("want boss/1 1x6 prio=20");
  EXPECT_EQ(state_of("boss"), AssignmentState::kReserved) << "half of what is kept, and what was free";
  EXPECT_EQ(row("big")->last, "Stale");
  play("tick 1");
  EXPECT_EQ(named("big"), "a1/1 a2/1");
}

TEST_F(Proposals, WithTheWishTheRoomIsFree) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  play("want small/1 1x4 select=host=b");
  EXPECT_EQ(state_of("small"), AssignmentState::kShort);
  EXPECT_EQ(said("phase big/1 cancelled"), "withdraw 1 big/1");
  EXPECT_EQ(state_of("small"), AssignmentState::kReserved);
}

TEST_F(Proposals, TwoWhoWaitNameNobodyTwice) {
  two_nodes();
  play("want big/1 1x8 prio=10 may=own");
  play("want more/1 1x8 prio=10 may=own");
  play("tick 1");
  EXPECT_EQ(named("big"), "b1/1 b2/1");
  EXPECT_EQ(named("more"), "a1/1 a2/1");
}

class RackProposals : public Proposals {
 protected:
  static Options racks() {
    Options options = proposing();
    options.topology = {"rack"};
    return options;
  }
  RackProposals() : Proposals(racks()) {}
};

TEST_F(RackProposals, AGangGetsItsRack) {
  for (const char* node : {"a", "b", "c", "d"})
    play(fmt::format("node {0} gpus=8 label=host={0} label=rack={1}", node, node[0] < 'c' ? "r1" : "r2"));
  play("synced");
  run_on("a1", "a", "1x8");
  run_on("c1", "c", "1x1");
  run_on("d1", "d", "1x1");
  play("tick 100");
  play("want ring/1 2x8 prio=10 may=own required=rack");
  EXPECT_EQ(named("ring"), "c1/1 d1/1") << "two GPUs that lose their work, and not eight";
}

}  // namespace proposals_test
}  // namespace qm::placement::testing
