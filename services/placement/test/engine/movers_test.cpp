// Victims that migrate for a pending workload: where they are placed, and the outcomes.
#include "test/engine/proposing.hpp"

namespace qm::placement::testing {
namespace movers_test {

class Movers : public Proposals {
 protected:
  Movers() = default;
  explicit Movers(const Options& options) : Proposals(options) {}

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
  [[nodiscard]] std::string ways(const std::string& uid) {
    std::string out;
    const Proposal* proposal = row(uid);
    if (proposal == nullptr) return out;
    for (const auto& victim : proposal->victims) {
      out += (out.empty() ? "" : " ") + victim.id.uid.value();
      for (const HeldPlace& place : victim.to) out += ">" + place.node.value();
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

TEST_F(Movers, AnEqualIsPutElsewhereAndComesBackThere) {
  two_halves();
  play("want big/1 1x8");
  EXPECT_EQ(ways("big"), "b1>a") << "what ran for a shorter time";
  play("answer big/1 accepted");
  EXPECT_EQ(ways("big"), "b1") << "his place is his own row's now";
  ASSERT_NE(row("b1"), nullptr);
  EXPECT_EQ(row("b1")->state, ProposalState::kAccepted);
  leaves("b1");
  EXPECT_EQ(nodes_of("big", 1), "b");
  play("want b1/2 1x4");
  EXPECT_EQ(nodes_of("b1", 2), "a");
  EXPECT_EQ(row("b1"), nullptr);
  EXPECT_EQ(row("big"), nullptr);
}

TEST_F(Movers, NobodyElseGetsHisPlace) {
  two_halves();
  play("want big/1 1x8");
  play("want other/1 1x3");
  EXPECT_EQ(state_of("other"), AssignmentState::kShort) << "half of a is kept for b1, and b for big";
  play("answer big/1 accepted");
  play("tick 1");
  leaves("b1");
  play("want more/1 1x1");
  EXPECT_EQ(state_of("more"), AssignmentState::kShort);
  play("want b1/2 1x4");
  EXPECT_EQ(nodes_of("b1", 2), "a");
}

TEST_F(Movers, WhoHasGoneBeforeTheAnswerIsHeardFindsHisPlace) {
  two_halves();
  play("want big/1 1x8");
  leaves("b1");
  EXPECT_EQ(nodes_of("big", 1), "b") << "there is room by now";
  play("want b1/2 1x4");
  EXPECT_EQ(nodes_of("b1", 2), "a");
}

TEST_F(Movers, OneOfTwoWhoGoBeforeTheAnswerIsHeardFindsHisPlace) {
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
  play("phase a1/1 admitted kept=600");
  play("want big/1 1x8");
  ASSERT_EQ(ways("big"), "b1>a b2>a");
  leaves("b1");
  play("want b1/2 1x2");
  EXPECT_EQ(nodes_of("b1", 2), "a");
  EXPECT_EQ(row("big")->state, ProposalState::kAsked) << "b2 is still there";
  play("want thief/1 1x2");
  EXPECT_EQ(state_of("thief"), AssignmentState::kShort) << "b2 has not gone yet, and the rest of a is for him";
  leaves("b2");
  play("want b2/2 1x2");
  EXPECT_EQ(nodes_of("big", 1) + nodes_of("b2", 2), "ba");
}

TEST_F(Movers, NobodyOfAHigherPriority) {
  two_halves("prio=1");
  play("want big/1 1x8");
  EXPECT_EQ(ways("big"), "");
  EXPECT_EQ(row("big")->last, "NobodyMayGiveWay");
}

TEST_F(Movers, NobodyWhoHasNowhereToGo) {
  two_halves();
  runs("a2", "1x2");
  play("want big/1 1x8");
  EXPECT_EQ(ways("big"), "");
  EXPECT_EQ(row("big")->last, "NoSetMakesRoom");
}

TEST_F(Movers, NobodyWhoSaysThatHeStays) {
  two_halves("movable=false");
  play("want big/1 1x8");
  EXPECT_EQ(ways("big"), "");
}

TEST_F(Movers, WhoIsLowerMovesIfThereIsRoomAndIsEvictedIfThereIsNone) {
  two_halves();
  play("want big/1 1x8 prio=10 may=own");
  EXPECT_EQ(ways("big"), "b1>a");
  play("phase big/1 cancelled");
  runs("a2", "1x2");
  play("phase a1/1 admitted kept=600");
  play("want more/1 1x8 prio=10 may=own");
  play("tick 1");
  EXPECT_EQ(ways("more"), "b1");
}

TEST_F(Movers, WhomAHigherPriorityTakesThePlaceFromIsNotSentThere) {
  two_halves();
  play("want big/1 1x8");
  play("want boss/1 1x3 prio=5");
  EXPECT_EQ(nodes_of("boss", 1), "a");
  EXPECT_EQ(row("big")->last, "Stale");
}

TEST_F(Movers, WhatIsRefusedKeepsNothing) {
  two_halves();
  play("want big/1 1x8");
  play("answer big/1 OthersWait kept=b1");
  EXPECT_EQ(row("big")->last, "OthersWait");
  play("tick 1");
  EXPECT_EQ(ways("big"), "a1>b");
}

TEST_F(Movers, HisNewPlaceIsKeptForAWhileAndNoLonger) {
  two_halves();
  play("want big/1 1x8");
  play("answer big/1 accepted");
  leaves("b1");
  play("phase b1/2 pending");
  play("tick 599");
  ASSERT_NE(row("b1"), nullptr);
  play("tick 1");
  EXPECT_TRUE(row("b1") == nullptr || !row("b1")->stands());
}

class OnlyOneWay : public Movers {
 protected:
  explicit OnlyOneWay(bool evicting) : Movers(only(evicting)) {}
  static Options only(bool evicting) {
    Options options = proposing();
    options.proposing.evicting = evicting;
    options.proposing.moving = !evicting;
    return options;
  }
};

class OnlyMoves : public OnlyOneWay {
 protected:
  OnlyMoves() : OnlyOneWay(false) {}
};

TEST_F(OnlyMoves, NobodyIsEvicted) {
  two_halves();
  runs("a2", "1x2");
  play("want big/1 1x8 prio=10 may=own");
  EXPECT_EQ(ways("big"), "");
  play("phase a2/1 finished");
  play("pod-gone a2/1#0");
  play("tick 60");
  EXPECT_EQ(ways("big"), "b1>a");
}

class OnlyEvictions : public OnlyOneWay {
 protected:
  OnlyEvictions() : OnlyOneWay(true) {}
};

TEST_F(OnlyEvictions, NobodyIsMoved) {
  two_halves();
  play("want equal/1 1x8");
  EXPECT_EQ(ways("equal"), "");
  play("phase equal/1 cancelled");
  play("want big/1 1x8 prio=10 may=own");
  EXPECT_EQ(ways("big"), "b1");
}

class Dear : public Movers {
 protected:
  static Options dear() {
    Options options = proposing();
    options.proposing.most_lost =
        91;  // GPU-seconds for each GPU: half as much again as four of eight GPUs lose in a minute and two
    return options;
  }
  Dear() : Movers(dear()) {}
};

TEST_F(Dear, WhoWouldLoseTooMuchIsNotMovedForAnEqual) {
  two_halves();
  play("want big/1 1x8");
  EXPECT_EQ(ways("big"), "b1>a") << "4 GPUs lose 181 s each, for 8";
  play("phase big/1 cancelled");
  play("tick 2");
  play("want late/1 1x8");
  EXPECT_EQ(ways("late"), "");
  play("want boss/1 1x8 prio=10 may=own");
  play("tick 1");
  EXPECT_EQ(ways("boss"), "b1>a") << "who could be evicted may lose so much";
}

class MoversInRacks : public Movers {
 protected:
  static Options racks() {
    Options options = proposing();
    options.topology = {"rack"};
    return options;
  }
  MoversInRacks() : Movers(racks()) {}
  /// A pair fills most of one rack, and some GPUs of the next rack are in use for the whole test.
  void pair_and_others(int on_c, int on_d) {
    for (const char* node : {"a", "b"}) play(fmt::format("node {} gpus=8 label=rack=r1", node));
    play("synced");
    runs("pair", "2x5", "required=rack");
    for (const char* node : {"c", "d", "e"})
      play(fmt::format("node {0} gpus=8 label=host={0} label=rack=r{1}", node, *node == 'e' ? 3 : 2));
    run_on("c1", "c", fmt::format("1x{}", on_c));
    run_on("d1", "d", fmt::format("1x{}", on_d));
    for (const char* job : {"c1", "d1"}) play(fmt::format("phase {}/1 admitted kept=900", job));
    play("tick 10");
    play("want ring/1 2x8 required=rack");
  }
};

TEST_F(MoversInRacks, AGangGoesAsAWholeIntoAnotherRack) {
  pair_and_others(3, 3);
  EXPECT_EQ(ways("ring"), "pair>c>d");
}

TEST_F(MoversInRacks, NoGangThatWouldBeTornApart) {
  pair_and_others(3, 4);
  EXPECT_EQ(ways("ring"), "") << "a pod fits c, and one e, which is in another rack";
}

}  // namespace movers_test
}  // namespace qm::placement::testing
